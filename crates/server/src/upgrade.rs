//! An upgrade as this program does it: who may ask for one, and what becomes of the callers meanwhile.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evenkeel::Handle;
use evenkeel::audit::{AuditAction, AuditOutcome, Requester, UPGRADE_BEGINS};
use evenkeel::upgrade::{ProgramFile, ReceivedHandoff};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// How long a new program may take to say what it is.
const CHECK: Duration = Duration::from_secs(5);
/// How long runs inside the process are waited for where nobody says.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// The longest that somebody may have them waited for.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Whoever asked has this long to get his answer before the process changes programs, and connections end with it.
const ANSWER: Duration = Duration::from_millis(200);

/// Where an upgrade is asked for.
#[derive(Clone)]
pub(crate) struct UpgradeHandle {
    program: Option<ProgramFile>,
    orders: mpsc::Sender<Duration>,
}

impl UpgradeHandle {
    /// A door for whoever asks, and what comes in by it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Duration>) {
        let (orders, asked) = mpsc::channel(1);
        let program = ProgramFile::own().inspect_err(|e| tracing::debug!("no upgrade will be possible: {e}"));
        (Self { program: program.ok(), orders }, asked)
    }

    /// Sees whether the program in this one's file can go on. Returns its version.
    ///
    /// # Errors
    /// It cannot; the text says why and the fix.
    pub(crate) async fn check(&self) -> Result<String, String> {
        let Some(program) = &self.program else { return Err(lost()) };
        program.check(CHECK).await.map(|next| next.version).map_err(|e| e.to_string())
    }

    /// Lets the upgrade begin once whoever asked has his answer.
    pub(crate) fn begin(&self, wait: Duration) {
        let orders = self.orders.clone();
        tokio::spawn(async move {
            tokio::time::sleep(ANSWER).await;
            // One that is under way already serves both.
            let _ = orders.try_send(wait);
        });
    }

    /// Goes on in the new program, and comes back only with the reason why not.
    pub(crate) async fn execute(
        &self,
        handle: &Handle,
        listener: &TcpListener,
        wish: UpgradeTrigger,
    ) -> Result<Infallible, String> {
        let version = match self.check().await {
            Ok(version) => version,
            Err(why) => {
                wish.note(handle, AuditOutcome::Refused, why.clone()).await;
                return Err(why);
            }
        };
        wish.note(handle, AuditOutcome::Applied, UPGRADE_BEGINS.to_owned()).await;
        let Some(program) = self.program.clone() else { return Err(lost()) };
        tracing::info!("upgrading to {version}");
        let listener = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned();
        let listener: Option<OwnedFd> = listener.inspect_err(|e| tracing::warn!("callers wait: {e}")).ok();
        handle.upgrade_unaudited(program, listener, wish.wait()).await
    }
}

/// By what an upgrade is asked for, and how long runs inside the process are waited for.
#[derive(Clone, Copy)]
pub(crate) enum UpgradeTrigger {
    /// By a signal, of which nobody else tells the audit log.
    Signal,
    /// By a caller, who has his entry.
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
            let deed = AuditAction::new("upgrade", &format!("node {}", handle.name()));
            let deed = deed.of_node(Some(handle.name().clone()));
            handle.log_decision(Requester::process(), deed, outcome, why).await;
        }
    }
}

fn lost() -> String {
    "it is not known from which file this program was started: restart it instead".to_owned()
}

/// What an earlier program of this process passed on, if any did.
pub(crate) fn receive_handoff() -> Option<ReceivedHandoff> {
    let passed = ReceivedHandoff::receive();
    let passed = passed.inspect_err(|e| {
        tracing::error!("what the earlier program passed on cannot be read ({e}): its runs are ended");
    });
    passed.ok().flatten()
}

/// The listener of the earlier program, if it is where this one is to listen: no caller is refused meanwhile.
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

/// Says why it came to nothing.
pub(crate) fn refused(why: &str) {
    tracing::warn!("not upgraded, and nothing has changed: {why}");
}
