//! What is said of a word that is no verb: an abbreviation of several, or a misspelt one.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// How many letters a verb may differ from a misspelt word that clap finds no verb for.
const EDITS_MAX: usize = 2;

/// The error, with the verbs that the word may abbreviate, or with those that it is nearest to.
pub(super) fn explained(
    error: clap::Error,
    root: &Command,
    line: impl Iterator<Item = OsString>,
) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let known = verbs(root, word, line);
    let begin: Vec<&str> = known.iter().copied().filter(|verb| verb.starts_with(word.as_str())).collect();
    let text = match begin.as_slice() {
        [_, _, ..] => format!("`{word}` may be one of several: {}", begin.join(", ")),
        _ if error.get(ContextKind::SuggestedSubcommand).is_some() => return error,
        _ => match nearest(&known, word).as_slice() {
            [] => return error,
            near => format!("there is no command `{word}`: did you mean {}?", near.join(" or ")),
        },
    };
    root.clone().error(ErrorKind::InvalidSubcommand, text)
}

/// The verbs that a misspelt word is nearest to; none if it is like none.
fn nearest<'a>(verbs: &[&'a str], word: &str) -> Vec<&'a str> {
    let edits = |verb: &str| strsim::damerau_levenshtein(verb, word);
    let least = verbs.iter().map(|verb| edits(verb)).min().unwrap_or(usize::MAX);
    // A short word is like many that it has nothing to do with.
    if least > EDITS_MAX.min(word.chars().count() / 2) {
        return Vec::new();
    }
    verbs.iter().copied().filter(|verb| edits(verb) == least).collect()
}

/// The verbs that there are where this word stands.
fn verbs<'a>(root: &'a Command, word: &str, line: impl Iterator<Item = OsString>) -> Vec<&'a str> {
    let mut at = root;
    for given in line.skip(1) {
        let given = given.to_string_lossy();
        if given == word {
            break;
        }
        at = at.find_subcommand(given.as_ref()).or_else(|| only(at, &given)).unwrap_or(at);
    }
    at.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect()
}

/// The only verb that begins with this word.
fn only<'a>(command: &'a Command, word: &str) -> Option<&'a Command> {
    let mut verbs = command.get_subcommands().filter(|verb| verb.get_name().starts_with(word));
    verbs.next().filter(|_| verbs.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let verb = |name: &'static str| Command::new(name);
        let job = verb("job").subcommand(verb("list")).subcommand(verb("resume")).subcommand(verb("restart"));
        let root = verb("evenkeel").infer_subcommands(true).subcommand(job).subcommand(verb("node"));
        let root = root.subcommand(verb("namespace"));
        let words = || line.split(' ').map(OsString::from);
        match root.clone().try_get_matches_from(words()) {
            Ok(_) => String::new(),
            Err(error) => explained(error, &root, words()).to_string(),
        }
    }

    #[test]
    fn a_unique_beginning_is_a_verb_and_another_one_lists_what_it_may_be() {
        assert_eq!(said("evenkeel jo l"), "");
        assert!(said("evenkeel n").contains("`n` may be one of several: node, namespace"));
        assert!(said("evenkeel jo res").contains("may be one of several: resume, restart"));
    }

    #[test]
    fn a_misspelt_verb_is_answered_with_the_nearest() {
        assert!(said("evenkeel jbo").contains("did you mean job?"));
        assert!(said("evenkeel job lits").contains("list"));
        assert!(!said("evenkeel xyz").contains("did you mean"));
    }
}
