//! The terminal of `top`: its second screen, without echo and line editing, and given back whatever ends the process.

use std::io::{IsTerminal, Read, Write};
use std::sync::OnceLock;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{CliError, ExitKind};

/// The second screen, without a cursor and without lines that wrap; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the first row; the rest of the row, and the rest of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_ROW: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// How long one wait for a key takes, in tenths of a second.
const KEY_WAIT: u8 = 2;

/// What the terminal was like before.
static BEFORE: OnceLock<Option<Termios>> = OnceLock::new();

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScreenKey {
    /// End.
    Quit,
    /// Pause, or go on.
    Pause,
}

/// The terminal while it is used; given back when dropped.
#[derive(Debug)]
pub(super) struct Screen {
    /// Whether keys can be read.
    has_keys: bool,
}

/// The columns and rows of the terminal.
pub(super) fn size(otherwise: (usize, usize)) -> (usize, usize) {
    terminal_size::terminal_size()
        .map_or(otherwise, |(width, height)| (usize::from(width.0), usize::from(height.0)))
}

impl Screen {
    /// Takes the terminal, and gives it back when the process ends by a signal or a panic.
    ///
    /// # Errors
    /// It cannot be set up.
    pub(super) fn begin() -> Result<Self, CliError> {
        let failed =
            |e: std::io::Error| CliError::new(ExitKind::Failed, format!("cannot use the terminal: {e}"));
        let stdin = std::io::stdin();
        let before =
            stdin.is_terminal().then(|| tcgetattr(&stdin)).transpose().map_err(|e| failed(e.into()))?;
        // A second screen in one process would find what the first one had found.
        let before = BEFORE.get_or_init(|| before);
        give_back_at_end().map_err(failed)?;
        if let Some(before) = before {
            let mut keys = before.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            keys.special_codes[SpecialCodeIndex::VMIN] = 0;
            keys.special_codes[SpecialCodeIndex::VTIME] = KEY_WAIT;
            // A process that is stopped by a key would leave the terminal as it is.
            keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(&stdin, OptionalActions::Now, &keys).map_err(|e| failed(e.into()))?;
        }
        let screen = Self { has_keys: before.is_some() };
        print(ENTER)?;
        Ok(screen)
    }

    /// Draws these lines from the first row on.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, lines: &[String]) -> Result<(), CliError> {
        let mut text = HOME.to_owned();
        for (n, line) in lines.iter().enumerate() {
            text.push_str(if n > 0 { "\r\n" } else { "" });
            text.push_str(line);
            text.push_str(CLEAR_ROW);
        }
        text.push_str(CLEAR_BELOW);
        print(&text)
    }

    /// Waits a moment for a key.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn key(&mut self) -> Result<Option<ScreenKey>, CliError> {
        if !self.has_keys {
            std::thread::sleep(std::time::Duration::from_millis(100 * u64::from(KEY_WAIT)));
            return Ok(None);
        }
        let mut key = [0];
        match std::io::stdin().lock().read(&mut key) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(meaning(key[0])),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Ok(None),
            Err(e) => Err(CliError::new(ExitKind::Failed, format!("the terminal is gone: {e}"))),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn meaning(key: u8) -> Option<ScreenKey> {
    match key {
        // 3 and 4 are Ctrl-C and Ctrl-D, where they are no signal and no end.
        b'q' | b'Q' | 3 | 4 => Some(ScreenKey::Quit),
        b'p' | b'P' | b' ' => Some(ScreenKey::Pause),
        _ => None,
    }
}

fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| CliError::new(ExitKind::Failed, format!("cannot write to the terminal: {e}")))
}

/// Gives the terminal back as it was. Doing it twice does no harm.
fn give_back() {
    // There is no one left to report a failure to.
    let _ = print(LEAVE);
    if let Some(Some(before)) = BEFORE.get() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
    }
}

/// Gives the terminal back before the process ends by a panic, or by a signal that ends it.
fn give_back_at_end() -> std::io::Result<()> {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        report(panic);
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    drop(context);
    std::thread::Builder::new().spawn(move || {
        let number = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => 0,
                _ = terminate.recv() => 143,
                _ = hangup.recv() => 129,
            }
        });
        give_back();
        std::process::exit(number);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_last_line_says() {
        let keys: Vec<_> = b"qp xQ\x03".iter().map(|key| meaning(*key)).collect();
        let (quit, pause) = (Some(ScreenKey::Quit), Some(ScreenKey::Pause));
        assert_eq!(keys, [quit, pause, pause, None, quit, quit]);
    }
}
