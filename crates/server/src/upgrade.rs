//! Upgrades of this process to a new program: requests, the check, and the callers' connections meanwhile.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evenkeel::Handle;
use evenkeel::audit::{AuditAction, AuditOutcome, Requester, UPGRADE_BEGINS};
use evenkeel::upgrade::{ProgramFile, ReceivedHandoff};
use evenkeel_core::input::CommandKind;
use evenkeel_core::time::{Millis, SpanLimits};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The time for a new program to report its version.
const CHECK: Duration = Duration::from_secs(5);
/// The default time for runs inside the process to end.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// The limits of that time.
pub(crate) const WAIT_LIMITS: SpanLimits = SpanLimits::ANY.at_most(Millis::secs(3_600));
/// The time for the requester to get the answer before the process changes programs, which ends all connections.
const ANSWER: Duration = Duration::from_millis(200);

/// Takes requests for an upgrade.
#[derive(Clone)]
pub(crate) struct UpgradeHandle {
    program: Option<ProgramFile>,
    orders: mpsc::Sender<Duration>,
}

impl UpgradeHandle {
    /// A handle for requesters, and the channel of their requests.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Duration>) {
        let (orders, asked) = mpsc::channel(1);
        let program = ProgramFile::own().inspect_err(|e| tracing::debug!("no upgrade will be possible: {e}"));
        (Self { program: program.ok(), orders }, asked)
    }

    /// Checks whether the program in this one's file can continue. Returns its version.
    ///
    /// # Errors
    /// It cannot; the text has the reason and the fix.
    pub(crate) async fn check(&self) -> Result<String, String> {
        let Some(program) = &self.program else { return Err(lost()) };
        program.check(CHECK).await.map(|next| next.version).map_err(|e| e.to_string())
    }

    /// Starts the upgrade once the requester has its answer.
    pub(crate) fn begin(&self, wait: Duration) {
        let orders = self.orders.clone();
        tokio::spawn(async move {
            tokio::time::sleep(ANSWER).await;
            // An upgrade in progress serves both.
            let _ = orders.try_send(wait);
        });
    }

    /// Continues in the new program; returns only if that fails, with the reason.
    pub(crate) async fn execute(
        &self,
        handle: &Handle,
        listener: &TcpListener,
        item: UpgradeTrigger,
    ) -> Result<Infallible, String> {
        let version = match self.check().await {
            Ok(version) => version,
            Err(why) => {
                item.note(handle, AuditOutcome::Refused, why.clone()).await;
                return Err(why);
            }
        };
        item.note(handle, AuditOutcome::Applied, UPGRADE_BEGINS.to_owned()).await;
        let Some(program) = self.program.clone() else { return Err(lost()) };
        tracing::info!("upgrading to {version}");
        let listener = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned();
        let listener: Option<OwnedFd> = listener.inspect_err(|e| tracing::warn!("callers wait: {e}")).ok();
        handle.upgrade_unaudited(program, listener, item.wait()).await
    }
}

/// What triggers an upgrade, with the time for runs inside the process to end.
#[derive(Clone, Copy)]
pub(crate) enum UpgradeTrigger {
    /// A signal, which has no entry in the audit log yet.
    Signal,
    /// A caller, whose request has its entry.
    Caller(Duration),
}

impl UpgradeTrigger {
    fn wait(self) -> Duration {
        match self {
            Self::Signal => WAIT,
            Self::Caller(wait) => wait,
        }
    }

    async fn note(self, handle: &Handle, outcome: AuditOutcome, why: String) {
        if let Self::Signal = self {
            let action = AuditAction::new(CommandKind::UPGRADE.verb, &format!("node {}", handle.name()));
            let action = action.of_node(Some(handle.name().clone()));
            handle.log_decision(Requester::process(), action, outcome, why).await;
        }
    }
}

fn lost() -> String {
    "it is not known from which file this program was started: restart it instead".to_owned()
}

/// The handoff of this process's earlier program, if there was one.
pub(crate) fn receive_handoff() -> Option<ReceivedHandoff> {
    let passed = ReceivedHandoff::receive();
    let passed = passed.inspect_err(|e| {
        tracing::error!("what the earlier program passed on cannot be read ({e}): its runs are ended");
    });
    passed.ok().flatten()
}

/// The earlier program's listener, if it has this one's address: then no caller is refused meanwhile.
pub(crate) fn listener(passed: Option<&mut ReceivedHandoff>, wanted: SocketAddr) -> Option<TcpListener> {
    let listener = passed?.listener()?;
    let at = listener.local_addr().ok()?;
    let same = at.ip() == wanted.ip() && (wanted.port() == 0 || at.port() == wanted.port());
    if !same {
        return None;
    }
    listener.set_nonblocking(true).ok()?;
    TcpListener::from_std(listener).ok()
}

/// Logs why an upgrade failed.
pub(crate) fn refused(why: &str) {
    tracing::warn!("not upgraded, and nothing has changed: {why}");
}
