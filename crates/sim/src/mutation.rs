//! Mutations: hooks between a node and its world that plant faults. The default of each hook changes nothing.

use evenkeel_core::effect::Effect;
use evenkeel_core::handoff::NodeHandoff;
use evenkeel_core::input::Input;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::RegistryBookmark;
use evenkeel_core::rule_context::Rule;
use evenkeel_core::rules;
use evenkeel_core::time::Now;

/// A fault between a node and its world.
pub trait Mutation: Sync {
    /// The rules that nodes follow.
    fn rules(&self) -> &'static [Rule] {
        rules::ALL
    }

    /// Changes the settings with which a node starts.
    fn settings(&self, _settings: &mut Settings) {}

    /// Changes an input before the node handles it.
    fn input(&self, _node: &Node, _now: Now, _input: &mut Input) {}

    /// Changes the effects of a node's last step.
    fn effects(&self, _node: &Node, _effects: &mut Vec<Effect>) {}

    /// Changes what a node hands off to the program that replaces its own.
    fn handoff(&self, _now: Now, _baton: &mut NodeHandoff) {}

    /// Whether a node checks the layouts of a program before it continues in it.
    fn checks_programs(&self) -> bool {
        true
    }

    /// Whether the clock of a node's lease goes on while its host sleeps.
    fn counts_suspend(&self) -> bool {
        true
    }

    /// Whether a node that finds a possible rewind of the registry waits until all others have noticed.
    fn waits_for_others(&self) -> bool {
        true
    }

    /// Whether the loss window of the registry is recorded.
    fn records_loss_window(&self) -> bool {
        true
    }

    /// Changes a node's bookmark of the registry.
    fn seen(&self, _seen: &mut Option<RegistryBookmark>) {}

    /// Whether a guard process ends the runs of a node that has lost its trust.
    fn guards(&self) -> bool {
        true
    }

    /// Whether a guard process removes its dead node's member only after all runs have ended.
    fn guard_awaits_runs(&self) -> bool {
        true
    }

    /// Whether a guard process can tell that its node's process is stopped and not dead.
    fn guard_knows_death(&self) -> bool {
        true
    }
}

/// No fault is planted.
#[derive(Clone, Copy, Debug)]
pub struct NoMutation;

impl Mutation for NoMutation {}
