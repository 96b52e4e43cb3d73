//! Executes commands through the guard process.

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::RunId;
use evenkeel_core::job::LaunchSettings;
use evenkeel_core::time::Millis;
use tokio::sync::mpsc;

use crate::command_policy::CommandPolicy;
use crate::executor::{AttemptResult, ExecutorEvent, TrustDeadline};
use crate::guard::{AttemptId, BE_ALONE, GuardRequest, LaunchSpec, MemberRemoval};
use crate::logs::{LogLimits, Logs};
use crate::secrets::NodeSecrets;
use crate::trace::ids::{RunEnvironment, TRACEPARENT};

/// The executor of commands.
pub(crate) struct CommandExecutor {
    /// `None` when this program cannot be its own guard.
    guard: Option<mpsc::UnboundedSender<GuardRequest>>,
    environment: RunEnvironment,
    logs: Logs,
    bounds: LogLimits,
    policy: CommandPolicy,
    secrets: NodeSecrets,
    events: mpsc::UnboundedSender<ExecutorEvent>,
}

impl CommandExecutor {
    pub(crate) fn new(
        orders: Option<mpsc::UnboundedSender<GuardRequest>>,
        environment: RunEnvironment,
        (logs, bounds): (Logs, LogLimits),
        (policy, secrets): (CommandPolicy, NodeSecrets),
        news: mpsc::UnboundedSender<ExecutorEvent>,
    ) -> Self {
        Self { guard: orders, environment, logs, bounds, policy, secrets, events: news }
    }

    pub(crate) fn start(&mut self, run: Run, argv: Vec<String>) {
        let Some(orders) = &self.guard else {
            let reason = format!("this program runs no commands: {BE_ALONE}");
            let _ = self.events.send(ExecutorEvent::Ended(AttemptResult::failed(&run, reason)));
            return;
        };
        if let Err(reason) = self.policy.check(&run.setting.user) {
            let _ = self.events.send(ExecutorEvent::Ended(AttemptResult::failed(&run, reason)));
            return;
        }
        let mut environment = self.environment.of(&run);
        if has_variable(&run.setting, TRACEPARENT) {
            environment.remove(TRACEPARENT);
        }
        let launch = LaunchSpec {
            argv,
            environment: environment.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            setting: *run.setting,
            secrets: Vec::new(),
            reader: self.secrets.of(&run.id.job),
            umask: self.policy.umask,
            no_new_privileges: self.policy.no_new_privileges,
            timeout: run.timeout.map(|span| span.0),
            not_after: run.not_after.0,
            log: self.logs.path(&run.id, run.attempt),
            keep: self.bounds.keep,
            rate: self.bounds.rate,
            id: AttemptId { run: run.id, attempt: run.attempt },
            due: run.due,
            priority: run.priority,
            again: run.again,
        };
        // The guard client ends only after this sender is gone.
        let _ = orders.send(GuardRequest::Start(Box::new(launch)));
    }

    pub(crate) fn stop(&mut self, run: &RunId, reason: StopReason) {
        self.send(GuardRequest::Stop { run: run.clone(), reason });
    }

    pub(crate) fn trust(&mut self, trust: TrustDeadline) {
        self.send(GuardRequest::Trust { until: trust.until.0, kill: trust.kill.0 });
    }

    /// Tells the guard which member to remove if this process dies.
    pub(crate) fn joined(&mut self, removal: MemberRemoval) {
        self.send(GuardRequest::Member(removal));
    }

    /// Sends a heartbeat of this thread, the node's. The guard expects the next one within this time.
    pub(crate) fn send_heartbeat(&self, within: Option<Millis>) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.send(GuardRequest::Heartbeat { thread, within: within.map(|within| within.0) });
    }

    fn send(&self, order: GuardRequest) {
        if let Some(orders) = &self.guard {
            let _ = orders.send(order);
        }
    }
}

/// Whether the job gives its command this variable.
fn has_variable(setting: &LaunchSettings, name: &str) -> bool {
    let secrets = setting.secrets.as_deref();
    setting.environment.contains_key(name)
        || setting.inherit.iter().any(|known| known == name)
        || secrets
            .is_some_and(|secrets| secrets.variables.contains_key(name) || secrets.files.contains_key(name))
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::CommandSecrets;

    use super::*;

    #[test]
    fn a_job_may_give_its_command_another_trace_context() {
        let mut setting = LaunchSettings::default();
        assert!(!has_variable(&setting, TRACEPARENT));
        setting.inherit = vec!["TRACEPARENT".to_owned()];
        assert!(has_variable(&setting, TRACEPARENT));
        setting.inherit.clear();
        let mut secrets = CommandSecrets::default();
        secrets.files.insert("TRACEPARENT".to_owned(), "s".to_owned());
        setting.secrets = Some(Box::new(secrets));
        assert!(has_variable(&setting, TRACEPARENT));
        setting.secrets = None;
        setting.environment.insert("TRACEPARENT".to_owned(), String::new());
        assert!(has_variable(&setting, TRACEPARENT));
    }
}
