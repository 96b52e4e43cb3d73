//! Queries about a world, for tests, scenarios and the final check of a seed.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::Event;
use evenkeel_core::ids::{Fire, JobName, Member, NodeName};
use evenkeel_core::input::{Answer, CommandId};
use evenkeel_core::keys::{self, Key};
use evenkeel_core::node::Node;
use evenkeel_core::placement::claims;
use evenkeel_core::record::{Assignment, NodeIntent, ShardRunState, decode};
use evenkeel_core::registry::{Change, Value};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::store::Store;
use evenkeel_core::view::GroupId;

use super::{SimWorld, clock};
use crate::invariants::InvariantChecker;
use crate::trace::Trace;

impl SimWorld {
    /// Milliseconds since the world began.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.at
    }

    /// The number of steps of its nodes.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// All nodes, up or down.
    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.actors.keys()
    }

    /// A node's state, if its process is up.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.actors.get(name)?.node.as_ref()
    }

    /// X: the number of jobs that a node believes to own.
    #[must_use]
    pub fn held(&self, name: &NodeName) -> usize {
        let node = self.node(name);
        node.and_then(|n| Some(n.view().count(&n.member()?))).unwrap_or(0)
    }

    /// N: a node's quota, by its own view.
    #[must_use]
    pub fn quota(&self, name: &NodeName) -> usize {
        let quota = |n: &Node| claims::quota_in(n.view(), n.local().settings(), GroupId::EVERYWHERE);
        self.node(name).map_or(0, quota)
    }

    /// A sharded job as the registry has it: its leader, its pending reshard, its shard assignments and its run states.
    #[must_use]
    pub fn shard_assignments(&self, job: &JobName) -> String {
        let place: Option<Assignment> = self.entry(&keys::assignment(job)).and_then(|value| decode(&value));
        let sharding = place.and_then(|place| place.sharding).unwrap_or_default();
        let short = |member: &Member| member.node.to_string();
        let leader = sharding.leader.as_ref().map_or("-".to_owned(), short);
        let pending = sharding
            .reshard_pending
            .map_or("-".to_owned(), |pending| format!("{:?}", pending.why).to_lowercase());
        let mut text = format!("{job}: leader={leader} reshard_pending={pending}");
        for assignment in &sharding.shard_map.assignments {
            let all = assignment.groups.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards));
            text += &format!(" {}=[{all}]", short(&assignment.holder));
        }
        let draining = &sharding.shard_map.draining;
        text += &if draining.is_empty() { "\n".to_owned() } else { format!(" draining=[{draining}]\n") };
        for member in &sharding.run_states {
            let run_state = self
                .entry(&keys::shard_run_state(job, member))
                .and_then(|value| decode::<ShardRunState>(&value));
            let Some(run_state) = run_state else { continue };
            for open in &run_state.open {
                let due = (open.due - clock::START).0 / 1000;
                let fire = match &open.fire {
                    Fire::Due(_) => format!("{due}s"),
                    Fire::Asked(request) => request.to_string(),
                };
                text += &format!(
                    "  {} runs [{}] of {fire}, attempt {}\n",
                    short(member),
                    open.shards,
                    open.attempt
                );
            }
        }
        text
    }

    /// The registry's true value of a key.
    #[must_use]
    pub fn entry(&self, key: &Key) -> Option<Value> {
        Some(self.store.read(core::slice::from_ref(key)).pop()?.entry?.value)
    }

    /// The jobs that a node believes to own.
    #[must_use]
    pub fn jobs_of(&self, name: &NodeName) -> BTreeSet<JobName> {
        let Some((node, member)) = self.node(name).and_then(|n| Some((n, n.member()?))) else {
            return BTreeSet::new();
        };
        node.view().owned(&member).map(|id| node.view().job(id).name().clone()).collect()
    }

    /// How often a node raised the alarm.
    #[must_use]
    pub fn alarms(&self, name: &NodeName) -> usize {
        self.events.iter().filter(|(_, n, e)| n == name && matches!(e, Event::Alarm { .. })).count()
    }

    /// The events of nodes, with their times.
    #[must_use]
    pub fn announced(&self) -> &[(i64, NodeName, Event)] {
        &self.events
    }

    /// The answer to a command, if there is one.
    #[must_use]
    pub fn answer(&self, ask: CommandId) -> Option<&Answer> {
        self.answers.get(&ask)
    }

    /// All answers.
    #[must_use]
    pub fn answers(&self) -> &BTreeMap<CommandId, Answer> {
        &self.answers
    }

    /// Commands to a present process without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = (&NodeName, CommandId)> {
        let all = self.actors.iter().flat_map(|(name, a)| a.asked.iter().map(move |ask| (name, *ask)));
        all.filter(|(_, ask)| !self.answers.contains_key(ask))
    }

    /// The true registry.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether a node is to be drained, by the true registry.
    #[must_use]
    pub fn is_drained(&self, name: &NodeName) -> bool {
        let found = self.store.read(&[evenkeel_core::keys::intent(name)]);
        let item = |c: &Change| decode::<NodeIntent>(&c.entry.as_ref()?.value);
        found.iter().filter_map(item).any(|intent| intent.wanted)
    }

    /// The invariant checker.
    #[must_use]
    pub fn checker(&self) -> &InvariantChecker {
        &self.checker
    }

    /// The invariant checker, for the final check, which may report a violation.
    pub(crate) fn checker_mut(&mut self) -> &mut InvariantChecker {
        &mut self.checker
    }

    /// The trace so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}
