//! Questions to a person at a terminal. They go to standard error, so that they are in no answer.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::{CliError, ExitKind};
use crate::output::plain;

/// Whether a person is there who can answer.
pub(super) fn is_person_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a line. `None` at the end of the input, as with Ctrl-D.
///
/// # Errors
/// The terminal cannot be read or written.
pub(super) fn line(question: &str) -> Result<Option<String>, CliError> {
    let failed = |e: io::Error| CliError::new(ExitKind::Failed, format!("the terminal: {e}"));
    line_of(&mut io::stdin().lock(), &mut io::stderr().lock(), question).map_err(failed)
}

/// Asks whether to go on; only `y` and `yes` mean so.
///
/// # Errors
/// As for [`line`].
pub(super) fn confirm(question: &str) -> Result<bool, CliError> {
    let answer = line(&format!("{question} [y/N] "))?;
    Ok(answer.is_some_and(|answer| is_yes(&answer)))
}

fn line_of(input: &mut impl BufRead, output: &mut impl Write, question: &str) -> io::Result<Option<String>> {
    write!(output, "{}", plain(question))?;
    output.flush()?;
    let mut text = String::new();
    if input.read_line(&mut text)? == 0 {
        writeln!(output)?;
        return Ok(None);
    }
    Ok(Some(text.trim().to_owned()))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_line_and_the_end_of_the_input_is_none() {
        let mut output = Vec::new();
        let mut input: &[u8] = b" a b \n\n";
        let mut ask = || line_of(&mut input, &mut output, "what\x1b? ").expect("read");
        assert_eq!([ask(), ask(), ask()], [Some("a b".to_owned()), Some(String::new()), None]);
        assert_eq!(String::from_utf8(output).expect("text"), "what ? what ? what ? \n");
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        assert!(["y", "Y", "yes", "YES"].iter().all(|answer| is_yes(answer)));
        assert!(!["", "n", "no", "yep", "ja"].iter().any(|answer| is_yes(answer)));
    }
}
