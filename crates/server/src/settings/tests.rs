//! What settings mean, and which are refused.

use super::*;

fn least() -> SettingsArgs {
    SettingsArgs {
        registry: Some("sqlite:/r".to_owned()),
        name: Some("a".to_owned()),
        data: Some("/d".into()),
        ..SettingsArgs::default()
    }
}

/// proves: S0-06
#[test]
fn the_defaults_are_as_documented() {
    let meant = least().resolve().expect("it makes sense");
    assert_eq!(meant.listen.to_string(), "127.0.0.1:7700");
    let node = meant.node;
    assert_eq!((node.ttl.as_secs(), node.tolerance, node.alarm, node.slots), (15, 1, 100, 64));
}

/// proves: S1-35, S1-36
#[test]
fn flags_win_over_the_file() {
    let networks = |text: &str| vec![text.to_owned()];
    let file = SettingsArgs {
        port: Some(PortSetting::from(1)),
        tolerance: Some(3),
        alarm: Some(7),
        http_allow: networks("10.0.0.0/8"),
        ..least()
    };
    let flags = SettingsArgs { port: Some(PortSetting::from(2)), ..SettingsArgs::default() };
    let linked = SettingsArgs { port: port("tcp://10.96.0.5:7700").ok(), ..SettingsArgs::default() };
    assert_eq!(linked.merged_over(file.clone()).resolve().expect("it makes sense").listen.port(), 1);
    assert!(port("tcp").is_err());
    let meant = flags.clone().merged_over(file.clone()).resolve().expect("it makes sense");
    assert_eq!((meant.listen.port(), meant.node.tolerance, meant.node.alarm), (2, 3, 7));
    assert_eq!(meant.node.http_allow[0].to_string(), "10.0.0.0/8");
    assert!(meant.node.cgroups);
    let off = SettingsArgs { cgroups: Some("off".to_owned()), ..least() };
    let kept = SettingsArgs { cgroups: Some("auto".to_owned()), ..least() }
        .merged_over(off.clone())
        .resolve()
        .expect("it makes sense");
    assert!(kept.node.cgroups && !off.resolve().expect("it makes sense").node.cgroups);
    let meant = SettingsArgs { http_allow: networks("::1"), ..flags }.merged_over(file).resolve();
    let allowed = meant.expect("it makes sense").node.http_allow;
    assert_eq!(allowed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["::1/128"]);
}

/// proves: S1-17, S1-53, S1-94
#[test]
fn nonsense_is_refused_with_the_fix() {
    let ip = |text: &str| Some(text.parse().expect("an address"));
    let text = |text: &str| Some(text.to_owned());
    let labels = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    for (written, says) in [
        (SettingsArgs { name: None, ..least() }, "say --name NAME"),
        (SettingsArgs { registry: None, ..least() }, "say --registry URL"),
        (SettingsArgs { data: None, ..least() }, "say --data DIR"),
        (SettingsArgs { name: text("a b"), ..least() }, "node name \"a b\" is not allowed"),
        (
            SettingsArgs { ttl: text("1s"), ..least() },
            "--ttl `1s`: the span must be at least 2s and at most 1h",
        ),
        (
            SettingsArgs { wait_for_name: text("0s"), ..least() },
            "--wait-for-name `0s`: the span must be at least 1s",
        ),
        (SettingsArgs { ttl: text("15"), ..least() }, "--ttl `15`: write numbers with a unit"),
        (SettingsArgs { ttl: text("99999999999999999999h"), ..least() }, "at least 2s and at most 1h"),
        (SettingsArgs { tolerance: Some(0), ..least() }, "at least 1"),
        (SettingsArgs { slots: Some(0), ..least() }, "at least 1"),
        (
            SettingsArgs { audit_keep: text("23h"), ..least() },
            "--audit-keep `23h`: the span must be at least 1d",
        ),
        (
            SettingsArgs { summary_keep: text("1h"), ..least() },
            "--summary-keep `1h`: the span must be at least 1d",
        ),
        (SettingsArgs { quota: text("most"), ..least() }, "write now or larger"),
        (SettingsArgs { cgroups: text("on"), ..least() }, "write auto or off"),
        (
            SettingsArgs { trusted_proxy: labels(&["10.1.0.0/8"]), ..least() },
            "--trusted-proxy: \"10.1.0.0/8\"",
        ),
        (SettingsArgs { allowed_origin: labels(&["tools.example"]), ..least() }, "write https://HOST"),
        (SettingsArgs { allowed_origin: labels(&["https://a.example/x"]), ..least() }, "write https://HOST"),
        (SettingsArgs { watchdog: text("auto"), ..least() }, "write on or off"),
        (SettingsArgs { join: text("evenkeel1/x"), ..least() }, "--join is no token: make one with"),
        (SettingsArgs { tls_cert: Some("/c".into()), ..least() }, "--tls-cert and --tls-key belong together"),
        (SettingsArgs { tls: text("maybe"), ..least() }, "--tls is \"maybe\": write auto, on or off"),
        (SettingsArgs { command_users: labels(&["any", "root"]), ..least() }, "own or any alone"),
        (SettingsArgs { command_umask: text("9"), ..least() }, "octal digits up to 777"),
        (SettingsArgs { no_new_privileges: text("yes"), ..least() }, "write on or off"),
        (SettingsArgs { listen: ip("0.0.0.0"), ..least() }, "a key is needed"),
        (SettingsArgs { listen: ip("10.0.0.7"), ..least() }, "a key is needed"),
        (SettingsArgs { listen: ip("::"), ..least() }, "a key is needed"),
        (SettingsArgs { advertise: text("10.0.0.7"), ..least() }, "write IP:PORT"),
        (
            SettingsArgs { http_allow: vec!["lan".to_owned()], ..least() },
            "--http-allow: \"lan\" is no network",
        ),
        (SettingsArgs { http_allow: vec!["10.1.0.0/8".to_owned()], ..least() }, "write 10.0.0.0/8"),
        (SettingsArgs { advertise: text("a b:1"), ..least() }, "write IP:PORT"),
        (SettingsArgs { data: Some("".into()), ..least() }, "say --data DIR"),
        (
            SettingsArgs { secrets: Some("/nonexistent".into()), ..least() },
            "make the folder with `mkdir -m 700 /nonexistent`",
        ),
        (
            SettingsArgs { secrets: Some("/dev/null".into()), ..least() },
            "--secrets /dev/null: it is no folder",
        ),
        (
            SettingsArgs { secrets: Some("/tmp".into()), ..least() },
            "everybody on this host may put files there (mode 777): chmod 700 /tmp",
        ),
        (SettingsArgs { allowed_host: labels(&["*.example.org"]), ..least() }, "without port or wildcard"),
        (SettingsArgs { allowed_host: labels(&["a.example.org:80"]), ..least() }, "without port or wildcard"),
        (SettingsArgs { allowed_host: labels(&[""]), ..least() }, "without port or wildcard"),
        (SettingsArgs { label: labels(&["g p u"]), ..least() }, "--label: label \"g p u\" is not allowed"),
        (SettingsArgs { label: labels(&["name=n1"]), ..least() }, "choose another word"),
        (SettingsArgs { label: labels(&["zone=eu", "zone=us"]), ..least() }, "are one: choose"),
    ] {
        let failure = written.clone().resolve().expect_err("it is nonsense");
        assert!(failure.message.contains(says), "{written:?}: {failure}");
    }
}
