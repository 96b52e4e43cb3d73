//! `--watch`: an answer again and again, redrawn on a terminal, and elsewhere printed when it has changed.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::interrupt::at_interrupt;
use crate::exit::{CliError, ExitKind};
use crate::local_time;
use crate::output::{self, CapturedOutput};
use crate::zones;

/// Lines end at the edge of the terminal, so that each takes one row.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// To the first row; the rest of the row, and the rest of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_ROW: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The rows of a terminal that does not say how many it has.
const ROWS: u16 = 24;

/// Calls `print` again and again, and shows what it prints. Ends only with Ctrl-C, or with an error.
///
/// # Errors
/// The first look failed; a later one failed, and it was not because no node answers; or standard output is closed.
pub(super) fn watch(
    every: Duration,
    mut print: impl FnMut() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let is_terminal = std::io::stdout().is_terminal();
    // A watch has no other end: it has done its work.
    at_interrupt(move || {
        if is_terminal {
            let _ = std::io::stdout().write_all(WRAP.as_bytes());
        }
        0
    })?;
    let mut before: Option<CapturedOutput> = None;
    loop {
        let (done, mut seen) = output::capture(&mut print);
        match done {
            Ok(()) => {}
            // What was seen may come again, as after a restart of the node.
            Err(failure) if before.is_some() && may_pass(failure.exit) => {
                seen.messages.push_str(&format!("evenkeel: {failure}\n"));
                seen.answer = before.as_ref().map(|before| before.answer.clone()).unwrap_or_default();
            }
            Err(failure) => {
                show(&seen, is_terminal, every, before.as_ref())?;
                return Err(failure);
            }
        }
        show(&seen, is_terminal, every, before.as_ref())?;
        before = Some(seen);
        std::thread::sleep(every);
    }
}

/// Whether the same request may succeed later.
fn may_pass(exit: ExitKind) -> bool {
    matches!(exit, ExitKind::Unreachable | ExitKind::Unavailable | ExitKind::Failed)
}

fn show(
    seen: &CapturedOutput,
    is_terminal: bool,
    every: Duration,
    before: Option<&CapturedOutput>,
) -> Result<(), CliError> {
    if is_terminal {
        let rows = terminal_size::terminal_size().map_or(ROWS, |(_, height)| height.0);
        return output::bytes(screen(seen, every, usize::from(rows)).as_bytes());
    }
    if before.is_none_or(|before| before.messages != seen.messages) {
        let _ = write!(std::io::stderr().lock(), "{}", seen.messages);
    }
    match before {
        Some(before) if before.answer == seen.answer => Ok(()),
        // JSON values and YAML documents need nothing between them that is not JSON.
        Some(_) if output::chosen().is_text() => output::bytes(&[b"\n", &seen.answer[..]].concat()),
        Some(_) if output::chosen() == output::OutputFormat::Yaml => {
            output::bytes(&[b"---\n", &seen.answer[..]].concat())
        }
        _ => output::bytes(&seen.answer),
    }
}

/// The screen with a head, and as many lines as it has rows.
fn screen(seen: &CapturedOutput, every: Duration, rows: usize) -> String {
    let now = jiff::Timestamp::from_millisecond(zones::now().0).map(|now| now.to_string());
    let at = local_time::local(now.ok().as_deref());
    let answer = String::from_utf8_lossy(&seen.answer);
    let mut lines: Vec<&str> = answer.lines().chain(seen.messages.lines()).collect();
    // The head, an empty line, and the row of the cursor.
    let room = rows.saturating_sub(3).max(1);
    let hidden = lines.len().saturating_sub(room);
    let more = format!("… {} more", hidden + 1);
    if hidden > 0 {
        lines.truncate(room - 1);
        lines.push(&more);
    }
    let mut screen = format!("{NO_WRAP}{HOME}every {} s, {at}{CLEAR_ROW}\n{CLEAR_ROW}\n", every.as_secs());
    lines.iter().for_each(|line| screen.push_str(&format!("{line}{CLEAR_ROW}\n")));
    screen.push_str(CLEAR_BELOW);
    screen.push_str(WRAP);
    screen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_no_more_lines_than_rows_and_says_how_many_are_hidden() {
        let seen = |lines: usize| CapturedOutput {
            answer: (0..lines).map(|n| format!("row {n}\n")).collect::<String>().into_bytes(),
            messages: "evenkeel: a warning\n".to_owned(),
        };
        let small = screen(&seen(3), Duration::from_secs(2), 10);
        assert!(small.contains("row 2") && small.contains("a warning") && !small.contains("more"), "{small}");
        let large = screen(&seen(30), Duration::from_secs(2), 10);
        assert_eq!(large.matches('\n').count(), 9, "the last row is the cursor's");
        assert!(large.contains("row 5") && large.contains("… 25 more"), "{large}");
    }
}
