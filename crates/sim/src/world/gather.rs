//! Busy nodes: what the registry answers and what runs come to is taken in one step where it came together.

use evenkeel_core::ids::NodeName;
use evenkeel_core::input::Input;

use super::{SimWorld, WorldEvent};

/// How long the first of what comes together waits at most, in milliseconds.
const WAIT: i64 = 8;

impl SimWorld {
    /// Steps a node with this input: now, or together with what else comes soon.
    pub(super) fn deliver(&mut self, name: &NodeName, input: Input) {
        if !self.options.gathers || !is_gathered(&input) {
            return self.give(name, input);
        }
        let Some(actor) = self.actors.get_mut(name) else { return };
        let (is_first, life) = (actor.together.is_empty(), actor.life);
        actor.together.push((life, input));
        if is_first {
            let wait = self.gathering.between(0, WAIT);
            self.after(wait, WorldEvent::GiveAll { node: name.clone() });
        }
    }

    /// Steps a node with what has come together. What was meant for an earlier process or program is dropped.
    pub(super) fn deliver_all(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        let mut inputs = std::mem::take(&mut actor.together);
        inputs.retain(|(life, input)| actor.accepts(*life, input));
        if inputs.is_empty() {
            return;
        }
        self.give_all(name, inputs.into_iter().map(|(_, input)| input).collect());
    }

    /// The first of what a process finds that was stopped, with what is taken in one step with it.
    pub(super) fn take_found(&mut self, name: &NodeName) -> Vec<Input> {
        let Some(actor) = self.actors.get_mut(name) else { return Vec::new() };
        let gathers = self.options.gathers;
        let together = actor.inbox.iter().take_while(|input| gathers && is_gathered(input)).count();
        actor.inbox.drain(..together.max(1).min(actor.inbox.len())).collect()
    }
}

/// Whether drivers gather inputs of this kind.
fn is_gathered(input: &Input) -> bool {
    matches!(input, Input::Committed { .. } | Input::Run { .. })
}
