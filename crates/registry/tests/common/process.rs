//! A server's process: killed, frozen, and never left behind.

use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::still::wait_until_still;

/// The process, while it runs. Killed when it is dropped.
#[derive(Default)]
pub(crate) struct ChildServer(Option<Child>);

impl ChildServer {
    /// Starts it; the one before must have been killed.
    pub(crate) fn start(&mut self, command: &mut Command) {
        assert!(self.0.is_none(), "it runs already");
        self.0 = Some(command.spawn().expect("the server starts"));
    }

    /// Kills it at once, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().expect("it can be asked").is_some())
    }

    /// Stops it; it does nothing more when this returns.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        wait_until_still(self.id());
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.0.as_ref().expect("it runs"));
        kill_process(pid, signal).expect("a signal arrives");
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        self.kill();
    }
}
