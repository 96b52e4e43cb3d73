//! Secrets of a command: which of its variables get one, or the path of a file with one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::variables::validate_variable;

/// The most secrets that a command may name.
pub const SECRETS_MAX: usize = 64;
/// The longest name of a secret.
const NAME_MAX: usize = 64;

/// The secrets of a command, by the names of its variables. Only their names are here, never what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandSecrets {
    /// Variables that hold a secret.
    pub variables: BTreeMap<String, String>,
    /// Variables that hold the path of a file with a secret.
    pub files: BTreeMap<String, String>,
}

impl CommandSecrets {
    /// The names of all secrets, each once.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&str> {
        self.variables.values().chain(self.files.values()).map(String::as_str).collect()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.variables.is_empty() && self.files.is_empty()
    }

    /// Refuses secrets that are invalid, or whose variable has another value as well.
    ///
    /// # Errors
    /// The error names the field and the variable.
    pub(super) fn validate(
        &self,
        environment: &BTreeMap<String, String>,
        inherit: &[String],
    ) -> Result<(), String> {
        let count = self.variables.len() + self.files.len();
        if count > SECRETS_MAX {
            return Err(format!(
                "secrets and secret_files have {count} variables, allowed are at most {SECRETS_MAX}"
            ));
        }
        let variables = self.variables.iter().map(|pair| ("secrets", pair));
        let files = self.files.iter().map(|pair| ("secret_files", pair));
        for (field, (variable, secret)) in variables.chain(files) {
            validate_variable(field, variable)?;
            validate_name(secret).map_err(|wrong| format!("{field}, {variable}: {wrong}"))?;
            let other = [
                ("environment", environment.contains_key(variable)),
                ("inherit", inherit.contains(variable)),
                ("secret_files", field != "secret_files" && self.files.contains_key(variable)),
            ];
            if let Some((other, _)) = other.into_iter().find(|(_, named)| *named) {
                return Err(format!("{field} and {other} both name {variable}: once is enough"));
            }
        }
        Ok(())
    }
}

/// Refuses a name that is no plain file name: no name may lead out of the folder of secrets.
///
/// # Errors
/// It says what a name may be. It does not repeat the name, which may be a secret by mistake.
pub(super) fn validate_name(name: &str) -> Result<&str, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    match name.len() <= NAME_MAX && name.bytes().all(plain) && !name.is_empty() && !name.starts_with('.') {
        true => Ok(name),
        false => Err(format!(
            "the secret's name is none: up to {NAME_MAX} letters, digits, dots, dashes and underscores name it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::job::{Job, JobFile};

    fn read(fields: &str) -> Result<Job, String> {
        let text = format!(r#"{{"name":"j",{fields}}}"#);
        let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Job::parse(file).map_err(|e| e.to_string())
    }

    #[test]
    fn a_command_names_secrets_by_their_variables() {
        let job = read(
            r#""command":["a"],"secrets":{"A":"one","B":"two"},"secret_files":{"C":"two","D":"x.y-z_9"}"#,
        )
        .unwrap();
        let secrets = job.work.launch_settings().secrets.unwrap();
        assert_eq!(secrets.names().into_iter().collect::<alloc::vec::Vec<_>>(), ["one", "two", "x.y-z_9"]);
        assert_eq!(secrets.files.get("C").map(String::as_str), Some("two"));
        assert!(read(r#""command":["a"],"secrets":{}"#).unwrap().work.launch_settings().secrets.is_none());
    }

    /// proves: I52
    #[test]
    fn a_secret_that_cannot_be_given_is_refused_with_its_field() {
        let long = "x".repeat(65);
        let long = format!(r#""secrets":{{"A":"{long}"}}"#);
        let many: alloc::vec::Vec<String> = (0..65).map(|n| format!(r#""A{n}":"s""#)).collect();
        let many = format!(r#""secret_files":{{{}}}"#, many.join(","));
        for (field, why) in [
            (r#""secrets":{"":"s"}"#, "not empty"),
            (r#""secret_files":{"A=B":"s"}"#, "holds no ="),
            (r#""secrets":{"EVENKEEL_RUN":"s"}"#, "set for every run"),
            (r#""secrets":{"A":"../s"}"#, "secrets, A: the secret's name is none"),
            (r#""secret_files":{"A":"team-b/s"}"#, "secret_files, A: the secret's name is none"),
            (r#""secrets":{"A":".s"}"#, "name is none"),
            (r#""secrets":{"A":""}"#, "name is none"),
            (long.as_str(), "up to 64 letters"),
            (many.as_str(), "at most 64"),
            (r#""secrets":{"A":"s"},"environment":{"A":"1"}"#, "secrets and environment both name A"),
            (r#""secret_files":{"A":"s"},"inherit":["A"]"#, "secret_files and inherit both name A"),
            (r#""secrets":{"A":"s"},"secret_files":{"A":"s"}"#, "secrets and secret_files both name A"),
        ] {
            let said = read(&format!(r#""command":["a"],{field}"#)).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        for field in [r#""secrets":{"A":"s"}"#, r#""secret_files":{"A":"s"}"#] {
            for work in [r#""function":"f""#, r#""http":{"url":"http://h/"}"#] {
                let said = read(&format!("{work},{field}")).unwrap_err();
                assert!(said.contains("is for commands"), "{said}");
            }
        }
    }
}
