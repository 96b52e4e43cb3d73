//! A timer with millisecond precision, on the clock that counts suspend. The runtime's own timer offers neither.

use std::io;
use std::os::fd::OwnedFd;

use evenkeel_core::time::Mono;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock;

/// A timer for one moment.
pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
    at: Option<Mono>,
}

impl Timer {
    /// A timer that is not set. Needs a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        #[expect(
            deprecated,
            reason = "sound for an owned descriptor; what replaces it is unsafe, which we forbid"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd, at: None })
    }

    /// Sets it to a moment, or clears it.
    pub(super) fn set(&mut self, at: Option<Mono>) {
        if self.at == at {
            return;
        }
        self.at = at;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would mean never.
        let ms = at.map_or(0, |at| at.0.max(1));
        let it_value = Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 };
        let spec = Itimerspec { it_interval: zero, it_value };
        if let Err(e) = timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &spec) {
            tracing::error!("the timer cannot be set: {e}");
        }
    }

    /// Waits until its moment has come; for ever when it is not set. May be dropped at any point.
    pub(super) async fn rings(&self) {
        while self.at.is_none_or(|at| clock::now().mono < at) {
            match self.fd.readable().await {
                // The clock says for which moment it rang.
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::time::Millis;
    use std::time::Duration;

    #[tokio::test]
    async fn it_rings_at_its_moment_each_time_it_is_set() {
        let mut timer = Timer::new().unwrap();
        let (mut dropped, mut ahead) = (0, 20);
        while dropped < 3 {
            let at = clock::now().mono + Millis(ahead);
            timer.set(Some(at));
            // Dropping one wait loses nothing.
            if tokio::time::timeout(Duration::from_millis(1), timer.rings()).await.is_ok() {
                // The machine stalled.
                assert!(clock::now().mono >= at);
                ahead *= 2;
                continue;
            }
            tokio::time::timeout(Duration::from_secs(120), timer.rings()).await.unwrap();
            assert!(clock::now().mono >= at);
            dropped += 1;
        }
        timer.set(Some(Mono(-5)));
        timer.rings().await;
        timer.set(None);
        assert!(tokio::time::timeout(Duration::from_millis(20), timer.rings()).await.is_err());
    }
}
