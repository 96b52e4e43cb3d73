//! What Ctrl-C does while a verb waits.

use crate::exit::{CliError, ExitKind};

/// Ends this process when it is interrupted, with the exit code that `then` returns. Only one verb of a process waits.
///
/// # Errors
/// The system does not give the process what it needs for that.
pub(super) fn at_interrupt(then: impl FnOnce() -> i32 + Send + 'static) -> Result<(), CliError> {
    let failed = |e: std::io::Error| CliError::new(ExitKind::Failed, format!("cannot wait for Ctrl-C: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let wait = move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            std::process::exit(then());
        }
    };
    std::thread::Builder::new().spawn(wait).map_err(failed)?;
    Ok(())
}
