//! Drain: what a node should not hold it gives back, each job after its run (S1-39, S1-60).
//!
//! That is every job of a node that somebody drains or that leaves, a disabled or deleted job of any node, and a job that
//! may not run on its node any more.

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::Verdict;
use crate::keys;
use crate::local::Subject;
use crate::record::{Lane, Open, Place, encode};
use crate::registry::{Txn, Write};
use crate::scene::{Decisions, Scene};
use crate::takeover;
use crate::view::{JobId, JobView};
use crate::words::Fire;

/// Releases the job, with a fire that was claimed ahead and not started; a run that goes on is waited for.
pub fn decide(scene: &Scene<'_>, id: JobId, out: &mut Decisions) {
    let job = scene.job(id);
    let unwanted = !job.is_enabled() || scene.gives_up() || !job.fits(scene.member);
    if !unwanted
        || !job.is_whole()
        || scene.me.is_none()
        || !scene.holds(&job)
        || !scene.is_idle(&Subject::Job(id))
    {
        return;
    }
    // A node that leaves need not release job by job: others take everything over once its member entry is gone.
    if scene.local.leaving && job.is_enabled() {
        if let Some(txn) = withdraw_last(scene, &job) {
            out.commit(Subject::Job(id), CommitKind::Withdraw, txn);
        }
    } else if let Some(txn) = release(scene, &job) {
        out.commit(Subject::Job(id), CommitKind::Release, txn);
    }
}

/// The transaction that takes a claimed, unstarted fire back, with its watermark; `None` when there is none.
fn withdraw_last(scene: &Scene<'_>, job: &JobView<'_>) -> Option<Txn> {
    withdraw(scene, job, job.held()?.record()?.open.last()?)
}

/// The transaction that takes this fire back, with its watermark; `None` when it may have started.
pub(super) fn withdraw(scene: &Scene<'_>, job: &JobView<'_>, open: &Open) -> Option<Txn> {
    let (known, back) = (job.held()?.lane.as_ref()?, withdrawn(scene, job, open)?);
    let key = keys::lane(job.name());
    Some(Txn {
        guards: scene.born().into_iter().chain([known.guard(key.clone())]).collect(),
        writes: [Write::Put { key, value: encode(&back), owner: None }].into(),
    })
}

/// The lane without a fire that was claimed ahead, and after which none was; `None` when it is not to be taken back.
fn withdrawn(scene: &Scene<'_>, job: &JobView<'_>, open: &Open) -> Option<Lane> {
    let lane = job.held()?.record()?;
    let started = scene.local.given_to(job.id, &takeover::run_id(job, open)).is_some();
    let last = open.fire == Fire::Due(lane.watermark);
    if started || !last || open.by != *scene.member || open.attempt > 1 {
        return None;
    }
    let mut lane = Lane { watermark: open.back, seq: lane.seq + 1, ..lane.clone() };
    lane.close(&open.fire);
    Some(lane)
}

/// The transaction that gives a job back, unstarted fire and all; `None` while a run goes on.
///
/// Verdicts that history lacks stay in the lane and are handed to it by the next holder; so a job that will have none is
/// kept until history has them. That is also one that no living node may run.
pub(super) fn release(scene: &Scene<'_>, job: &JobView<'_>) -> Option<Txn> {
    if !job.is_whole() || scene.local.given_of(job.id).next().is_some() {
        return None;
    }
    let known = job.held()?.lane.as_ref()?;
    let told = |v: &Verdict| scene.local.recording.get(&(v.run.clone(), v.attempt)) == Some(&true);
    let verdicts = || known.value.iter().flat_map(|lane| &lane.verdicts);
    if match job.is_enabled() {
        true => scene.view.fits_nobody(job.group()) && !verdicts().all(told),
        false => verdicts().next().is_some(),
    } {
        return None;
    }
    let last = known.value.as_ref().and_then(|lane| lane.open.last());
    let back = last.and_then(|open| withdrawn(scene, job, open));
    let mut left = back.as_ref().or(known.value.as_ref()).into_iter().flat_map(|lane| &lane.open).peekable();
    // Whoever claims the place goes on waiting; a job that nobody is to hold gives the attempt up first.
    let waits = left.peek().is_some();
    if waits && !job.is_enabled() || left.any(|open| open.wait.is_none()) {
        return None;
    }
    let lane_key = keys::lane(job.name());
    let mut writes = Vec::new();
    writes.extend(back.map(|back| Write::Put { key: lane_key.clone(), value: encode(&back), owner: None }));
    let place = Place { owner: None, waits, ..job.place().next() };
    writes.push(Write::Put { key: keys::place(job.name()), value: encode(&place), owner: None });
    let guards = scene.born().into_iter().chain([job.place_guard(), known.guard(lane_key)]);
    Some(Txn { guards: guards.collect(), writes })
}
