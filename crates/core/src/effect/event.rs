//! The events that a node reports, and the one table of them: word, log level, notifications, subject, facts and text.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::ids::{JobName, Member, NodeName, PrincipalName, RequestId, counted};
use crate::job::Occasion;
use crate::keys::{Key, ParsedKey, parse};
use crate::labels::NodeSelector;
use crate::principal::PrincipalKind;
use crate::record::{JoinRefusal, UnknownLayout};
use crate::shards::ShardSet;
use crate::time::Millis;

/// The events that a node reports. A new one is a variant, its row in the table below, and its row in
/// `docs/concepts/events.md`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The node became a member.
    Joined,
    /// The node was handed off to a new program, with this number of runs.
    Upgraded(usize),
    /// The handoff to a new program failed, and the node stays in this one.
    NotUpgraded(String),
    /// The node's lease is gone; it starts nothing until it has joined again.
    LeaseLost,
    /// A file or folder in use was deleted, replaced or damaged; the text says which one, and what to do.
    StorageFailed(String),
    /// The node claimed a job and owns more than its alarm threshold (S1-26).
    Alarm {
        /// Number of owned jobs (X).
        held: usize,
        /// Threshold (M).
        alarm: usize,
    },
    /// Another living node has the same name.
    NameTaken(NodeName),
    /// The node's clock and the registry's differ by more than allowed: it claims no fire (law 6).
    ClockDiffers(Millis),
    /// An entry could not be read; it is left alone.
    Unreadable(Key),
    /// The entry of a job has no valid seal: no node of this cluster wrote it, and the job does not run.
    UnsealedJob(JobName),
    /// The entry of a user or an API token has no valid seal: it is not let in.
    UnsealedPrincipal(PrincipalKind, PrincipalName),
    /// There are jobs whose node selector fits no node there is: they do not run until one fits.
    Unschedulable(NodeSelector),
    /// This node is drained, or ends, and owns nothing any more: it may be stopped (S1-39, S1-61).
    Drained,
    /// This node is a candidate for the leadership of a job (S3-05).
    Electing(JobName),
    /// This node leads a job (S3-05).
    Elected(JobName),
    /// A reshard left these running shards where they are until they have ended (I2-13).
    ShardsDraining(JobName, ShardSet),
    /// A job was paused: so many runs in a row ended badly, and it allows no more.
    PausedAfterFailures(JobName, u32),
    /// A manual run skips these shards: they still ran, or their next run was claimed already (I2-08).
    Rejected(JobName, RequestId, ShardSet),
    /// An operator deleted this node's entry while its lease lived: it takes nothing until it is restarted (S3-30).
    Closed,
    /// The registry answers again, or for the first time (S4-13: connected).
    Connected,
    /// The registry does not answer: the lease is trusted for its term only (S4-13: connection exception).
    Disconnected,
    /// Nodes joined or left: there are so many now (S4-13: children changed).
    NodesChanged(usize),
    /// No life of this node is a member any more; it owned so many jobs, which other nodes may take over now.
    NodeLeft(Member, usize),
    /// Its peers mark a node as offline: it is offered nothing and takes no beat (S0-51).
    Offline(NodeName),
    /// An offline node is online again: its peers reach it, or it was restarted or activated (S0-52).
    Online(NodeName),
    /// The serving leader changed, or there is none now (S4-13: node data changed).
    LeaderChanged(Option<NodeName>, u64),
    /// The serving leader is gone (S4-13: node lost).
    LeaderLost(NodeName),
    /// This node has won the lead; it serves once it has loaded the metadata and has waited (S4-34).
    Resuming(u64),
    /// This node serves as the leader (S4-34).
    Serving(u64),
    /// This node stops serving: it refuses commands and plans nothing (S4-33).
    Suspended,
    /// Two nodes claim to serve, which must never happen (S4-39).
    MultiLeader(NodeName, NodeName),
    /// The registry accepts no members: its cluster was moved, or is not complete yet.
    Shut(JoinRefusal),
    /// The tree is written in a layout that this program does not know: the node stops deciding.
    UnknownLayout(UnknownLayout),
    /// A newer generation than this node's has begun: the node stops deciding (`I1`).
    Outdated(u16),
    /// A notification could not be delivered, or nobody asks for it; the text says why.
    NotifyFailed(String),
}

/// The level at which an event is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLevel {
    /// For who looks into a fault.
    Debug,
    /// A change that is expected.
    Info,
    /// Something that people should look at.
    Warn,
}

/// What everybody needs to know of an event: the log, history and notifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReport {
    /// The word for its kind, as history, notifiers and `event list` write it.
    pub kind: &'static str,
    /// The level at which it is logged.
    pub level: EventLevel,
    /// Its subject: notifiers send events of one kind and subject once within a window. `None`: the node that reports it.
    pub subject: Option<String>,
    /// The job that it is about; `None`: it is about no job.
    pub job: Option<JobName>,
    /// Its numbers, for programs.
    pub facts: Vec<(&'static str, u64)>,
    /// Its text.
    pub text: String,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind {
    /// The word, as history, notifiers and `event list` write it.
    pub name: &'static str,
    /// Whether notifiers send it: those that name it, or that take all with `*`.
    pub notified: bool,
}

/// Makes of the rows below the list of kinds, and the `match` by which the compiler finds an event without a row.
macro_rules! event_table {
    ($($event:pat => {
        kind: $kind:literal, level: $level:ident, notified: $notified:literal,
        subject: $subject:expr, facts: [$($fact:expr),*], text: ($($text:tt)*)
    })*) => {
        const KINDS: &[EventKind] = &[$(EventKind { name: $kind, notified: $notified }),*];

        impl Event {
            /// The row of the table that this event has.
            #[must_use]
            pub fn report(&self) -> EventReport {
                match self {
                    $($event => EventReport {
                        kind: $kind,
                        level: EventLevel::$level,
                        subject: $subject,
                        job: self.job().cloned(),
                        facts: [$($fact),*].into(),
                        text: format!($($text)*),
                    },)*
                }
            }
        }
    };
}

event_table! {
    Self::Joined => {
        kind: "joined", level: Info, notified: true, subject: None, facts: [],
        text: ("joined")
    }
    Self::Upgraded(runs) => {
        kind: "upgraded", level: Info, notified: true, subject: None, facts: [],
        text: ("went on in a new program, and {} with it", counted(*runs, "run"))
    }
    Self::NotUpgraded(why) => {
        kind: "not_upgraded", level: Warn, notified: true, subject: None, facts: [],
        text: ("not upgraded: {why}")
    }
    Self::LeaseLost => {
        kind: "lease_lost", level: Warn, notified: true, subject: None, facts: [],
        text: ("lease lost")
    }
    Self::StorageFailed(why) => {
        kind: "storage_failed", level: Warn, notified: true, subject: None, facts: [],
        text: ("{why}")
    }
    Self::Alarm { held, alarm } => {
        kind: "alarm", level: Warn, notified: true, subject: None,
        facts: [("held", *held as u64), ("alarm", *alarm as u64)],
        text: ("alarm: holds {}, threshold is {alarm}", counted(*held, "job"))
    }
    Self::NameTaken(node) => {
        kind: "name_taken", level: Warn, notified: true, subject: Some(node.to_string()), facts: [],
        text: (
            "a living node is already named {node}: stop it or choose another --name; if it is an earlier life of this node, \
             whose data folder is gone, its name is free when its lease has ended, which is waited for (longer with --wait-for-name)"
        )
    }
    Self::ClockDiffers(by) => {
        kind: "clock_differs", level: Warn, notified: true, subject: None, facts: [],
        text: ("clock differs from the registry's by {by}: no fire is claimed")
    }
    Self::Unreadable(key) => {
        kind: "unreadable", level: Warn, notified: true, subject: Some(key.to_string()), facts: [],
        text: ("entry {key} cannot be read and is left alone")
    }
    Self::UnsealedJob(job) => {
        kind: "job.unsealed", level: Warn, notified: true, subject: Some(job.to_string()), facts: [],
        text: (
            "job {job} does not run: no node of this cluster wrote its entry in the registry; look at it with `evenkeel job \
             unsealed`, then accept or delete it"
        )
    }
    Self::UnsealedPrincipal(kind, name) => {
        kind: "principal.unsealed", level: Warn, notified: true, subject: Some(format!("{} {name}", kind.as_str())), facts: [],
        text: (
            "{} {name} is not let in: no node of this cluster wrote its entry in the registry; delete it, or create it anew",
            kind.as_str()
        )
    }
    Self::Unschedulable(nodes) => {
        kind: "unschedulable", level: Warn, notified: true, subject: Some(nodes.to_string()), facts: [],
        text: ("no living node fits jobs for {nodes}: start one with these labels, or change the jobs")
    }
    Self::Drained => {
        kind: "drained", level: Info, notified: true, subject: None, facts: [],
        text: ("drained: owns nothing more and may be stopped")
    }
    Self::PausedAfterFailures(job, n) => {
        kind: "job.paused", level: Warn, notified: true, subject: Some(job.to_string()), facts: [],
        text: (
            "job {job} is paused: {} in a row ended badly; resume it with `evenkeel job resume {job}`",
            counted(usize::try_from(*n).unwrap_or(usize::MAX), "run")
        )
    }
    Self::Electing(job) => {
        kind: "electing", level: Debug, notified: true, subject: Some(job.to_string()), facts: [],
        text: ("elect a new leader of job {job} now")
    }
    Self::Elected(job) => {
        kind: "elected", level: Info, notified: true, subject: Some(job.to_string()), facts: [],
        text: ("leader election of job {job} completed: this node leads")
    }
    Self::ShardsDraining(job, shards) => {
        kind: "shards_draining", level: Warn, notified: true, subject: Some(job.to_string()), facts: [],
        text: ("job {job}: shards {shards} still run, the others were resharded without them")
    }
    Self::Rejected(job, request, shards) => {
        kind: "rejected", level: Warn, notified: true, subject: Some(job.to_string()), facts: [],
        text: (
            "job {job}: request {request} came while shards {shards} ran or were about to: they do not run for it"
        )
    }
    Self::Closed => {
        kind: "closed", level: Warn, notified: true, subject: None, facts: [],
        text: ("closed: this node's entry was deleted from outside; start it again to join again")
    }
    Self::Connected => {
        kind: "connected", level: Info, notified: true, subject: None, facts: [],
        text: ("connected with the registry")
    }
    Self::Disconnected => {
        kind: "disconnected", level: Warn, notified: true, subject: None, facts: [],
        text: ("the registry does not answer: the lease may be lost")
    }
    Self::NodesChanged(nodes) => {
        kind: "nodes_changed", level: Info, notified: true, subject: None, facts: [],
        text: ("there {} {} now", if *nodes == 1 { "is" } else { "are" }, counted(*nodes, "node"))
    }
    Self::NodeLeft(life, held) => {
        kind: "node.left", level: Info, notified: true, subject: Some(life.node.to_string()), facts: [],
        text: ("{life} left; it held {}", counted(*held, "job"))
    }
    Self::Offline(node) => {
        kind: "node.offline", level: Warn, notified: true, subject: Some(node.to_string()), facts: [],
        text: (
            "node {node} is offline: its peers cannot reach it; see to its network, and it is online again once they can"
        )
    }
    Self::Online(node) => {
        kind: "node.online", level: Info, notified: true, subject: Some(node.to_string()), facts: [],
        text: ("node {node} is online again")
    }
    Self::LeaderChanged(leader, epoch) => {
        kind: "leader_changed", level: Info, notified: true,
        subject: Some(leader.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)), facts: [],
        text: ("{}", match leader {
            Some(node) => format!("node {node} leads now, epoch {epoch}"),
            None => format!("no node leads after epoch {epoch}"),
        })
    }
    Self::LeaderLost(node) => {
        kind: "leader_lost", level: Warn, notified: true, subject: Some(node.to_string()), facts: [],
        text: ("the serving leader {node} is gone")
    }
    Self::Resuming(epoch) => {
        kind: "resuming", level: Info, notified: true, subject: None, facts: [],
        text: ("won the lead, epoch {epoch}: serves once everything is loaded and waited for")
    }
    Self::Serving(epoch) => {
        kind: "serving", level: Info, notified: true, subject: None, facts: [],
        text: ("serves now, epoch {epoch}")
    }
    Self::Suspended => {
        kind: "suspended", level: Warn, notified: true, subject: None, facts: [],
        text: ("serves no more: it is on standby")
    }
    Self::MultiLeader(one, other) => {
        kind: "multi_leader", level: Warn, notified: true, subject: Some(format!("{one}, {other}")), facts: [],
        text: ("nodes {one} and {other} both say that they serve: stop one of them")
    }
    Self::Shut(shut) => {
        kind: "shut", level: Warn, notified: true, subject: None, facts: [],
        text: ("cannot join: {shut}")
    }
    Self::UnknownLayout(unknown) => {
        kind: "unknown_layout", level: Warn, notified: true, subject: None, facts: [],
        text: ("cannot read the tree of this cluster: {unknown}")
    }
    Self::Outdated(begun) => {
        kind: "outdated", level: Warn, notified: true, subject: None, facts: [],
        text: ("generation {begun} has begun at the registry, as after a restore: start this node again")
    }
    Self::NotifyFailed(why) => {
        kind: "notify_failed", level: Warn, notified: false, subject: None, facts: [],
        text: ("{why}")
    }
}

impl Event {
    /// The event that an entry of this key has no valid seal.
    pub(crate) fn unsealed(key: &Key) -> Option<Self> {
        match parse(key)? {
            ParsedKey::Spec(job) => Some(Self::UnsealedJob(job)),
            ParsedKey::Principal(kind, name) => Some(Self::UnsealedPrincipal(kind, name)),
            _ => None,
        }
    }

    /// The job that it is about.
    fn job(&self) -> Option<&JobName> {
        match self {
            Self::Electing(job)
            | Self::Elected(job)
            | Self::ShardsDraining(job, _)
            | Self::PausedAfterFailures(job, _)
            | Self::UnsealedJob(job)
            | Self::Rejected(job, ..) => Some(job),
            _ => None,
        }
    }
}

/// Every kind of event: those of nodes, those of jobs, and last those that notifiers do not send.
pub fn event_kinds() -> impl Iterator<Item = EventKind> {
    let (sent, listed): (Vec<EventKind>, Vec<EventKind>) = KINDS.iter().partition(|kind| kind.notified);
    let of_jobs = Occasion::ALL.map(|occasion| EventKind { name: occasion.kind(), notified: true });
    sent.into_iter().chain(of_jobs).chain(listed)
}

/// The kind of event with this name, with dots or underscores; `None` when there is none.
#[must_use]
pub fn find_event_kind(name: &str) -> Option<EventKind> {
    let plain = |name: &str| name.replace('.', "_");
    event_kinds().find(|kind| plain(kind.name) == plain(name))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report().text)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_event_of_nodes_and_jobs_has_a_word_of_its_own() {
        let kinds: Vec<EventKind> = event_kinds().collect();
        let words: BTreeSet<String> = kinds.iter().map(|kind| kind.name.replace('.', "_")).collect();
        assert_eq!(words.len(), kinds.len(), "{kinds:?}");
        assert!(Occasion::ALL.iter().all(|occasion| words.contains(&occasion.kind().replace('.', "_"))));
        let listed: Vec<&str> = kinds.iter().filter(|kind| !kind.notified).map(|kind| kind.name).collect();
        assert_eq!(listed, ["notify_failed"], "a failed notification is not itself notified");
    }

    #[test]
    fn a_kind_is_found_with_dots_or_underscores() {
        for name in ["lease_lost", "lease.lost"] {
            assert_eq!(find_event_kind(name), Some(EventKind { name: "lease_lost", notified: true }));
        }
        assert_eq!(find_event_kind("node_left").map(|kind| kind.name), Some("node.left"));
        assert_eq!(find_event_kind("alarms"), None);
    }

    #[test]
    fn an_event_reports_its_subject_facts_and_text() {
        let alarm = Event::Alarm { held: 11, alarm: 10 }.report();
        assert_eq!((alarm.kind, alarm.level, alarm.subject), ("alarm", EventLevel::Warn, None));
        assert_eq!(alarm.facts, [("held", 11), ("alarm", 10)]);
        assert_eq!(alarm.text, "alarm: holds 11 jobs, threshold is 10");
        assert_eq!(alarm.job, None);
        let elected = Event::Elected("a/j".parse().unwrap()).report();
        assert_eq!(elected.job.as_ref().map(JobName::namespace), Some("a"));
        let none = Event::LeaderChanged(None, 3).report();
        assert_eq!(
            (none.subject.as_deref(), none.text.as_str()),
            (Some("none"), "no node leads after epoch 3")
        );
        let texts = [1, 2].map(|nodes| Event::NodesChanged(nodes).to_string());
        assert_eq!(texts, ["there is 1 node now", "there are 2 nodes now"]);
    }
}
