//! Busy nodes: answers of the registry and ends of runs that come together are handled in one step.

use evenkeel_core::ids::NodeName;
use evenkeel_core::input::Input;

use super::{SimWorld, WorldEvent};

/// The maximum wait of the first input of a common step, in milliseconds.
const WAIT: i64 = 8;

impl SimWorld {
    /// Gives a node this input: now, or together with others that come soon.
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

    /// Gives a node the inputs that have come together. Inputs for an earlier process or program are dropped.
    pub(super) fn deliver_all(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        let mut inputs = std::mem::take(&mut actor.together);
        inputs.retain(|(life, input)| actor.accepts(*life, input));
        if inputs.is_empty() {
            return;
        }
        self.give_all(name, inputs.into_iter().map(|(_, input)| input).collect());
    }

    /// The first input of a resumed process, with those that are handled in the same step.
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
