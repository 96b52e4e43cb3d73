//! Notices: events of a job's fires that are sent to people.
//!
//! A notice is written in the transaction that makes it true, and marked as sent once its recipients have it. So it is
//! created once, even if the same entry is written again, and a node that died before it sent a notice sends it in its
//! next life.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, JobName, NotifierName, RunId, Shard};
use evenkeel_core::job::{Notify, Occasion};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

use super::draft::BatchDraft;
use super::record::{AttemptState, RunRecord};

/// Which notices of a job are sent, and to whom, when history finds that they are true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoticePolicy {
    /// The node that sends them.
    node: String,
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

    fn notice(
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

/// Creates the notices that follow from the last attempt of a run, when history receives it for the first time.
pub(super) fn of_outcome(draft: &mut BatchDraft, record: &RunRecord, item: Option<&NoticePolicy>) {
    let RunRecord { job, run, attempt, node, .. } = record;
    let (occasion, text) = match record.state {
        AttemptState::Failed | AttemptState::TimedOut => {
            draft.fail(job, record.shard);
            let why = if record.reason.is_empty() { record.state.as_str() } else { &record.reason };
            (Occasion::Failure, format!("job {job} failed on {node}: {why} (run {run}, attempt {attempt})"))
        }
        AttemptState::Succeeded => match draft.heal(job, record.shard) {
            Some(since) => (
                Occasion::Recovery,
                format!(
                    "job {job} succeeds again on {node} after failing since {since} (run {run}, attempt {attempt})"
                ),
            ),
            None => return,
        },
        // An operator ended it and knows; for one that was cut off a verdict follows.
        AttemptState::Killed
        | AttemptState::Fenced
        | AttemptState::Lost
        | AttemptState::Skipped
        | AttemptState::Running
        | AttemptState::Waiting => {
            return;
        }
    };
    add_notice(draft, item, occasion, run, (*attempt, record.due), text);
}

/// Creates the notices of a verdict on these shards of a fire; `new` are those that history has for the first time.
pub(super) fn of_verdict(
    draft: &mut BatchDraft,
    verdict: &Verdict,
    (shards, new): (&[Shard], &[Shard]),
    item: Option<&NoticePolicy>,
) {
    let Verdict { run, attempt, due, reason, from, node, .. } = verdict;
    let job = &run.job;
    let cut_off = |draft: &BatchDraft, shard: Shard, attempt: u32| {
        let stands = draft.attempt_state(&RunId { shard, ..run.clone() }, attempt);
        matches!(stands, Some(AttemptState::Lost | AttemptState::Fenced))
    };
    let (failed, occasion, text): (Vec<Shard>, _, _) = match verdict.state {
        VerdictState::Lost => {
            // A final result says more than a verdict; that the attempt was cut off says the same.
            let failed = shards.iter().copied().filter(|shard| cut_off(draft, *shard, *attempt));
            let text = format!("job {job}: nobody can say how run {run} ended on {node}: {reason}");
            (failed.collect(), Occasion::Lost, text)
        }
        VerdictState::Skipped if *attempt > 1 => {
            // The attempt that will not be made was the last retry of a failed one, or followed a lost one.
            let failed = new.iter().copied().filter(|shard| !cut_off(draft, *shard, attempt - 1));
            let text =
                format!("job {job} failed, and its attempt {attempt} will not be made: {reason} (run {run})");
            (failed.collect(), Occasion::Failure, text)
        }
        VerdictState::Skipped => {
            let fires = if from == due {
                format!("its fire of {due}")
            } else {
                format!("its fires of {from} to {due}")
            };
            if !new.is_empty() {
                let text = format!("job {job} does not run for {fires}: {reason}");
                add_notice(draft, item, Occasion::Miss, run, (*attempt, *due), text);
            }
            return;
        }
    };
    for shard in &failed {
        draft.fail(job, *shard);
    }
    if !failed.is_empty() {
        add_notice(draft, item, occasion, run, (*attempt, *due), text);
    }
}

fn add_notice(
    draft: &mut BatchDraft,
    item: Option<&NoticePolicy>,
    occasion: Occasion,
    run: &RunId,
    (attempt, due): (u32, Wall),
    text: String,
) {
    let Some(item) = item else { return };
    if let Some(notice) = item.notice(occasion, run.clone(), (attempt, due), draft.now, text) {
        draft.add_notice(notice, &item.node);
    }
}
