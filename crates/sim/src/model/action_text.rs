//! Describes actions for people, in traces.

use evenkeel_core::input::Input;

use crate::trace::describe;

use super::choices::{ModelAction, ModelFault};
use super::state::{ModelRequest, ModelState, NodeTrouble};

const NAMES: [&str; 2] = ["a", "b"];

impl ModelState {
    /// One action in words.
    pub(super) fn describe_action(&self, act: ModelAction) -> String {
        let side = |n: u8| self.sides[n as usize].get();
        let name = |n: u8| NAMES[n as usize];
        let request =
            |n: u8, i: u8| side(n).requests.get(i as usize).map(describe_request).unwrap_or_default();
        match act {
            ModelAction::Serve(n, i) => format!("registry serves {}: {}", name(n), request(n, i)),
            ModelAction::Take(n, i) => {
                format!("{} takes {}", name(n), side(n).inbox.get(i as usize).map(brief).unwrap_or_default())
            }
            ModelAction::TakeSlow(n) => {
                format!("{} takes, late, {}", name(n), side(n).slow.as_ref().map(brief).unwrap_or_default())
            }
            ModelAction::Hear(n) => format!("{} hears the news", name(n)),
            ModelAction::Ring(n) => format!("{}: timer", name(n)),
            ModelAction::Launch(n) => format!("{}: executor begins the child", name(n)),
            ModelAction::End(n, i) => {
                let child = side(n).running.get(i as usize).map(|child| child.run.id.shard.0);
                format!("{}: the child of shard {} ends", name(n), child.unwrap_or_default())
            }
            ModelAction::Land(i) => {
                let late = self.late.get(i as usize);
                late.map(|l| format!("a late commit of {} arrives: {}", name(l.side), l.kind))
                    .unwrap_or_default()
            }
            ModelAction::Remove(n) => format!("the guard of {} removes its member", name(n)),
            ModelAction::Wait => "time passes".into(),
            ModelAction::Ask(n, item) => format!("somebody asks {}: {item:?}", name(n)),
            ModelAction::Strike(n, mishap) => format!("FAULT {}", self.mishap(n, mishap)),
            ModelAction::Mend(n) => match side(n).trouble {
                Some(NodeTrouble::Down) => format!("{} starts again", name(n)),
                Some(NodeTrouble::Frozen(_)) => format!("{} goes on", name(n)),
                _ => format!("{} reaches the registry again", name(n)),
            },
            ModelAction::MendWithLoss(n) => {
                format!("{} reaches the registry again, its requests were lost", name(n))
            }
        }
    }

    fn mishap(&self, n: u8, mishap: ModelFault) -> String {
        let name = NAMES[n as usize];
        let requests = &self.sides[n as usize].get().requests;
        let request = |i: u8| requests.get(i as usize).map(describe_request).unwrap_or_default();
        match mishap {
            ModelFault::RequestLost(i) => format!("a request of {name} is lost: {}", request(i)),
            ModelFault::RequestLate(i) => format!("a request of {name} is late: {}", request(i)),
            ModelFault::ReplyLost(i) => format!("an answer to {name} is lost: {}", request(i)),
            ModelFault::ReplySlow(i) => format!("an answer to {name} is overtaken: {}", request(i)),
            ModelFault::NewsLost => format!("news for {name} is lost"),
            ModelFault::Freeze => format!("{name} is frozen"),
            ModelFault::Cut => format!("{name} is cut from the registry"),
            ModelFault::Crash => format!("{name} crashes"),
        }
    }
}

/// An input in a few words, without the values of changes.
fn brief(input: &Input) -> String {
    let text = describe(input);
    text.split_once('=').map_or(text.clone(), |(start, _)| format!("{start}…"))
}

fn describe_request(request: &ModelRequest) -> String {
    match request {
        ModelRequest::Open(_) => "open a lease".into(),
        ModelRequest::Renew(_, lease) => format!("renew lease {lease}"),
        ModelRequest::Close(lease) => format!("close lease {lease}"),
        ModelRequest::List => "list".into(),
        ModelRequest::Read(_) => "read the lane".into(),
        ModelRequest::Offer { to, .. } => format!("offer runs to {to}"),
        ModelRequest::Commit { ticket, kind, .. } => format!("commit #{} {kind}", ticket.0),
    }
}
