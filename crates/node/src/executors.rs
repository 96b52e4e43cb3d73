//! The kinds of executor: commands, functions and HTTP requests.

mod command;
mod counts;
mod dataflow;
mod function;
mod http;
mod report;
mod shadow;

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::RunId;
use evenkeel_core::job::Work;
use evenkeel_core::time::Mono;

use crate::executor::TrustDeadline;
use crate::guard::MemberRemoval;
use crate::secrets::NodeSecrets;
pub(crate) use command::CommandExecutor;
pub(crate) use counts::ItemCounts;
pub use dataflow::FetchOutput;
pub(crate) use dataflow::StreamEndCheck;
pub(crate) use function::FunctionExecutor;
pub use function::{FunctionOutput, Functions, RunContext};
pub(crate) use http::HttpExecutor;
pub use http::Network;
pub(crate) use shadow::ShadowExecutor;

/// All executors of a node.
pub(crate) struct Executors {
    pub(crate) functions: FunctionExecutor,
    pub(crate) commands: CommandExecutor,
    pub(crate) http: HttpExecutor,
    pub(crate) shadows: ShadowExecutor,
}

impl Executors {
    /// The secrets that this node has.
    pub(crate) fn secrets(&self) -> NodeSecrets {
        self.http.secrets.clone()
    }

    /// Queues a run, which starts at the latest with the next [`go`](Self::go).
    pub(crate) fn start(&mut self, run: Run) {
        match run.work.clone() {
            _ if run.shadow => self.shadows.start(run),
            Work::Function(name) => self.functions.start(run, &name),
            Work::Command(argv) => self.commands.start(run, argv),
            Work::Http(http) => self.http.start(run, http),
        }
    }

    /// Starts the queued runs.
    pub(crate) fn go(&mut self) {
        self.functions.go();
    }

    /// Ends a run; does nothing if the run is not executed here.
    pub(crate) fn stop(&mut self, run: &RunId, reason: StopReason) {
        self.functions.stop(run, reason);
        self.commands.stop(run, reason);
        self.http.stop(run, reason);
    }

    /// Moves the trust deadline.
    pub(crate) fn trust(&mut self, trust: TrustDeadline) {
        self.functions.trust(trust);
        self.commands.trust(trust);
        self.http.trust(trust);
    }

    /// Notes which member to remove from the registry if this process dies. Only a guard can do that.
    pub(crate) fn joined(&mut self, removal: MemberRemoval) {
        self.commands.joined(removal);
    }

    /// Asks functions to stop and drops requests when the deadline has passed. Commands are the guard's.
    pub(crate) fn fence(&mut self, now: Mono) {
        self.functions.fence(now);
        self.http.fence(now);
    }

    /// Forgets a run that has ended.
    pub(crate) fn forget(&mut self, run: &RunId) {
        self.functions.forget(run);
        self.http.forget(run);
    }
}
