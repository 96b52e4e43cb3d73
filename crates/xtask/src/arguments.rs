//! What the commands share: flags, the wish for help, and pages to print.

use anyhow::{Result, bail};
use std::process::ExitCode;

/// Whether help is asked for rather than work.
pub(crate) fn asks_for_help(args: &[String]) -> bool {
    args.iter().any(|arg| matches!(arg.as_str(), "-h" | "--help"))
}

/// Takes `name` out of `args` and refuses whatever is left.
pub(crate) fn only_flag(args: &[String], name: &str) -> Result<bool> {
    match args {
        [] => Ok(false),
        [flag] if flag == name => Ok(true),
        _ => {
            let other = args.iter().find(|arg| *arg != name).map_or(name, String::as_str);
            bail!("`{other}` means nothing here: `cargo xtask help` shows what does")
        }
    }
}

/// Prints a page. A reader that has seen enough, as `head`, is no error.
pub(crate) fn show(text: &str) -> Result<ExitCode> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
