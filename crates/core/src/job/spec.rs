//! The spec of a job: what a file declares and, kept apart from it, what operators switch at run time.
//!
//! A declaration is applied again and again, by people and by programs. A switch is set once, in an incident say, and
//! must stand until an operator ends it. So the spec keeps both: what the file says, and what an operator made of it.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::{Job, SwitchPosition};
use crate::shards::ShardSet;
use crate::time::Wall;

/// A declaration, and what operators have switched apart from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// The declaration; its `enabled` is the present state, which an operator may have set: see [`Spec::declared`].
    pub job: Job,
    /// Rises with every change of the entry.
    pub version: u64,
    /// Fires up to this moment are ignored: the job was created, resumed, enabled or rescheduled then.
    pub since: Wall,
    /// A paused job keeps its owner and runs only when triggered manually.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub paused: bool,
    /// Shards that an operator has disabled.
    #[serde(default, skip_serializing_if = "ShardSet::is_empty")]
    pub off: ShardSet,
    /// Which switches an operator set, when, and what the file declares instead.
    #[serde(default, skip_serializing_if = "OperatorSwitches::is_empty")]
    pub operator: OperatorSwitches,
}

/// When an operator set a switch, and under which name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SwitchOrigin {
    /// When it was set.
    pub at: Wall,
    /// The caller's name in the request, such as `root@host`: unverified, as in the audit log. Empty where absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// An operator enabled or disabled a job against what its file declares.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnabledSwitch {
    /// What the file declares; `enabled` of the job is the present state.
    pub declared: bool,
    /// When it was switched, and by whom.
    #[serde(flatten)]
    pub origin: SwitchOrigin,
}

/// The operators' switches that are set on a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OperatorSwitches {
    /// The job was enabled or disabled, and its file says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<EnabledSwitch>,
    /// The job is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<SwitchOrigin>,
    /// Some shards are disabled: the latest change of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<SwitchOrigin>,
}

impl OperatorSwitches {
    /// Whether there is nothing to be kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Spec {
    /// A spec without switches, of this version; fires up to `since` are ignored.
    #[must_use]
    pub fn new(job: Job, version: u64, since: Wall) -> Self {
        let (off, operator) = (ShardSet::empty(), OperatorSwitches::default());
        Self { job, version, since, paused: false, off, operator }
    }

    /// The declaration as it was applied, whatever an operator has switched since.
    #[must_use]
    pub fn declared(&self) -> Job {
        self.job.clone().with_enabled(self.is_declared_enabled().into())
    }

    /// Whether this is the declaration as it was applied.
    #[must_use]
    pub fn declares(&self, job: &Job) -> bool {
        if self.operator.enabled.is_some() { self.declared() == *job } else { self.job == *job }
    }

    /// Whether an operator has switched something of the job as a whole, or of its shards.
    #[must_use]
    pub fn is_switched(&self) -> bool {
        self.paused || !self.off.is_empty() || !self.operator.is_empty()
    }

    /// Whether the declaration as it was applied enables the job.
    #[must_use]
    pub fn is_declared_enabled(&self) -> bool {
        self.operator.enabled.as_ref().map_or(self.job.enabled, |switch| switch.declared)
    }

    /// Sets an operator's enabled switch. Where it equals the file's declaration, no earlier switch is left.
    pub fn switch_enabled(&mut self, to: SwitchPosition, origin: SwitchOrigin) {
        let on = to == SwitchPosition::On;
        let declared = self.is_declared_enabled();
        self.job = self.job.clone().with_enabled(to);
        self.operator.enabled = (on != declared).then_some(EnabledSwitch { declared, origin });
    }

    /// The same switches under another declaration. An operator's switch stays, unless the declaration changes that
    /// field against the last one.
    #[must_use]
    pub fn redeclared(&self, job: &Job) -> (Job, OperatorSwitches) {
        if job.enabled != self.is_declared_enabled() {
            let operator = OperatorSwitches { enabled: None, ..self.operator.clone() };
            return (job.clone(), operator);
        }
        (job.clone().with_enabled(self.job.enabled.into()), self.operator.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobFile, Work};

    fn spec(enabled: bool) -> Spec {
        let mut file = JobFile::new("j".parse().unwrap(), "@daily", Work::Function("f".into()));
        file.enabled = enabled;
        Spec::new(Job::parse(file).unwrap(), 1, Wall(0))
    }

    fn ops() -> SwitchOrigin {
        SwitchOrigin { at: Wall(7), by: "ops".into() }
    }

    #[test]
    fn a_switch_stands_until_the_declaration_says_something_else_or_an_operator_ends_it() {
        for declared in [true, false] {
            let mut switched = spec(declared);
            let (same, other) = match declared {
                true => (SwitchPosition::On, SwitchPosition::Off),
                false => (SwitchPosition::Off, SwitchPosition::On),
            };
            switched.switch_enabled(other, ops());
            assert_eq!(switched.job.enabled, !declared, "what holds");
            assert_eq!(switched.declared(), spec(declared).job);

            let reworded = JobFile { description: "new".into(), ..spec(declared).job.to_file() };
            let reworded = Job::parse(reworded).unwrap();
            let (job, operator) = switched.redeclared(&reworded);
            assert_eq!((job.enabled, operator), (!declared, switched.operator.clone()));

            let changed = spec(!declared).job;
            let (job, operator) = switched.redeclared(&changed);
            assert_eq!((job.enabled, operator.is_empty()), (!declared, true), "the file says so itself");

            switched.switch_enabled(same, ops());
            assert_eq!(switched, spec(declared), "nothing is left of it");
        }
    }
}
