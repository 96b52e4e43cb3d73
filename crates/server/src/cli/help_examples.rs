//! Examples at the end of the help of the verbs that people use most, and in the reference.

use clap::Command;

/// The words of a verb, and what people write.
const EXAMPLES: &[(&[&str], &[&str])] = &[
    (
        &["apply"],
        &[
            "evenkeel apply -f jobs/ --plan",
            "evenkeel apply -f jobs/ --owner billing --prune --wait=2m",
            "evenkeel apply -f - < jobs.toml",
        ],
    ),
    (&["export"], &["evenkeel export -l team=billing > billing.toml", "evenkeel export -A --dir backup"]),
    (
        &["job", "new"],
        &[
            "evenkeel job new nightly --schedule '0 3 * * *' --timezone Europe/Berlin --command /usr/bin/backup -- --all",
            "evenkeel job new clean --schedule '@every 15m' --sh 'find /tmp/cache -mmin +60 -delete'",
            "evenkeel job new ping --schedule @hourly --http https://example.org/ping --file ping.toml",
        ],
    ),
    (
        &["job", "list"],
        &["evenkeel job list -l team=billing", "evenkeel job list -A --columns name,next,last-outcome"],
    ),
    (
        &["job", "next"],
        &[
            "evenkeel job next nightly --count 10",
            "evenkeel job next --schedule '0 9 * * 1-5' --timezone Europe/Berlin",
        ],
    ),
    (
        &["job", "logs"],
        &["evenkeel job logs nightly", "evenkeel job logs nightly --grep 'disk full' --runs 50"],
    ),
    (
        &["job", "run"],
        &[
            "evenkeel job run nightly --follow",
            "evenkeel job run nightly --param day=2026-01-31",
            "evenkeel job run -l team=billing --dry-run",
        ],
    ),
    (
        &["job", "backfill"],
        &[
            "evenkeel job backfill nightly --from 7d --dry-run",
            "evenkeel job backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --max-parallel 2",
        ],
    ),
    (&["job", "pause"], &["evenkeel job pause nightly", "evenkeel job pause -l team=billing --dry-run"]),
    (
        &["run", "list"],
        &["evenkeel run list --state failed,lost --since 1d", "evenkeel run list --job nightly --watch=5s"],
    ),
    (&["run", "logs"], &["evenkeel run logs nightly", "evenkeel run logs nightly:1767225600000:0 --follow"]),
    (&["run", "retry"], &["evenkeel run retry --failed --since 6h --dry-run"]),
    (&["node", "drain"], &["evenkeel node drain n1 --wait --timeout 10m"]),
    (&["report"], &["evenkeel report --day yesterday --strict"]),
    (
        &["token", "create"],
        &["evenkeel token create grafana --role viewer", "evenkeel token create ci-hook --trigger deploy"],
    ),
    (
        &["context", "add"],
        &[
            "evenkeel context add prod --server https://n1.example.org:7700 --cluster-key-file ~/.config/prod.token",
        ],
    ),
    (
        &["import", "crontab"],
        &["crontab -l | evenkeel import crontab - --dry-run", "evenkeel import crontab /etc/crontab --plan"],
    ),
    (
        &["serve"],
        &[
            "evenkeel serve --name n1 --registry etcd://etcd1,etcd2,etcd3 --data /var/lib/evenkeel --listen 10.0.0.7",
            "evenkeel serve --config /etc/evenkeel.toml",
        ],
    ),
];

/// The command line with the examples in its help.
pub(super) fn with_examples(root: Command) -> Command {
    with_own(root, &[])
}

/// The verb at this path with its examples, and with those of the verbs below it.
fn with_own(command: Command, path: &[String]) -> Command {
    let own = EXAMPLES.iter().find(|(words, _)| *words == path);
    let command = match own {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    };
    command.mut_subcommands(|verb| {
        let path = [path, &[verb.get_name().to_owned()]].concat();
        with_own(verb, &path)
    })
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;

    /// The words of an example as a shell passes them, without what it pipes or redirects.
    fn words(line: &str) -> Vec<String> {
        let line = line.rsplit('|').next().unwrap_or(line);
        let line = line
            .split([' ', '\n'])
            .take_while(|word| !["<", ">"].contains(word))
            .collect::<Vec<_>>()
            .join(" ");
        let pieces = line.split('\'').enumerate().flat_map(|(n, piece)| match n % 2 {
            0 => piece.split_whitespace().map(ToOwned::to_owned).collect(),
            _ => vec![piece.to_owned()],
        });
        pieces.collect()
    }

    #[test]
    fn each_example_is_a_command_line_of_its_verb_and_in_its_help() {
        for (path, lines) in EXAMPLES {
            let root = command();
            let verb = path.iter().fold(&root, |at, word| at.find_subcommand(word).expect("a verb"));
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(lines.iter().all(|line| help.contains(line)), "{path:?}: {help}");
            for line in *lines {
                let matches = command().try_get_matches_from(words(line));
                let matches = matches.unwrap_or_else(|e| panic!("{line}: {e}"));
                assert_eq!(super::super::leaf(&matches).0, *path, "{line}");
            }
        }
    }
}
