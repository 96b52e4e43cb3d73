//! How a trace names what happens, for people.

use evenkeel_core::input::Input;

use crate::trace::describe;

use super::outlook::{Act, Mishap};
use super::state::{Request, State, Trouble};

const NAMES: [&str; 2] = ["a", "b"];

impl State {
    /// One act in words.
    pub(super) fn tell(&self, act: Act) -> String {
        let side = |n: u8| self.sides[n as usize].get();
        let name = |n: u8| NAMES[n as usize];
        let request = |n: u8, i: u8| side(n).requests.get(i as usize).map(asked).unwrap_or_default();
        match act {
            Act::Serve(n, i) => format!("registry serves {}: {}", name(n), request(n, i)),
            Act::Take(n, i) => {
                format!("{} takes {}", name(n), side(n).inbox.get(i as usize).map(brief).unwrap_or_default())
            }
            Act::TakeSlow(n) => {
                format!("{} takes, late, {}", name(n), side(n).slow.as_ref().map(brief).unwrap_or_default())
            }
            Act::Hear(n) => format!("{} hears the news", name(n)),
            Act::Ring(n) => format!("{}: timer", name(n)),
            Act::Launch(n) => format!("{}: executor begins the child", name(n)),
            Act::End(n, i) => {
                let child = side(n).running.get(i as usize).map(|child| child.run.id.shard.0);
                format!("{}: the child of shard {} ends", name(n), child.unwrap_or_default())
            }
            Act::Land(i) => {
                let late = self.late.get(i as usize);
                late.map(|l| format!("a late commit of {} arrives: {}", name(l.side), l.kind))
                    .unwrap_or_default()
            }
            Act::Wait => "time passes".into(),
            Act::Ask(n, wish) => format!("somebody asks {}: {wish:?}", name(n)),
            Act::Strike(n, mishap) => format!("FAULT {}", self.mishap(n, mishap)),
            Act::Mend(n) => match side(n).trouble {
                Some(Trouble::Down) => format!("{} starts again", name(n)),
                Some(Trouble::Frozen(_)) => format!("{} goes on", name(n)),
                _ => format!("{} reaches the registry again", name(n)),
            },
            Act::MendWithLoss(n) => format!("{} reaches the registry again, its requests were lost", name(n)),
        }
    }

    fn mishap(&self, n: u8, mishap: Mishap) -> String {
        let name = NAMES[n as usize];
        let requests = &self.sides[n as usize].get().requests;
        let request = |i: u8| requests.get(i as usize).map(asked).unwrap_or_default();
        match mishap {
            Mishap::RequestLost(i) => format!("a request of {name} is lost: {}", request(i)),
            Mishap::RequestLate(i) => format!("a request of {name} is late: {}", request(i)),
            Mishap::ReplyLost(i) => format!("an answer to {name} is lost: {}", request(i)),
            Mishap::ReplySlow(i) => format!("an answer to {name} is overtaken: {}", request(i)),
            Mishap::NewsLost => format!("news for {name} is lost"),
            Mishap::Freeze => format!("{name} is frozen"),
            Mishap::Cut => format!("{name} is cut from the registry"),
            Mishap::Crash => format!("{name} crashes"),
        }
    }
}

/// An input in a few words, without the values that news carries.
fn brief(input: &Input) -> String {
    let text = describe(input);
    text.split_once('=').map_or(text.clone(), |(start, _)| format!("{start}…"))
}

fn asked(request: &Request) -> String {
    match request {
        Request::Open(_) => "open a lease".into(),
        Request::Renew(_, lease) => format!("renew lease {lease}"),
        Request::Close(lease) => format!("close lease {lease}"),
        Request::List => "list".into(),
        Request::Read(_) => "read the lane".into(),
        Request::Offer { to, .. } => format!("offer runs to {to}"),
        Request::Commit { ticket, kind, .. } => format!("commit #{} {kind}", ticket.0),
    }
}
