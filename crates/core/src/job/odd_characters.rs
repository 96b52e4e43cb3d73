//! Characters in commands that people do not see, or take for others: they come from web pages, chats and other systems' files.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::program::Program;
use super::work::{CommandWork, JobWork};
use crate::characters::{describe, found_in, hidden, instead};

impl JobWork {
    /// What of a command may not be what it looks like, a sentence each. Such a text may be meant, so it is no error.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        self.command().map(CommandWork::doubts).unwrap_or_default()
    }
}

impl CommandWork {
    fn doubts(&self) -> Vec<String> {
        let (shell, argv) = match &self.program {
            Program::Line(line) => (hidden(line), &[][..]),
            Program::Argv(argv) => (None, argv.as_slice()),
        };
        let shell = shell.map(|odd| {
            let (odd, instead) = (describe(odd), instead(odd));
            format!("command holds {odd}, which the shell takes for a part of a word: {instead}")
        });
        let arguments =
            argv.iter().enumerate().skip(1).map(|(n, text)| (format!("argument {n} of command"), text));
        let directory = [(String::from("directory"), &self.directory)];
        let values = self.environment.iter().map(|(name, value)| (format!("environment.{name}"), value));
        let doubt = |(place, text): (String, &String)| hidden(text).map(|odd| found_in(&place, odd));
        shell
            .into_iter()
            .chain(directory.into_iter().chain(arguments).chain(values).filter_map(doubt))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use crate::job::{Job, JobFile};

    fn doubts(fields: &str) -> Result<alloc::vec::Vec<super::String>, super::String> {
        let file: JobFile = serde_json::from_str(&super::format!(r#"{{"name":"j",{fields}}}"#)).unwrap();
        Job::parse(file).map(|job| job.work.doubts()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_hidden_character_in_a_command_is_named_with_its_place() {
        for (fields, says) in [
            (
                r#""shell":true,"command":"sleep 5\r\ndate\r""#,
                "command holds a carriage return (U+000D), which the shell takes for a part of a word: end the line with \
                 a line feed alone",
            ),
            (
                r#""command":["rsync","-\u200ba"]"#,
                "argument 1 of command holds a zero-width space (U+200B): remove it",
            ),
            (
                r#""command":["a"],"directory":"/srv/my\u00a0data""#,
                "directory holds a no-break space (U+00A0): write a plain space",
            ),
            (
                r#""command":["a"],"environment":{"A":"x\u202ey"}"#,
                "environment.A holds a mark of the direction of text (U+202E): remove it",
            ),
        ] {
            assert_eq!(doubts(fields), Ok([says.to_string()].into()), "{fields}");
        }
        let plain = r#""command":["a","b c\té\n"],"directory":"/srv/données","environment":{"A":"–"}"#;
        assert_eq!(doubts(plain), Ok([].into()), "a tab, a line's end and what people see are no doubt");
        assert_eq!(doubts(r#""http":{"url":"http://h/"}"#), Ok([].into()));
    }

    #[test]
    fn a_name_with_a_hidden_character_is_refused() {
        for (fields, says) in [
            (
                r#""command":["\u200b/bin/true"]"#,
                "the program of command holds a zero-width space (U+200B): remove it",
            ),
            (r#""command":["/bin/true\r"]"#, "the program of command holds a carriage return (U+000D)"),
            (
                r#""command":["a"],"environment":{"A\u00a0":"1"}"#,
                "environment holds a no-break space (U+00A0)",
            ),
            (
                r#""command":["a"],"inherit":["A\u202e"]"#,
                "inherit holds a mark of the direction of text (U+202E)",
            ),
            (r#""http":{"url":"http://h/\u200b"}"#, "http.url holds a zero-width space (U+200B): remove it"),
        ] {
            let refused = doubts(fields).unwrap_err();
            assert!(refused.contains(says), "{fields}: {refused}");
        }
    }
}
