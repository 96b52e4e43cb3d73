//! Tracks the generations of a rewound registry: which tracks are rewound with it, and which physical facts stay.

use evenkeel_core::due::FORGOTTEN;
use evenkeel_core::effect::{Run, Verdict};
use evenkeel_core::ids::{Fire, Member, NodeName, RequestId, RunId, Shard};
use evenkeel_core::job::Delivery;
use evenkeel_core::keys;
use evenkeel_core::labels::NodeSelector;
use evenkeel_core::store::Store;
use evenkeel_core::time::{Now, Wall};

use super::generation_track::GenerationTrack;
use super::tracks::FireTrack;
use super::{Invariant, InvariantChecker, InvariantResults, JobTrack};
use crate::world::clock::START;

impl InvariantChecker {
    /// The registry is what it was `then`, and so are the tracks of its data. Physical facts stay, and so do the inputs
    /// that online nodes have received.
    pub(crate) fn go_back(&mut self, at: i64, then: Self, store: &Store) {
        let now = std::mem::replace(self, then);
        let lives = |member: &&Member| store.entry(&keys::node(member)).is_some();
        self.gone = now.knows.keys().filter(|member| !lives(member)).cloned().collect();
        (self.findings, self.starts) = (now.findings, now.starts);
        (self.beliefs, self.tickets, self.knows) = (now.beliefs, now.tickets, now.knows);
        self.lock_tokens = now.lock_tokens;
        (self.peers.reached, self.peers.turned) = (now.peers.reached, now.peers.turned);
        self.past = GenerationTrack { founded: false, ..now.past };
        for (name, book) in now.jobs {
            let run = |(fire, shard): (&Fire, Shard)| RunId { job: name.clone(), fire: fire.clone(), shard };
            self.past.began.extend(book.began().map(run));
            self.jobs.entry(name.clone()).or_default().go_back(at, book);
        }
    }

    /// Records the end of the loss window and a join; tokens are of this generation from now on.
    pub(crate) fn generation_found(&mut self, lost: Wall, generation: u16) {
        (self.past.founded, self.past.generation) = (true, generation);
        self.jobs.values_mut().for_each(|book| book.lost = Some(lost));
    }

    /// Records that a node joins a registry that others have joined since its rewind, if there was one. A node that
    /// takes it for newly rewound would skip runs with at-most-once delivery for nothing.
    pub(crate) fn joins(&mut self, at: i64, name: &NodeName, is_behind: bool) {
        self.findings.test(at, Invariant::I19, !is_behind, || {
            format!("{name} takes the registry for gone back, and it is not")
        });
    }

    /// Records that a run starts on a node that has not noticed the rewind: its claim is lost.
    pub(crate) fn started_before(
        &mut self,
        at: i64,
        name: &NodeName,
        member: Option<&Member>,
        now: Now,
        run: &Run,
    ) {
        self.starts += 1;
        let trust = member.and_then(|m| self.trust(name, m.incarnation));
        self.findings.test(at, Invariant::I3, trust.is_some_and(|until| now.mono < until), || {
            format!("{} started on {name} without trust", run.id)
        });
        self.begins_after_all(at, name, run);
        self.past.began.insert(run.id.clone());
        let Self { findings, jobs, .. } = self;
        jobs.entry(run.id.job.clone()).or_default().starts_before(at, name, run, findings);
    }

    /// Checks that no run of an earlier generation starts once a run of another one has started.
    fn begins_after_all(&mut self, at: i64, name: &NodeName, run: &Run) {
        let founded = self.past.founded;
        self.findings.test(at, Invariant::I4, !founded, || {
            format!("{} started on {name}, which does not know of the registry's generation", run.id)
        });
    }

    /// Checks that an at-most-once run does not run again because the registry forgot it.
    pub(super) fn check_past(&mut self, at: i64, run: &Run) {
        let Self { findings, jobs, past, .. } = self;
        let Some(book) = jobs.get(&run.id.job).filter(|_| past.generation > 1) else { return };
        // A repeated request under a forgotten id is a new request.
        let asked_anew = matches!(&run.id.fire, Fire::Asked(id) if !book.may_forget(id));
        if book.delivery == Delivery::AtMostOnce && !asked_anew {
            findings.test(at, Invariant::I19, !past.began.contains(&run.id), || {
                format!("{} ran before the registry went back in time, and is at_most_once", run.id)
            });
        }
    }
}

impl FireTrack {
    /// Keeps the later facts about its attempts.
    fn go_back(&mut self, now: &Self) {
        for (number, attempt) in &mut self.attempts {
            let same = now.attempts.get(number).filter(|known| known.by == attempt.by);
            if let Some(known) = same {
                *attempt = known.clone();
            }
        }
    }
}

impl JobTrack {
    /// The runs that physically started.
    fn began(&self) -> impl Iterator<Item = (&Fire, Shard)> {
        let began = |fire: &FireTrack| fire.attempts.values().any(|attempt| attempt.started.is_some());
        let whole = self.fires.iter().filter(move |(_, book)| began(book)).map(|(fire, _)| (fire, Shard(0)));
        let shards = self.sharding.fires.iter().filter(move |(_, book)| began(book));
        whole.chain(shards.map(|((fire, shard), _)| (fire, *shard)))
    }

    /// Rewinds the track, except for the physical events up to `now`.
    fn go_back(&mut self, at: i64, now: Self) {
        self.changed = at;
        let nodes =
            now.spec.as_ref().map_or_else(NodeSelector::default, |spec| spec.job.node_selector.clone());
        self.nodes.push((at, nodes));
        (self.running, self.tokens, self.started) = (now.running, now.tokens, now.started);
        (self.sharding.running, self.sharding.tokens) = (now.sharding.running, now.sharding.tokens);
        for (fire, book) in &mut self.fires {
            now.fires.get(fire).into_iter().for_each(|now| book.go_back(now));
        }
        for (key, book) in &mut self.sharding.fires {
            now.sharding.fires.get(key).into_iter().for_each(|now| book.go_back(now));
        }
    }

    fn starts_before(&mut self, at: i64, name: &NodeName, run: &Run, findings: &mut InvariantResults) {
        let here = (run.attempt, name.clone());
        if self.is_sharded() {
            let here = (run.id.fire.clone(), here.0, here.1);
            self.sharding.running.insert(run.id.shard, here);
            let token = self.sharding.tokens.entry(run.id.shard).or_insert_with(|| (run.token, name.clone()));
            token.0 = token.0.max(run.token);
        } else {
            self.running.insert(run.id.fire.clone(), here);
        }
        let fire = match self.is_sharded() {
            true => self.sharding.fires.get_mut(&(run.id.fire.clone(), run.id.shard)),
            false => self.fires.get_mut(&run.id.fire),
        };
        let Some(attempt) = fire.and_then(|fire| fire.attempts.get_mut(&run.attempt)) else { return };
        let again = attempt.started.replace(at);
        findings.test(at, Invariant::I14, again.is_none(), || format!("{} started twice", run.id));
    }

    /// Whether a request is so old that it may be given up as forgotten.
    pub(super) fn may_forget(&self, request: &RequestId) -> bool {
        let asked = self.requested.get(request).map(|at| Wall(START.0 + at));
        self.delivery == Delivery::AtMostOnce && asked.is_some_and(|asked| self.lost >= Some(asked))
    }

    /// Whether a verdict gives up a run that the registry may have forgotten. That must be true.
    pub(super) fn forgets(
        &self,
        at: i64,
        verdict: &Verdict,
        due: Wall,
        findings: &mut InvariantResults,
    ) -> bool {
        // Others with the same verdict are only too old.
        let may = self.lost >= Some(due);
        let forgets = verdict.reason.contains(FORGOTTEN);
        findings.test(at, Invariant::I23, !forgets || self.delivery == Delivery::AtMostOnce, || {
            format!("{} is at_least_once and was given up as forgotten", verdict.run)
        });
        forgets && may
    }
}
