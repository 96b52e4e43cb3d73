//! Where faults are planted: between a node and its world. An honest node has nothing there.

use evenkeel_core::effect::Effect;
use evenkeel_core::handoff::NodeHandoff;
use evenkeel_core::input::Input;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::RegistryBookmark;
use evenkeel_core::rule_context::Rule;
use evenkeel_core::rules;
use evenkeel_core::time::Now;

/// A hand between a node and its world.
pub trait Mutation: Sync {
    /// The rules that nodes follow.
    fn rules(&self) -> &'static [Rule] {
        rules::ALL
    }

    /// Changes what a node is told at its start.
    fn settings(&self, _settings: &mut Settings) {}

    /// Changes what a node is about to hear.
    fn input(&self, _node: &Node, _now: Now, _input: &mut Input) {}

    /// Changes what a node just decided.
    fn effects(&self, _node: &Node, _effects: &mut Vec<Effect>) {}

    /// Changes what a node passes on to the program that takes its place.
    fn handoff(&self, _now: Now, _baton: &mut NodeHandoff) {}

    /// Whether a program is asked which layouts it knows before a node goes on in it.
    fn checks_programs(&self) -> bool {
        true
    }

    /// Whether the clock on which a node counts its lease goes on while its host sleeps.
    fn counts_suspend(&self) -> bool {
        true
    }

    /// Whether who finds that the registry may have gone back in time waits until all others have noticed.
    fn waits_for_others(&self) -> bool {
        true
    }

    /// Whether it is written down until when the registry may have forgotten what was done.
    fn records_loss_window(&self) -> bool {
        true
    }

    /// Changes how a node remembers to have seen the registry last.
    fn seen(&self, _seen: &mut Option<RegistryBookmark>) {}

    /// Whether a guard process ends the runs of a node that may not go on.
    fn guards(&self) -> bool {
        true
    }
}

/// No fault is planted.
#[derive(Clone, Copy, Debug)]
pub struct NoMutation;

impl Mutation for NoMutation {}
