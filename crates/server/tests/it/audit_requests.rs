//! What can be asked for at each address that changes something, and what the audit log must say of it.

/// What is asked for at an address: the rest of the address, the body, and what must come of it.
pub(crate) type ExpectedResponses = Vec<(String, &'static str, &'static str)>;

/// What can be asked for at each address of the program's own list, well and badly.
pub(crate) fn requests(change: &str, ended: &str, running: &str) -> ExpectedResponses {
    let all = |list: &[(&str, &'static str, &'static str)]| -> ExpectedResponses {
        list.iter().map(|(path, body, outcome)| ((*path).to_owned(), *body, *outcome)).collect()
    };
    match change {
        "POST /api/v1/jobs/apply" => all(&[
            ("jobs/apply", r#"{"jobs":[{"name":"x","command":["/bin/true"]}]}"#, "applied"),
            ("jobs/apply", r#"{"jobs":[{"name":"x","command":["/bin/true"]}]}"#, "unchanged"),
            ("jobs/apply", r#"{"jobs":[{"name":"x","schedule":"never"}]}"#, "refused"),
            ("jobs/apply", r#"{"jobs":7}"#, "refused"),
        ]),
        "POST /api/v1/jobs/claim" => all(&[("jobs/claim", "", "applied")]),
        "PUT /api/v1/jobs/{name}" => all(&[
            ("jobs/put", r#"{"name":"put","command":["/bin/true"]}"#, "applied"),
            ("jobs/put", r#"{"name":"put","command":["/bin/true"]}"#, "unchanged"),
            ("jobs/put", r#"{"name":"other","command":["/bin/true"]}"#, "refused"),
        ]),
        "DELETE /api/v1/jobs/{name}" => {
            all(&[("jobs/x", "", "applied"), ("jobs/x", "", "refused"), ("jobs/a%20b", "", "refused")])
        }
        "POST /api/v1/jobs/{name}/{verb}" => all(&[
            ("jobs/j/pause", "", "applied"),
            ("jobs/j/pause", "", "unchanged"),
            ("jobs/j/resume", "", "applied"),
            ("jobs/j/disable", "", "applied"),
            ("jobs/j/run", "", "refused"),
            ("jobs/j/enable", "", "applied"),
            ("jobs/j/run", r#"{"request":"once"}"#, "applied"),
            ("jobs/s/pause?node=a", "", "applied"),
            ("jobs/s/shutdown", "", "applied"),
            ("jobs/nobody/pause", "", "refused"),
            ("jobs/j/fly", "", "refused"),
            ("jobs/j/run", "{", "refused"),
        ]),
        "POST /api/v1/jobs/{name}/shards/{set}/{verb}" => all(&[
            ("jobs/s/shards/0/disable", "", "applied"),
            ("jobs/s/shards/0/disable", "", "unchanged"),
            ("jobs/s/shards/9/disable", "", "refused"),
            ("jobs/s/shards/0/fly", "", "refused"),
        ]),
        "PUT /api/v1/calendars/{name}" => all(&[
            ("calendars/c", r#"{"name":"c","days":["12-25"]}"#, "applied"),
            ("calendars/c", r#"{"name":"d","days":["12-25"]}"#, "refused"),
        ]),
        "DELETE /api/v1/calendars/{name}" => {
            all(&[("calendars/c", "", "applied"), ("calendars/c", "", "refused")])
        }
        "PUT /api/v1/secrets/{name}" => all(&[
            ("secrets/s", r#"{"value":"hunter2"}"#, "applied"),
            ("secrets/s", r#"{"value":"hunter2"}"#, "applied"),
            ("secrets/s", r#"{"value":""}"#, "refused"),
            ("secrets/nowhere%2Fs", r#"{"value":"hunter2"}"#, "refused"),
        ]),
        "DELETE /api/v1/secrets/{name}" => all(&[("secrets/s", "", "applied"), ("secrets/s", "", "refused")]),
        "POST /api/v1/jobs/{name}/accept" => all(&[
            ("jobs/j/accept", r#"{"revision":1}"#, "unchanged"),
            ("jobs/nothing/accept", r#"{"revision":1}"#, "refused"),
        ]),
        "POST /api/v1/jobs/{name}/rollback" => all(crate::job_versions::ROLLBACKS),
        // The run of the job that goes on keeps all fires of it back.
        "POST /api/v1/jobs/{name}/backfill" => all(&[
            ("jobs/long/backfill", r#"{"from":"2024-06-01T00:00:00Z","dry_run":true}"#, "unchanged"),
            ("jobs/long/backfill", r#"{"from":"2024-06-01T00:00:00Z","request":"b"}"#, "applied"),
            ("jobs/long/backfill", r#"{"from":"2999-06-01T00:00:00Z"}"#, "refused"),
            ("jobs/j/backfill", r#"{"from":"1h"}"#, "refused"),
            ("jobs/nothing/backfill", r#"{"from":"1h"}"#, "refused"),
        ]),
        "DELETE /api/v1/jobs/{name}/backfill/{id}" => all(&[
            ("jobs/long/backfill/b", "", "applied"),
            ("jobs/long/backfill/b", "", "unchanged"),
            ("jobs/long/backfill/x", "", "refused"),
        ]),
        "POST /api/v1/bulk/jobs/{verb}" => all(&[
            ("bulk/jobs/pause", r#"{"jobs":["j"]}"#, "applied"),
            ("bulk/jobs/resume", r#"{"jobs":["j"]}"#, "applied"),
            ("bulk/jobs/pause", "", "refused"),
        ]),
        "PUT /api/v1/namespaces/{name}" => all(&[
            ("namespaces/team", r#"{"jobs_max":7}"#, "applied"),
            ("namespaces/team", r#"{"jobs_max":7}"#, "unchanged"),
            ("namespaces/team", r#"{"jobs_max":0}"#, "refused"),
            ("namespaces/team", r#"{"name":"other"}"#, "refused"),
        ]),
        "DELETE /api/v1/namespaces/{name}" => all(&[
            ("namespaces/team", "", "applied"),
            ("namespaces/team", "", "refused"),
            ("namespaces/default", "", "refused"),
        ]),
        "DELETE /api/v1/runs/{run}/logs" => vec![
            (format!("runs/{ended}/logs"), "", "applied"),
            ("runs/j:ask-nobody:0/logs".to_owned(), "", "refused"),
        ],
        "POST /api/v1/runs/{run}/kill" => vec![
            (format!("runs/{running}/kill"), "", "applied"),
            (format!("runs/{ended}/kill"), "", "refused"),
            ("runs/j:ask-nobody:0/kill".to_owned(), "", "refused"),
        ],
        "POST /api/v1/runs/{run}/restart" => vec![
            (format!("runs/{ended}/restart"), "", "applied"),
            ("runs/j:ask-nobody:0/restart".to_owned(), "", "refused"),
        ],
        "POST /api/v1/nodes/{name}/{verb}" => all(&[
            ("nodes/a/drain", r#"{"force":true}"#, "applied"),
            ("nodes/a/undrain", "", "applied"),
            ("nodes/a/cordon", "", "applied"),
            ("nodes/a/cordon", "", "unchanged"),
            ("nodes/a/uncordon", "", "applied"),
            ("nodes/a/activate", "", "unchanged"),
            ("nodes/nobody/drain", "", "refused"),
            ("nodes/a/fly", "", "refused"),
        ]),
        "PUT /api/v1/users/{name}" => all(&[
            ("users/ann", r#"{"roles":["viewer"]}"#, "applied"),
            ("users/ann", r#"{"roles":["viewer"]}"#, "unchanged"),
            ("users/ann", r#"{"version":7}"#, "refused"),
            ("users/ann", r#"{"password":"short"}"#, "refused"),
        ]),
        "POST /api/v1/users/{name}/logout" => all(&[("users/bob/logout", "", "refused")]),
        "DELETE /api/v1/users/{name}" => all(&[("users/ann", "", "applied"), ("users/ann", "", "refused")]),
        "POST /api/v1/whoami/password" => all(&[("whoami/password", r#"{"old":"x","new":"y"}"#, "refused")]),
        "POST /api/v1/tokens" => all(&[
            ("tokens", r#"{"name":"ci","roles":["viewer"]}"#, "applied"),
            ("tokens", r#"{"name":"ci","roles":["viewer"]}"#, "refused"),
        ]),
        "POST /api/v1/tokens/{name}/rotate" => all(&[("tokens/ci/rotate", "", "applied")]),
        "DELETE /api/v1/tokens/{name}" => all(&[("tokens/ci", "", "applied"), ("tokens/ci", "", "refused")]),
        // Their callers have a token of their own: `hooks.rs` looks at their entries.
        "POST /api/v1/hooks" | "POST /api/v1/hooks/{token}" => Vec::new(),
        "POST /api/v1/login-links" => all(&[("login-links", "", "applied")]),
        "POST /api/v1/cluster/settings" => all(&[
            ("cluster/settings", r#"{"beat":"30s"}"#, "applied"),
            ("cluster/settings", r#"{"beat":"30s"}"#, "unchanged"),
            ("cluster/settings", r#"{"beat":"0s"}"#, "refused"),
        ]),
        "POST /api/v1/cluster/finalize-upgrade" => all(&[("cluster/finalize-upgrade", "", "unchanged")]),
        "POST /api/v1/cluster/join-tokens" => all(&[
            ("cluster/join-tokens", r#"{"for":"b","ttl":"5m"}"#, "applied"),
            ("cluster/join-tokens", r#"{"ttl":"8d"}"#, "refused"),
        ]),
        other => panic!("{other} changes something, and nothing is asked there: say here what"),
    }
}
