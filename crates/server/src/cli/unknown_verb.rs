//! What is said of a word that is no verb: an abbreviation of several, a misspelt one, or one in another place.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// How many letters a verb may differ from a misspelt word.
const EDITS_MAX: usize = 2;
/// Words of other programs, and the verbs that do the same here.
const SYNONYMS: [(&str, &str); 6] = [
    ("get", "list"),
    ("ls", "list"),
    ("describe", "show"),
    ("create", "new"),
    ("rm", "delete"),
    ("trigger", "run"),
];

/// The error, with the verbs that the word may abbreviate, those that it is nearest to, or the place where it is a verb.
pub(super) fn explained(
    mut error: clap::Error,
    root: &Command,
    line: impl Iterator<Item = OsString>,
) -> clap::Error {
    // That a flag can be passed as a value is no help: it is misspelt, or one of another verb.
    error.remove(ContextKind::Suggested);
    let line: Vec<String> = line.skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(text) = loose_value(&error, root, &line) {
        return root.clone().error(ErrorKind::UnknownArgument, text);
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let at = line.iter().position(|given| given == word).unwrap_or(line.len());
    let (path, noun) = command_at(root, &line[..at]);
    let known = verbs(noun);
    let begin: Vec<&str> = known.iter().copied().filter(|verb| verb.starts_with(word.as_str())).collect();
    let shown = [path.as_slice(), &[word]].concat().join(" ");
    let text = if begin.len() > 1 {
        format!("`{shown}` may be one of several: {}", begin.join(", "))
    } else if let near @ [_, ..] = nearest(&known, word).as_slice() {
        format!("there is no command `{shown}`: did you mean {}?", near.join(" or "))
    } else if path.is_empty() {
        match noun_first(root, word, line.get(at + 1)).as_slice() {
            [] => format!("there is no command `{shown}`: `evenkeel --help` lists all"),
            found => format!("there is no command `{shown}`: did you mean {}?", found.join(" or ")),
        }
    } else {
        format!("there is no command `{shown}`: there are {}", known.join(", "))
    };
    root.clone().error(ErrorKind::InvalidSubcommand, text)
}

/// Says how a value is joined to a flag that is used without one, too, if this word stands after such a flag.
fn loose_value(error: &clap::Error, root: &Command, line: &[String]) -> Option<String> {
    let ContextValue::String(word) = error.get(ContextKind::InvalidArg)? else { return None };
    let at =
        line.iter().position(|given| given == word).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let flag = line.get(at.checked_sub(1)?)?.strip_prefix("--")?;
    let (_, command) = command_at(root, line);
    let takes = command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
    takes
        .is_require_equals_set()
        .then(|| format!("a value of --{flag} is joined to it: write --{flag}={word}"))
}

/// The commands that a word stands for if its noun is put before it.
fn noun_first(root: &Command, word: &str, next: Option<&String>) -> Vec<String> {
    let verb = SYNONYMS.iter().find(|(foreign, _)| *foreign == word).map_or(word, |(_, own)| own);
    let nouns = root.get_subcommands().filter(|noun| !noun.is_hide_set() && verbs(noun).contains(&verb));
    let found: Vec<&str> = nouns.map(Command::get_name).collect();
    let named = next.and_then(|next| found.iter().find(|noun| **noun == next.trim_end_matches('s')));
    match (named, found.len()) {
        (Some(noun), _) => vec![format!("`{noun} {verb}`")],
        // More of them would be a guess: jobs are meant most often.
        (None, 4..) => {
            found.iter().filter(|noun| **noun == "job").map(|noun| format!("`{noun} {verb}`")).collect()
        }
        (None, _) => found.iter().map(|noun| format!("`{noun} {verb}`")).collect(),
    }
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

/// The command that these words name, and its words: flags and what follows the last verb are passed over.
fn command_at<'a>(root: &'a Command, words: &[String]) -> (Vec<&'a str>, &'a Command) {
    let (mut path, mut at) = (Vec::new(), root);
    for given in words {
        if let Some(next) = at.find_subcommand(given).or_else(|| only(at, given)) {
            path.push(next.get_name());
            at = next;
        }
    }
    (path, at)
}

fn verbs(command: &Command) -> Vec<&str> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect()
}

/// The only verb that begins with this word.
fn only<'a>(command: &'a Command, word: &str) -> Option<&'a Command> {
    let mut verbs = command.get_subcommands().filter(|verb| verb.get_name().starts_with(word));
    verbs.next().filter(|_| verbs.next().is_none())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn said(line: &str) -> String {
        let verb = |name: &'static str| Command::new(name);
        let wait = Arg::new("wait").long("wait").num_args(0..=1).require_equals(true);
        let job = verb("job").subcommand(verb("list")).subcommand(verb("resume")).subcommand(verb("restart"));
        let node = verb("node").subcommand(verb("list")).subcommand(verb("drain").arg(wait));
        let root = verb("evenkeel").infer_subcommands(true).subcommand(job).subcommand(node);
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
        assert!(said("evenkeel jo res").contains("`job res` may be one of several: resume, restart"));
    }

    #[test]
    fn a_misspelt_verb_is_answered_with_the_nearest() {
        assert!(said("evenkeel jbo").contains("did you mean job?"));
        assert!(said("evenkeel job lits").contains("there is no command `job lits`: did you mean list?"));
        assert!(!said("evenkeel xyz").contains("did you mean"));
    }

    #[test]
    fn a_verb_without_its_noun_is_answered_with_the_noun() {
        assert!(said("evenkeel get nodes").contains("`get`: did you mean `node list`?"));
        assert!(said("evenkeel list").contains("did you mean `job list` or `node list`?"));
        assert!(said("evenkeel drain n1").contains("did you mean `node drain`?"));
        assert!(said("evenkeel job drain").contains("there are list, resume, restart"));
    }

    #[test]
    fn a_value_that_is_not_joined_to_its_flag_is_answered_with_how_it_is() {
        assert!(said("evenkeel node drain --wait 5m").contains("write --wait=5m"));
        assert!(!said("evenkeel node drain 5m").contains("write --wait"));
    }
}
