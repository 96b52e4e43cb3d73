//! `/metrics`: what a monitoring system reads, and the rules and dashboard that come with it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::process::{ServerProcess, repository, text, until};

/// A job that ends well and one that fails, each second; the metrics once both have run.
fn scraped(node: &ServerProcess) -> String {
    let jobs = "[[job]]\nname = \"well\"\nschedule = \"* * * * * *\"\ncommand = [\"true\"]\n\
                [[job]]\nname = \"team-a/ill\"\nschedule = \"* * * * * *\"\ncommand = [\"false\"]\n";
    node.ok(&["namespace", "create", "team-a"]);
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    until("both jobs have run", || {
        let text = scrape(node, "");
        let has = |line: &str| text.lines().any(|known| known.starts_with(line) && !known.ends_with(" 0"));
        // The second measurement of the host is the first that says something.
        (text.contains("\nevenkeel_host_processors_used_ratio ")
            && has("evenkeel_fires_total{namespace=\"default\",outcome=\"succeeded\"}")
            && has("evenkeel_fires_total{namespace=\"team-a\",outcome=\"failed\"}"))
        .then_some(text)
    })
}

/// The metrics, with these further lines of the head.
fn scrape(node: &ServerProcess, more: &str) -> String {
    let head = format!("GET /metrics HTTP/1.1\nHost: {}{more}", node.address);
    let (status, answer) = node.raw(&head, b"");
    assert_eq!(status, 200, "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// A metric of a scrape: its type, its labels but those of buckets, and its help.
#[derive(Debug, Default, PartialEq, Eq)]
struct Documented {
    kind: String,
    labels: BTreeSet<String>,
    help: String,
}

/// The metrics of a scrape by name.
fn documented(scrape: &str) -> BTreeMap<String, Documented> {
    let mut found: BTreeMap<String, Documented> = BTreeMap::new();
    let mut last = String::new();
    for line in scrape.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            last = name.to_owned();
            found.entry(last.clone()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            found.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((_, labels)) = line.split_once('{') {
            let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
            let keys = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            let metric = found.entry(last.clone()).or_default();
            metric.labels.extend(keys.filter(|key| key != "le"));
        }
    }
    found
}

fn table(metrics: &BTreeMap<String, Documented>) -> String {
    let mut rows = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, Documented { kind, labels, help }) in metrics {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        rows.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    rows
}

#[test]
fn the_metrics_are_those_of_the_table_and_of_the_rules_and_the_dashboard() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let found = documented(&scraped(&node));
    let (begin, end) = ("<!-- the table is made of a scrape -->\n", "<!-- end of the table -->\n");
    let path = repository("docs/metrics.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(begin).expect("the table begins");
    let (kept, after) = rest.split_once(end).expect("the table ends");
    let made = table(&found);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{begin}{made}{end}{after}")).expect("written");
    } else {
        assert_eq!(kept, made, "docs/metrics.md drifted: UPDATE=1 cargo test -p evenkeel-server");
    }
    for file in ["deploy/prometheus/evenkeel.rules.yaml", "deploy/grafana/evenkeel.json"] {
        let text = std::fs::read_to_string(repository(file)).expect(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
        let named: BTreeSet<&str> =
            words.filter(|word| word.starts_with("evenkeel_") || word.starts_with("process_")).collect();
        assert!(named.len() > 8, "{file} names {named:?}");
        for name in named {
            let parts = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            assert!(found.contains_key(parts.unwrap_or(name)), "{file}: there is no metric {name}");
        }
    }
}

#[test]
fn a_monitoring_system_needs_a_viewers_token_and_no_host_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let get = |host: &str, more: &str| node.bare(&format!("GET /metrics HTTP/1.1\nHost: {host}{more}"), b"");
    let own = node.address.to_string();
    assert_eq!(get(&own, "").0, 401);
    let made = node.json(&["token", "create", "prometheus", "--role", "viewer"]);
    let token = format!("\nAuthorization: Bearer {}", made["token"].as_str().expect("a token"));
    for host in [own.as_str(), "10.1.2.3:7700", "evenkeel-0.evenkeel.default.svc:7700"] {
        let (status, answer) = get(host, &token);
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("evenkeel_member 1"), "{answer}");
    }
    // A role in one namespace does not show what all do.
    node.ok(&["namespace", "create", "team-a"]);
    // The first failure of a namespace is an increase only if its series begins before.
    until("the namespace has its series", || {
        scrape(&node, "")
            .contains("evenkeel_fires_total{namespace=\"team-a\",outcome=\"failed\"} 0\n")
            .then_some(())
    });
    let made = node.json(&["token", "create", "team", "--role", "viewer:team-a"]);
    let narrow = format!("\nAuthorization: Bearer {}", made["token"].as_str().expect("a token"));
    assert_eq!(get(&own, &narrow).0, 403);
    let open = scrape(&node, "\nAccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(open.ends_with("# EOF\n") && open.matches("# EOF").count() == 1, "{open}");
    // A caller cannot make labels up.
    node.raw(&format!("BREW /metrics HTTP/1.1\nHost: {own}"), b"");
    node.raw(&format!("GET /none/of/these HTTP/1.1\nHost: {own}"), b"");
    let text = scrape(&node, "");
    assert!(
        text.contains("evenkeel_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1"),
        "{text}"
    );
    assert!(!text.contains("BREW") && !text.contains("/none/of"), "{text}");
}

/// Runs `promtool`, where it is installed; where `REQUIRE=all` it has to be.
fn promtool(args: &[&str], input: &str) -> Option<String> {
    let child = Command::new("promtool")
        .args(args)
        .current_dir(repository("deploy/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        assert!(
            !std::env::var("REQUIRE").is_ok_and(|which| which == "all"),
            "Debian's prometheus has promtool"
        );
        println!("SKIPPED promtool: Debian's package prometheus has it");
        return None;
    };
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
    Some(text(&out.stdout))
}

#[test]
fn promtool_accepts_the_rules_their_tests_and_a_scrape() {
    let Some(said) = promtool(&["check", "rules", "evenkeel.rules.yaml"], "") else { return };
    assert!(said.contains("SUCCESS"), "{said}");
    promtool(&["test", "rules", "evenkeel.rules.test.yaml"], "");
    promtool(&["check", "config", "--syntax-only", "prometheus.yaml"], "");
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    promtool(&["check", "metrics"], &scraped(&node));
}
