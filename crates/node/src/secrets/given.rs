//! The secrets of one start of a command.

use evenkeel_core::job::CommandSecrets;
use serde::{Deserialize, Serialize};

use super::{SecretReader, SecretText};

/// The most bytes of all variables with secrets together, names included: the kernel bounds what a program is given.
const VARIABLES_MAX: usize = 64 * 1024;
/// The most bytes of all files with secrets together: they are in memory.
const FILES_MAX: usize = 256 * 1024;

/// A secret as a run gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenSecret {
    /// The variable that holds it, or the path of its file.
    pub(crate) variable: String,
    /// The secret's name, which its file has too; empty if the variable holds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) file: String,
    pub(crate) text: SecretText,
}

/// Reads the secrets that a command names.
///
/// # Errors
/// One of them cannot be read, cannot be in a variable, or they are too long together. The text names the key of the
/// job, and contains nothing of a secret.
pub(crate) fn give(secrets: &CommandSecrets, reader: &SecretReader) -> Result<Vec<GivenSecret>, String> {
    let mut given = Vec::new();
    let mut length = 0;
    for (variable, name) in &secrets.variables {
        let wrong = |why: String| format!("secrets, {variable}: {why}");
        let text = reader.read(name).map_err(wrong)?;
        if text.value().contains('\0') {
            return Err(wrong(format!(
                "the secret {name} holds a NUL character, which no variable can: name it in secret_files"
            )));
        }
        length += variable.len() + text.value().len() + 2;
        given.push(GivenSecret { variable: variable.clone(), file: String::new(), text });
    }
    if length > VARIABLES_MAX {
        return Err(format!(
            "secrets: its variables are longer than {VARIABLES_MAX} bytes together: name long ones in secret_files"
        ));
    }
    length = 0;
    for (variable, name) in &secrets.files {
        let text = reader.read(name).map_err(|why| format!("secret_files, {variable}: {why}"))?;
        length += text.whole().len();
        given.push(GivenSecret { variable: variable.clone(), file: name.clone(), text });
    }
    match length > FILES_MAX {
        true => Err(format!("secret_files: its files are longer than {FILES_MAX} bytes together")),
        false => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::{NodeSecrets, SecretFolder};
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(variable, name)| ((*variable).to_owned(), (*name).to_owned())).collect()
    }

    /// proves: I52
    #[test]
    fn a_command_gets_what_it_names_or_the_reason_why_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(60 * 1024);
        for (name, text) in [("pass", "hunter2\n"), ("nul", "a\0b"), ("long", &long), ("key", "a\nb\n")] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let reader =
            NodeSecrets { folder: SecretFolder(Some(folder.path().into())), ..NodeSecrets::default() };
        let reader = reader.of(&"j".parse().unwrap());
        let given = |variables: &[(&str, &str)], files: &[(&str, &str)]| {
            give(&CommandSecrets { variables: map(variables), files: map(files) }, &reader)
        };
        let good = given(&[("P", "pass"), ("Q", "pass")], &[("F", "key"), ("G", "nul")]).unwrap();
        let told: Vec<(&str, &str, &str)> = good
            .iter()
            .map(|secret| {
                let text = if secret.file.is_empty() { secret.text.value() } else { secret.text.whole() };
                (secret.variable.as_str(), secret.file.as_str(), text)
            })
            .collect();
        assert_eq!(
            told,
            [("P", "", "hunter2"), ("Q", "", "hunter2"), ("F", "key", "a\nb\n"), ("G", "nul", "a\0b")]
        );
        let five: Vec<String> = (0..5).map(|n| format!("F{n}")).collect();
        let five: Vec<(&str, &str)> = five.iter().map(|name| (name.as_str(), "long")).collect();
        for (refused, why) in [
            (given(&[("P", "none")], &[]), "secrets, P: the secret none: "),
            (given(&[], &[("F", "none")]), "secret_files, F: the secret none: "),
            (given(&[("P", "nul")], &[]), "secrets, P: the secret nul holds a NUL"),
            (given(&five[..2], &[]), "longer than 65536 bytes together"),
            (given(&[], &five), "longer than 262144 bytes together"),
        ] {
            let said = refused.unwrap_err();
            assert!(said.contains(why) && !said.contains("hunter2"), "{said}");
        }
        assert!(given(&five[..1], &five[..4]).is_ok());
    }
}
