//! Claims: nodes take free jobs up to their quota `N = 1 + K / max(S − n, 1)`, so that any n may be lost (S1-18).
//!
//! A job is free when it has no owner, or when its owner is no member any more. With `spread = even` a node takes its
//! fair share at once, lets others go first for a second above it, and releases jobs, one at a time, while others have
//! fewer. `first_come` is seed 001 to the letter.
//!
//! Jobs with the same node selector are a group, and all of this holds group by group, with its own K and S: so jobs
//! that only few nodes may run neither wait behind the others, nor take their quota.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::Event;
use crate::ids::Member;
use crate::input::UnclaimedJobs;
use crate::keys;
use crate::local::{CommitScope, Local};
use crate::placement::takeover;
use crate::record::{Assignment, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::settings::{Quota, Settings, Spread};
use crate::time::{Millis, Mono};
use crate::view::{GroupId, JobId, JobView, View};

/// How many claims are in flight at most; more are sent when half of them are answered, so that the jobs in flight are
/// passed over seldom.
const BATCH: usize = 2_000;
/// How long a node above its fair share lets others go first.
const PATIENCE: Millis = Millis::secs(1);

/// The quota: the most jobs a node may own, given K jobs, S nodes and tolerance n (S1-18, S1-94).
#[must_use]
pub fn quota(jobs: usize, nodes: usize, tolerance: u32) -> usize {
    let spare = nodes.saturating_sub(tolerance.max(1) as usize);
    1 + jobs / spare.max(1)
}

/// The quota of a node for the jobs of a group: by the view, or the larger of that and the last listing's (S1-21).
#[must_use]
pub fn quota_in(view: &View, settings: &Settings, group: GroupId) -> usize {
    let heard = quota(view.jobs_of(group), view.nodes_of(group), settings.tolerance);
    let (jobs, nodes) = view.listed_of(group);
    match settings.quota {
        Quota::Now => heard,
        Quota::Larger => heard.max(quota(jobs, nodes, settings.tolerance)),
    }
}

/// The quota of a member over all groups that have jobs, for display.
#[must_use]
pub fn quota_of(view: &View, member: &Member, tolerance: u32) -> usize {
    let counts = |group: &GroupId| *group == GroupId::EVERYWHERE || view.jobs_of(*group) > 0;
    let groups = view.groups().filter(counts).filter(|group| view.fits(*group, member));
    groups.map(|group| quota(view.jobs_of(group), view.nodes_of(group), tolerance)).sum()
}

/// How many free jobs a node claims that looks at all of them now, and why it leaves the others, by the first reason.
#[must_use]
pub fn prospect(view: &View, local: &Local, me: Option<&Member>) -> (usize, Vec<UnclaimedJobs>) {
    let node = &local.settings.name;
    let none = match me {
        None => Some(format!("node {node} is no member of the cluster now")),
        Some(_) if view.intent(node).is_some() => {
            Some(format!("node {node} drains, which `evenkeel node undrain {node}` ends"))
        }
        Some(_) if view.is_cordoned(node) => {
            Some(format!("node {node} is cordoned, which `evenkeel node uncordon {node}` ends"))
        }
        Some(_) if local.availability.is_leaving() => Some(format!("node {node} is about to end")),
        Some(_) if !local.availability.is_able() => {
            Some(format!("node {node} can start nothing now, and its `/health` says why"))
        }
        Some(_) => None,
    };
    let (mut claims, mut left) = (0, Vec::new());
    for group in view.groups().filter(|group| view.free_count_of(*group) > 0) {
        let free = view.free_count_of(group);
        let fits = me.filter(|me| view.fits(group, me));
        let room = fits
            .filter(|_| none.is_none())
            .map_or(0, |me| quota_in(view, &local.settings, group).saturating_sub(view.held_of(group, me)));
        claims += room.min(free);
        let jobs = free - room.min(free);
        if jobs > 0 {
            let why = unmet(view, group, me).or_else(|| none.clone());
            let quota = || {
                let most = quota_in(view, &local.settings, group);
                format!("node {node} holds as many such jobs as its quota allows, {most}")
            };
            left.push(UnclaimedJobs { jobs, why: why.unwrap_or_else(quota) });
        }
    }
    (claims, left)
}

/// The node selector of a group, where this member is not eligible.
fn unmet(view: &View, group: GroupId, me: Option<&Member>) -> Option<String> {
    let (named, me) = (view.nodes_named(group), me?);
    let condition = named.unmet(&me.node, &view.member(me)?.info.labels)?;
    Some(format!("they are for nodes with {named}, and node {} does not meet {condition}", me.node))
}

/// Claims free jobs, up to the quotas; reports jobs that are unschedulable.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    // One report is enough: the first node by name makes it.
    if ctx.me.is_some() && ctx.view.members().next().is_some_and(|(first, _)| first == ctx.member) {
        let nowhere = ctx.view.groups().filter(|group| ctx.view.is_unschedulable(*group));
        let said = nowhere.map(|group| Event::Unschedulable(ctx.view.nodes_named(group).clone()));
        out.actions.extend(said.map(RuleAction::Announce));
    }
    decide_within(ctx, |group| quota_in(ctx.view, &ctx.local.settings, group), out);
}

/// Claims free jobs, up to the quotas that `quota` gives; the rule itself passes its own.
pub fn decide_within(ctx: &RuleContext<'_>, quota: impl Fn(GroupId) -> usize, out: &mut RuleOutput) {
    if ctx.me.is_none() || ctx.gives_up() || ctx.is_cordoned() || !ctx.local.availability.is_able() {
        return;
    }
    let view = ctx.view;
    let claiming =
        ctx.local.commits.of_kind(CommitKind::ClaimJob) + ctx.local.commits.of_kind(CommitKind::TakeOver);
    if claiming + ctx.local.reads.reading() > BATCH / 2 {
        return;
    }
    let mut rooms = ClaimBudget {
        ctx,
        quota: &quota,
        claiming,
        left: BATCH - claiming,
        of: BTreeMap::new(),
        gave: false,
    };
    let free = |group: &GroupId| view.free_count_of(*group) > 0 && view.fits(*group, ctx.member);
    for group in view.groups().filter(free) {
        claim_free(ctx, group, &mut rooms, out);
    }
    for (dead, since) in view.dead() {
        rooms.gave = true;
        inherit(ctx, dead, since, &mut rooms, out);
    }
    if !rooms.gave {
        ease(ctx, claiming, out);
    }
}

fn claim_free(ctx: &RuleContext<'_>, group: GroupId, rooms: &mut ClaimBudget<'_, '_>, out: &mut RuleOutput) {
    rooms.gave = true;
    for id in ctx.view.free_of(group) {
        let job = ctx.job(id);
        if !rooms.admits(group, job.free_since(), out) {
            return;
        }
        if ctx.is_idle(&CommitScope::Job(id)) && job.is_consistent() {
            rooms.take(group);
            out.commit(CommitScope::Job(id), CommitKind::ClaimJob, claim(ctx, &job));
        }
    }
}

/// How many more jobs may be claimed in this step.
struct ClaimBudget<'a, 's> {
    ctx: &'a RuleContext<'s>,
    quota: &'a dyn Fn(GroupId) -> usize,
    /// How many claims are in flight. Their groups are not counted, so each group counts all of them as its own until
    /// they are answered.
    claiming: usize,
    left: usize,
    /// The budgets of the groups that were looked at.
    of: BTreeMap<GroupId, GroupBudget>,
    /// Whether there was any job to claim.
    gave: bool,
}

/// The budget of one group.
struct GroupBudget {
    held: usize,
    quota: usize,
    /// The fair share of this node: the number of jobs where all nodes have equally many.
    fair: usize,
}

impl ClaimBudget<'_, '_> {
    fn group_budget(&mut self, group: GroupId) -> &mut GroupBudget {
        let Self { ctx, quota, claiming, .. } = *self;
        self.of.entry(group).or_insert_with(|| {
            let quota = if ctx.view.fits(group, ctx.member) { quota(group) } else { 0 };
            // The quota counts every node (seed 001), a fair share only those that may take one.
            let working = working(ctx, group).count();
            let fair = ctx.view.jobs_of(group).div_ceil(working.max(1));
            let first_come = spread(ctx) == Spread::FirstCome || ctx.local.commands.claims_at_once();
            let held = ctx.view.held_of(group, ctx.member) + claiming;
            GroupBudget { held, quota, fair: if first_come { quota } else { fair } }
        })
    }

    /// Whether one more job of a group, free since then, may be claimed; asks to be woken when only patience forbids.
    fn admits(&mut self, group: GroupId, since: Mono, out: &mut RuleOutput) -> bool {
        let (left, now) = (self.left, self.ctx.now.mono);
        let room = self.group_budget(group);
        if room.held >= room.quota || left == 0 {
            return false;
        }
        let ripe = since + PATIENCE;
        if room.held >= room.fair && now < ripe {
            out.add(RuleAction::Wake(ripe, "others go first"));
            return false;
        }
        true
    }

    fn take(&mut self, group: GroupId) {
        self.group_budget(group).held += 1;
        self.left -= 1;
    }
}

/// The members that take jobs of a group.
fn working<'a>(ctx: &RuleContext<'a>, group: GroupId) -> impl Iterator<Item = &'a Member> {
    let view = ctx.view;
    view.fitting(group).filter(|member| view.is_schedulable(&member.node))
}

fn claim(ctx: &RuleContext<'_>, job: &JobView<'_>) -> Txn {
    let place = Assignment { owner: Some(ctx.member.clone()), waits: false, ..job.assignment().next() };
    Txn {
        guards: ctx.born().into_iter().chain([job.assignment_guard()]).collect(),
        writes: [Write::Put { key: keys::assignment(job.name()), value: encode(&place), owner: None }].into(),
    }
}

/// Takes jobs over from a dead owner. Their run states are read first, for open runs are settled in the same commit.
fn inherit(
    ctx: &RuleContext<'_>,
    dead: &Member,
    since: Mono,
    rooms: &mut ClaimBudget<'_, '_>,
    out: &mut RuleOutput,
) {
    let jobs = || ctx.view.owned(dead);
    // Survivors begin at different places, so that they seldom want the same job at the same time.
    let start = ctx.member.node.as_str().bytes().fold(0_usize, |sum, b| sum * 31 % 65_521 + usize::from(b));
    let start = start % ctx.view.count(dead).max(1);
    for id in jobs().skip(start).chain(jobs().take(start)) {
        let job = ctx.job(id);
        if rooms.left == 0 {
            return;
        }
        // A job that may not be owned, or has no eligible node, has only its open run to settle, which takes no quota.
        let stays = job.is_enabled() && !ctx.view.is_unschedulable(job.group());
        if stays && !rooms.admits(job.group(), since, out) {
            continue;
        }
        if !ctx.is_idle(&CommitScope::Job(id)) || !job.is_consistent() || ctx.local.reads.is_reading(id) {
            continue;
        }
        rooms.left -= 1;
        match job.held().and_then(|h| h.run_state.as_ref()) {
            None => out.add(RuleAction::Read(id, [keys::run_state(job.name())].into())),
            Some(run_state) => {
                rooms.group_budget(job.group()).held += usize::from(stays);
                let gone = Guard::Absent(keys::node(dead));
                out.commit(
                    CommitScope::Job(id),
                    CommitKind::TakeOver,
                    takeover::txn(ctx, &job, run_state, gone),
                );
            }
        }
    }
}

/// How free jobs are spread: `first_come` where the cluster or this node sets it.
fn spread(ctx: &RuleContext<'_>) -> Spread {
    match ctx.view.settings().spread {
        Spread::Even => ctx.local.settings.spread,
        Spread::FirstCome => Spread::FirstCome,
    }
}

/// Releases one job of a group of which this node owns more than its fair share while another owns at least two fewer.
fn ease(ctx: &RuleContext<'_>, claiming: usize, out: &mut RuleOutput) {
    let view = ctx.view;
    // Jobs being claimed count; their groups are not known.
    if spread(ctx) != Spread::Even || ctx.local.commits.of_kind(CommitKind::HandOver) + claiming > 0 {
        return;
    }
    for group in view.groups() {
        let held = view.held_of(group, ctx.member);
        if held == 0 || held <= view.jobs_of(group).div_ceil(working(ctx, group).count().max(1)) {
            continue;
        }
        if !working(ctx, group).any(|member| view.held_of(group, member) + 2 <= held) {
            continue;
        }
        let restful = |id: &JobId| {
            let job = ctx.job(*id);
            job.group() == group
                && ctx.is_idle(&CommitScope::Job(*id))
                && crate::cluster::drain::release(ctx, &job).is_some()
        };
        if let Some(id) = view.owned(ctx.member).rev().take(BATCH).find(restful)
            && let Some(txn) = crate::cluster::drain::release(ctx, &ctx.job(id))
        {
            return out.commit(CommitScope::Job(id), CommitKind::HandOver, txn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quota;

    /// proves: S1-17, S1-18, S1-55, S1-56, S1-57, S1-94, I35
    #[test]
    fn the_quota_table_of_seed_001() {
        let row = |k| [1, 1, 2, 3, 4].map(|n| quota(k, 5, n));
        assert_eq!(row(10), [3, 3, 4, 6, 11]);
        assert_eq!(row(12), [4, 4, 5, 7, 13]);
        assert_eq!(row(15), [4, 4, 6, 8, 16]);
        assert_eq!((quota(12, 5, 0), quota(12, 5, 1)), (4, 4), "no tolerance is below one");
    }

    /// proves: S1-22, S1-24, S1-52, S1-54, I35
    #[test]
    fn survivors_of_any_n_losses_have_room_for_all_jobs() {
        for nodes in 1..=12 {
            for n in 1..=12_u32 {
                for jobs in 0..=200 {
                    let lost = (n as usize).min(nodes - 1);
                    let room = (nodes - lost) * quota(jobs, nodes, n);
                    assert!(room >= jobs, "{jobs} jobs, {nodes} nodes, n = {n}");
                }
            }
        }
    }

    /// proves: S1-23, S1-24
    #[test]
    fn the_level_is_exact_and_the_simple_formula_is_too_small() {
        let simple = 19 / 3 + 1;
        assert!(2 * simple < 19, "one loss of three leaves jobs without a holder");
        assert!(quota(3, 3, 1) < 3, "two losses are more than n = 1 makes up for");
    }

    /// proves: S1-91
    #[test]
    fn a_larger_tolerance_never_lowers_the_quota() {
        for jobs in 0..=100 {
            for nodes in 0..=12 {
                assert!((1..12).all(|n| quota(jobs, nodes, n) <= quota(jobs, nodes, n + 1)));
            }
        }
    }
}
