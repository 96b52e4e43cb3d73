//! How a trace names what happens, for people.

use evenkeel_core::input::{Input, LeaseEvent, RunEvent};
use evenkeel_core::registry::Outcome;

use super::act::{Act, Fault};
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
                format!("{} takes {}", name(n), side(n).inbox.get(i as usize).map(told).unwrap_or_default())
            }
            Act::TakeSlow(n) => {
                format!("{} takes, late, {}", name(n), side(n).slow.as_ref().map(told).unwrap_or_default())
            }
            Act::Hear(n) => format!("{} hears the news", name(n)),
            Act::Ring(n) => format!("{}: timer", name(n)),
            Act::Launch(n) => format!("{}: executor begins the child", name(n)),
            Act::End(n) => format!("{}: the child ends", name(n)),
            Act::Land(i) => {
                let late = self.late.get(i as usize);
                late.map(|l| format!("a late commit of {} arrives: {}", name(l.side), l.why)).unwrap_or_default()
            }
            Act::Wait => "time passes".into(),
            Act::Fault(Fault::RequestLost, n, i) => format!("FAULT a request of {} is lost: {}", name(n), request(n, i)),
            Act::Fault(Fault::ReplyLost, n, i) => format!("FAULT an answer to {} is lost: {}", name(n), request(n, i)),
            Act::Fault(Fault::ReplySlow, n, i) => format!("FAULT an answer to {} is overtaken: {}", name(n), request(n, i)),
            Act::Fault(Fault::RequestLate, n, i) => format!("FAULT a request of {} is late: {}", name(n), request(n, i)),
            Act::Fault(Fault::NewsLost, n, _) => format!("FAULT news for {} is lost", name(n)),
            Act::Fault(Fault::Freeze, n, _) => format!("FAULT {} is frozen", name(n)),
            Act::Fault(Fault::Cut, n, _) => format!("FAULT {} is cut from the registry", name(n)),
            Act::Fault(Fault::Crash, n, _) => format!("FAULT {} crashes", name(n)),
            Act::Mend(n) => match side(n).trouble {
                Some(Trouble::Down) => format!("{} starts again", name(n)),
                Some(Trouble::Frozen(_)) => format!("{} goes on", name(n)),
                _ => format!("{} reaches the registry again", name(n)),
            },
            Act::MendWithLoss(n) => format!("{} reaches the registry again, its requests were lost", name(n)),
        }
    }
}

fn asked(request: &Request) -> String {
    match request {
        Request::Open(_) => "open a lease".into(),
        Request::Renew(_, lease) => format!("renew lease {lease}"),
        Request::Close(lease) => format!("close lease {lease}"),
        Request::List => "list".into(),
        Request::Read(_) => "read the lane".into(),
        Request::Commit { ticket, why, .. } => format!("commit #{} {why}", ticket.0),
    }
}

fn told(input: &Input) -> String {
    match input {
        Input::Lease(LeaseEvent::Opened { granted, .. }) => format!("lease {} opened", granted.lease),
        Input::Lease(LeaseEvent::Renewed { granted, .. }) => format!("lease {} renewed", granted.lease),
        Input::Lease(LeaseEvent::Gone(lease)) => format!("lease {lease} is gone"),
        Input::Lease(LeaseEvent::Failed) => "no answer about its lease".into(),
        Input::Listed(Some(_)) => "the listing".into(),
        Input::Listed(None) => "no listing".into(),
        Input::Read(Some(_)) => "the lane as read".into(),
        Input::Read(None) => "no answer to its reading".into(),
        Input::Committed { ticket, outcome } => {
            let how = match outcome {
                Outcome::Applied(_) => "applied",
                Outcome::Refused(_) => "refused",
                Outcome::Unknown => "unknown",
            };
            format!("commit #{}: {how}", ticket.0)
        }
        Input::Run { attempt, event: RunEvent::NotStarted, .. } => format!("attempt {attempt} not started"),
        Input::Run { attempt, event: RunEvent::Ended(how), .. } => format!("attempt {attempt} ended: {how:?}"),
        Input::Recorded { attempt, .. } => format!("history has the verdict on attempt {attempt}"),
        other => format!("{other:?}"),
    }
}
