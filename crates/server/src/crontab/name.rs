//! Names for entries that have none: made of the file and the command, so that moving a line renames nothing.

use std::collections::BTreeMap;

/// Words of a shell line that say nothing about what it is for.
const DULL: [&str; 28] = [
    "bin", "cd", "command", "do", "done", "else", "env", "exec", "false", "fi", "flock", "if", "ionice",
    "nice", "nohup", "null", "or", "setsid", "sh", "bash", "sleep", "sudo", "test", "then", "time",
    "timeout", "true", "while",
];
const WORDS: usize = 3;
const LENGTH: usize = 48;

/// Gives names, each once.
pub(super) struct Names {
    prefix: String,
    given: BTreeMap<String, u32>,
}

impl Names {
    /// Names that begin with this.
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: narrow(prefix), given: BTreeMap::new() }
    }

    /// The name of the next entry with this command: `crontab-run-parts-cron.hourly`, a second one with `-2` behind.
    pub(super) fn of(&mut self, command: &str) -> String {
        let mut name = self.prefix.clone();
        for word in telling(command).take(WORDS) {
            if name.len() + word.len() >= LENGTH {
                break;
            }
            name = if name.is_empty() { word } else { format!("{name}-{word}") };
        }
        if name.is_empty() {
            "crontab".clone_into(&mut name);
        }
        let count = self.given.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}-{count}") }
    }
}

/// The words that tell an entry from others: programs and paths by their last part, no options, no shell words.
fn telling(command: &str) -> impl Iterator<Item = String> + '_ {
    let parts = command.split(|c: char| c.is_whitespace() || ";|&(){}<>\"'`$".contains(c));
    parts.filter(|part| !part.starts_with('-') && !part.contains('=')).filter_map(|part| {
        let word = narrow(part.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
        let number = word.chars().all(|c| c.is_ascii_digit());
        (!number && !DULL.contains(&word.as_str())).then_some(word)
    })
}

/// The letters that a name may hold, beginning with a letter or a digit.
fn narrow(text: &str) -> String {
    let kept = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let text: String = text.chars().filter(kept).collect();
    text.trim_start_matches(['.', '_', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_an_entry_is_for() {
        let mut names = Names::new("crontab");
        for (command, name) in [
            ("cd / && run-parts --report /etc/cron.hourly", "crontab-run-parts-cron.hourly"),
            (
                "test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }",
                "crontab-anacron-run-parts-cron.daily",
            ),
            ("/usr/local/bin/backup.sh --full /home >/dev/null 2>&1", "crontab-backup.sh-home"),
            ("/usr/local/bin/backup.sh --full /home", "crontab-backup.sh-home-2"),
            ("mail -s \"It's 10pm\" joe", "crontab-mail-It-s"),
            ("; ;", "crontab"),
        ] {
            assert_eq!(names.of(command), name, "{command}");
        }
    }
}
