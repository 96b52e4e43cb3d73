//! Executes nothing: the runs of jobs with `shadow = true` end as soon as they start.

use evenkeel_core::effect::Run;
use evenkeel_core::input::RunOutcome;
use evenkeel_core::lifecycle::SHADOW;
use tokio::sync::mpsc;

use super::report::EndReporter;
use crate::clock;
use crate::executor::ExecutorEvent;

/// The executor of shadows.
pub(crate) struct ShadowExecutor {
    events: mpsc::UnboundedSender<ExecutorEvent>,
}

impl ShadowExecutor {
    pub(crate) fn new(events: mpsc::UnboundedSender<ExecutorEvent>) -> Self {
        Self { events }
    }

    /// Ends a run. One that comes too late does not start, as any other.
    pub(crate) fn start(&self, run: Run) {
        let mut report = EndReporter::new(self.events.clone(), &run, SHADOW);
        if clock::now().mono >= run.not_after {
            return report.not_started();
        }
        report.end(RunOutcome::Succeeded, SHADOW.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ids::Token;
    use evenkeel_core::job::{LaunchSettings, Priority, RunParameters, Work};
    use evenkeel_core::time::{Millis, Mono, Wall};

    use super::*;

    fn run(not_after: Mono) -> Run {
        Run {
            id: "j:1000:0".parse().unwrap(),
            due: Wall(1000),
            priority: Priority::default(),
            again: None,
            shards: 1,
            parameter: String::new(),
            job_parameter: String::new(),
            parameters: RunParameters::default(),
            attempt: 1,
            token: Token::default(),
            sent: String::new(),
            work: Work::Command(vec!["/bin/false".into()]),
            shadow: true,
            setting: Box::new(LaunchSettings::default()),
            timeout: None,
            retry: None,
            not_after,
        }
    }

    #[test]
    fn a_shadow_ends_at_once_and_one_that_is_too_late_does_not_start() {
        let (sender, mut events) = mpsc::unbounded_channel();
        let (shadows, now) = (ShadowExecutor::new(sender), clock::now().mono);
        shadows.start(run(now + Millis::secs(60)));
        let Ok(ExecutorEvent::Ended(end)) = events.try_recv() else { panic!("it has ended") };
        assert_eq!((end.ended, end.reason.as_ref()), (RunOutcome::Succeeded, SHADOW));
        shadows.start(run(now - Millis(1)));
        let event = events.try_recv();
        assert!(matches!(event, Ok(ExecutorEvent::NotStarted { attempt: 1, .. })), "{event:?}");
        assert!(events.try_recv().is_err(), "each start has one event");
    }
}
