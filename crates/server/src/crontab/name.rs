//! Names for crontab entries, made of the file and the command, so that moving a line renames nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::digest;

/// Words of a shell line that do not help to tell its purpose.
const DULL: [&str; 28] = [
    "bin", "cd", "command", "do", "done", "else", "env", "exec", "false", "fi", "flock", "if", "ionice",
    "nice", "nohup", "null", "or", "setsid", "sh", "bash", "sleep", "sudo", "test", "then", "time",
    "timeout", "true", "while",
];
const WORDS: usize = 3;
const LENGTH: usize = 48;

/// The parts of an entry that its name depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameCandidate {
    /// The command.
    pub(super) command: String,
    /// The schedule.
    pub(super) schedule: String,
    /// What else distinguishes entries of the same command and schedule: zone, user, input.
    pub(super) more: String,
}

/// Names all entries of a crontab: each name has the file's name and the words of the command.
///
/// Entries with the same words are distinguished by their commands and schedules, never by their position, so that
/// removing one renames no other. `known` has the jobs of an earlier import and their schedules: an entry with a plain
/// name keeps it when another one with the same words comes; a distinguished one keeps its name when the other goes.
pub(super) fn all(prefix: &str, entries: &[NameCandidate], known: &BTreeMap<String, String>) -> Vec<String> {
    let bases: Vec<String> = entries.iter().map(|entry| base(prefix, &entry.command)).collect();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, base) in bases.iter().enumerate() {
        groups.entry(base).or_default().push(at);
    }
    let mut names = vec![String::new(); entries.len()];
    let mut given = BTreeSet::new();
    for (base, group) in groups {
        let kept = known.get(base).and_then(|schedule| {
            group.iter().find(|at| shown(&entries[**at].schedule) == *schedule).copied()
        });
        for at in group.iter().copied() {
            let alike = group.iter().filter(|other| entries[**other].command == entries[at].command).count();
            let (by_command, by_times) = digest_names(base, &entries[at]);
            let name = match group.len() {
                1 if kept.is_some() => base.to_owned(),
                1 if known.contains_key(&by_times) => by_times,
                1 if known.contains_key(&by_command) => by_command,
                1 => base.to_owned(),
                _ if kept == Some(at) => base.to_owned(),
                _ if alike == 1 && !known.contains_key(&by_times) => by_command,
                _ => by_times,
            };
            // Only identical entries are numbered, and their order does not matter.
            let mut count = 1;
            names[at].clone_from(&name);
            while !given.insert(names[at].clone()) {
                count += 1;
                names[at] = format!("{name}-{count}");
            }
        }
    }
    names
}

/// A schedule as lists of jobs show it.
fn shown(schedule: &str) -> String {
    schedule.replace('\n', "; ")
}

/// The longer names of an entry that shares its words: by its whole command, so that its schedule may change; and by
/// all its parts, if only they distinguish it.
fn digest_names(base: &str, entry: &NameCandidate) -> (String, String) {
    let NameCandidate { command, schedule, more } = entry;
    let mark = |text: &str| format!("{base}-{}", digest(text.as_bytes()).chars().take(4).collect::<String>());
    (mark(command), mark(&format!("{schedule}\n{command}\n{more}")))
}

/// The base name of an entry, by its command alone: `crontab-run-parts-cron.hourly`.
fn base(prefix: &str, command: &str) -> String {
    let mut name = narrow(prefix);
    for word in significant_words(command).take(WORDS) {
        if name.len() + word.len() >= LENGTH {
            break;
        }
        name = if name.is_empty() { word } else { format!("{name}-{word}") };
    }
    if name.is_empty() { "crontab".to_owned() } else { name }
}

/// The words that distinguish an entry: programs and paths by their last part, no options, no shell words.
fn significant_words(command: &str) -> impl Iterator<Item = String> + '_ {
    let parts = command.split(|c: char| c.is_whitespace() || ";|&(){}<>\"'`$".contains(c));
    parts.filter(|part| !part.starts_with('-') && !part.contains('=')).filter_map(|part| {
        let word = narrow(part.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
        let number = word.chars().all(|c| c.is_ascii_digit());
        (!number && !DULL.contains(&word.as_str())).then_some(word)
    })
}

/// The characters that a name may contain, beginning with a letter or a digit.
fn narrow(text: &str) -> String {
    let kept = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let text: String = text.chars().filter(kept).collect();
    text.trim_start_matches(['.', '_', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[(&str, &str)]) -> Vec<NameCandidate> {
        let entry = |(schedule, command): &(&str, &str)| NameCandidate {
            command: (*command).to_owned(),
            schedule: (*schedule).to_owned(),
            more: String::new(),
        };
        list.iter().map(entry).collect()
    }

    #[test]
    fn names_tell_what_an_entry_is_for() {
        for (command, name) in [
            ("cd / && run-parts --report /etc/cron.hourly", "crontab-run-parts-cron.hourly"),
            (
                "test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }",
                "crontab-anacron-run-parts-cron.daily",
            ),
            ("/usr/local/bin/backup.sh --full /home >/dev/null 2>&1", "crontab-backup.sh-home"),
            ("mail -s \"It's 10pm\" joe", "crontab-mail-It-s"),
            ("; ;", "crontab"),
        ] {
            assert_eq!(
                all("crontab", &entries(&[("@daily", command)]), &BTreeMap::new()),
                [name],
                "{command}"
            );
        }
    }

    #[test]
    fn twins_are_told_apart_by_their_times_and_taking_one_out_renames_none() {
        let play = "/usr/local/bin/play.sh";
        let (a, b, c) = (("30 6 * * *", play), ("0 19 * * *", play), ("0 13 * * *", play));
        let none = BTreeMap::new();
        let named = |list: &[(&str, &str)], known: &BTreeMap<String, String>| all("t", &entries(list), known);
        let three = named(&[a, b, c], &none);
        assert!(three.iter().all(|name| name.starts_with("t-play.sh-")), "{three:?}");
        assert_eq!(BTreeSet::from_iter(&three).len(), 3);
        assert_eq!(named(&[b, c], &none), three[1..]);
        assert_eq!(named(&[c, a, b], &none), [&three[2], &three[0], &three[1]].map(Clone::clone));
        // An entry that becomes the only one keeps its name; the only one keeps its name when another comes.
        let known = BTreeMap::from_iter(
            three.iter().cloned().zip(["30 6 * * *", "0 19 * * *", "0 13 * * *"].map(String::from)),
        );
        assert_eq!(named(&[b], &known), [three[1].clone()]);
        let alone = BTreeMap::from([("t-play.sh".to_owned(), "30 6 * * *".to_owned())]);
        assert_eq!(named(&[c, a], &alone), [three[2].clone(), "t-play.sh".to_owned()]);
        // Its schedule may change as well, as long as it is the only one.
        assert_eq!(named(&[("1 1 * * *", play)], &alone), ["t-play.sh"]);
        // The schedules of two commands with the same words may change.
        let (full, part) = ("backup.sh --full", "backup.sh --part");
        let one = named(&[("0 1 * * *", full), ("0 2 * * *", part)], &none);
        assert_eq!(
            named(&[("0 3 * * *", part), ("0 4 * * *", full)], &none),
            [one[1].clone(), one[0].clone()]
        );
        // Identical entries run twice, as with cron.
        let same = named(&[a, a], &none);
        assert_eq!(same[1], format!("{}-2", same[0]));
    }
}
