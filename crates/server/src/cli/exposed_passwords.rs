//! Passwords in the URLs of a command line, where other users of the host and the shell's history have them.

use std::ffi::OsString;

/// The flags whose URLs have a password in them, and the alternative of each.
pub(super) fn exposed(args: impl Iterator<Item = OsString>) -> Vec<(&'static str, &'static str)> {
    const FLAGS: [(&str, &str); 3] = [
        ("--registry", "set EVENKEEL_REGISTRY_PASSWORD, or say ?password_file=FILE in it"),
        ("--history", "set EVENKEEL_HISTORY_PASSWORD, or say ?password_file=FILE in it"),
        ("--to", "say ?password_file=FILE in it"),
    ];
    let args: Vec<_> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let has_password = |url: &str| {
        let hosts = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next());
        let login = hosts.and_then(|hosts| hosts.rsplit_once('@'));
        login.is_some_and(|(login, _)| login.contains(':'))
    };
    let is_exposed = |flag: &str| {
        let apart = args.windows(2).any(|pair| pair[0] == flag && has_password(&pair[1]));
        let joined = |arg: &String| arg.strip_prefix(flag)?.strip_prefix('=').map(has_password);
        apart || args.iter().any(|arg| joined(arg) == Some(true))
    };
    FLAGS.into_iter().filter(|(flag, _)| is_exposed(flag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_on_the_command_line_is_named() {
        let flags = |line: &str| {
            let exposed = exposed(line.split(' ').map(OsString::from));
            exposed.into_iter().map(|(flag, _)| flag).collect::<Vec<_>>()
        };
        assert_eq!(flags("evenkeel serve --registry etcd://u:p@h"), ["--registry"]);
        assert_eq!(
            flags("evenkeel serve --registry=mysql://u:p@h/d --history postgres://u:p@h/d"),
            ["--registry", "--history"]
        );
        assert_eq!(flags("evenkeel cluster move --registry sqlite:a:b@c --to redis://:p@h/0"), ["--to"]);
        for fine in [
            "--registry etcd://u@h:2379",
            "--registry postgres://u@h:5432/d?password_file=/x@y",
            "--registry zookeeper://h1:1,h2:2/n",
            "--name u:p@h",
            "--registry",
        ] {
            assert_eq!(flags(&format!("evenkeel serve {fine}")), [""; 0], "{fine}");
        }
    }
}
