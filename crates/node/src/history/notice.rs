//! Notices: events of a job's fires that are sent to people.
//!
//! A notice is written in the transaction that makes it true, and marked as sent once its recipients have it. So it is
//! created once, even if the same entry is written again, and a node that died before it sent a notice sends it in its
//! next life.

use evenkeel_core::ids::{Fire, JobName, NotifierName, RunId, Shard};
use evenkeel_core::job::{Notify, Occasion};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// Which notices of a job are sent, and to whom, when history finds that they are true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoticePolicy {
    /// The node that sends them.
    pub(super) node: String,
    occasions: Vec<Occasion>,
    to: Vec<NotifierName>,
    must: bool,
}

/// An event of a job's fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// Its number in this history.
    #[serde(skip)]
    pub(crate) seq: i64,
    /// Its id, so that it is created once, and recipients can recognize a repetition.
    pub(crate) id: String,
    pub(crate) occasion: Occasion,
    pub(crate) job: JobName,
    pub(crate) run: RunId,
    pub(crate) due: Wall,
    pub(crate) attempt: u32,
    /// When it became true.
    pub(crate) at: Wall,
    /// In words.
    pub(crate) text: String,
    /// The notifiers that the job names.
    pub(crate) to: Vec<NotifierName>,
    /// Whether the job itself asked for it, so that a missing recipient is an error.
    pub(crate) must: bool,
}

impl NoticePolicy {
    /// The policy of a job with this `notify` at a node whose settings ask for these occasions; `None` where no notice
    /// is sent.
    pub(crate) fn of(notify: Option<&Notify>, asked: &[Occasion], node: &str) -> Option<Box<Self>> {
        let wanted = |occasion: Occasion| match notify {
            None => asked.contains(&occasion),
            Some(notify) => {
                let own = notify.on.is_some() || !notify.to.is_empty() || notify.limit(occasion).is_some();
                notify.names(occasion) && (own || asked.contains(&occasion))
            }
        };
        let occasions: Vec<Occasion> =
            Occasion::ALL.into_iter().filter(|occasion| wanted(*occasion)).collect();
        let to = notify.map_or_else(Vec::new, |notify| notify.to.clone());
        let must = notify.is_some_and(|notify| notify.on.is_some());
        (!occasions.is_empty()).then(|| Box::new(Self { node: node.to_owned(), occasions, to, must }))
    }

    /// The notice that a fire is late or absent; `None` if it is not wanted.
    pub(crate) fn overdue(
        &self,
        job: &JobName,
        occasion: Occasion,
        due: Wall,
        at: Wall,
        text: String,
    ) -> Option<Notice> {
        let run = RunId { job: job.clone(), fire: Fire::Due(due), shard: Shard(0) };
        self.notice(occasion, run, (0, due), at, text)
    }

    /// The notice of an event of this run; `None` if it is not wanted.
    pub(super) fn notice(
        &self,
        occasion: Occasion,
        run: RunId,
        (attempt, due): (u32, Wall),
        at: Wall,
        text: String,
    ) -> Option<Notice> {
        if !self.occasions.contains(&occasion) {
            return None;
        }
        let id = match attempt {
            0 => format!("{} {run}", occasion.kind()),
            n => format!("{} {run} {n}", occasion.kind()),
        };
        let (job, to, must) = (run.job.clone(), self.to.clone(), self.must);
        Some(Notice { seq: 0, id, occasion, job, run, due, attempt, at, text, to, must })
    }
}
