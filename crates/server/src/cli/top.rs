//! `evenkeel top`: nodes, running runs, next fires and what needs a person, redrawn while it is looked at.
//!
//! A thread asks the node, so that keys work while it does not answer. The terminal is set up and given back by [`screen`].

mod picture;
mod screen;

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clap::Args;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan, TimeSpanError};

use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::{output, zones};
use picture::{PictureFrame, TopSnapshot, lines};
use screen::{Screen, ScreenKey};

/// The limits of the time between two looks.
const EVERY: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(3_600));
/// The size of what is not a terminal, and of a terminal that does not say how large it is.
const SIZE: (usize, usize) = (120, 60);

/// `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The time between two looks, such as 5s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = every)]
    every: TimeSpan,
    #[command(flatten)]
    reach: ConnectArgs,
}

fn every(text: &str) -> Result<TimeSpan, TimeSpanError> {
    TimeSpan::parse("span", text, EVERY)
}

/// What the thread that asks says.
type Look = Result<Box<TopSnapshot>, String>;

/// Shows the picture until `q`, or once if the output is no terminal.
///
/// # Errors
/// No node answers at first, or standard output is closed.
pub(crate) fn run(args: &TopArgs) -> Result<(), CliError> {
    let first = TopSnapshot::fetch(&args.reach.client()?)?;
    if !args.reach.output.is_text() {
        return output::value(args.reach.output, &first);
    }
    if !std::io::stdout().is_terminal() {
        let frame = PictureFrame { size: SIZE, now: zones::now(), has_colour: false, note: String::new() };
        return lines(&first, &frame).iter().try_for_each(|line| output::line(line));
    }
    let every = Duration::from(args.every);
    let looks = looks(args.reach.clone(), every)?;
    let mut screen = Screen::begin()?;
    let done = show(&mut screen, first, &looks, every);
    drop(screen);
    done
}

/// Starts the thread that asks again and again. It ends when nothing receives its answers any more.
fn looks(reach: ConnectArgs, every: Duration) -> Result<Receiver<Look>, CliError> {
    let (send, receive) = channel();
    let ask = move || {
        loop {
            std::thread::sleep(every);
            // Each look finds a node that answers: the one before may be gone.
            let found = reach.client().and_then(|client| TopSnapshot::fetch(&client));
            if send.send(found.map(Box::new).map_err(|failure| failure.message)).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().spawn(ask);
    started.map_err(|e| CliError::new(ExitKind::Failed, format!("cannot start a thread: {e}")))?;
    Ok(receive)
}

/// Draws until `q`.
fn show(
    screen: &mut Screen,
    first: TopSnapshot,
    looks: &Receiver<Look>,
    every: Duration,
) -> Result<(), CliError> {
    let (mut seen, mut fault, mut is_paused) = (first, None::<String>, false);
    loop {
        for look in looks.try_iter() {
            match look {
                // While it is paused, the picture stays as it is.
                Ok(_) if is_paused => fault = None,
                Ok(found) => (seen, fault) = (*found, None),
                Err(why) => fault = Some(why),
            }
        }
        let note = match (&fault, is_paused) {
            (Some(why), _) => format!("no answer: {}", why.lines().next().unwrap_or_default()),
            (None, true) => "paused: p goes on, q quits".to_owned(),
            (None, false) => format!("every {} s: p pauses, q quits", every.as_secs()),
        };
        // A paused picture keeps its times, too.
        let now = if is_paused { seen.at } else { zones::now() };
        let frame = PictureFrame { size: screen::size(SIZE), now, has_colour: output::has_colour(), note };
        screen.draw(&lines(&seen, &frame))?;
        match screen.key()? {
            Some(ScreenKey::Quit) => return Ok(()),
            Some(ScreenKey::Pause) => is_paused = !is_paused,
            None => {}
        }
    }
}
