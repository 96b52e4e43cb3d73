//! Waits for facts.

use std::time::Duration;

use evenkeel_registry::clock::Stopwatch;

/// How long what must come is waited for. No promise: the limit of a wait that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries until it comes true.
///
/// # Panics
/// When it does not.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let begun = Stopwatch::start();
    while begun.elapsed() < PATIENCE {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}")
}
