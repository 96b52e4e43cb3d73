//! Eligibility: which members may take part in cluster-wide work, and which may plan.

use alloc::vec::Vec;

use crate::ids::Member;
use crate::keys;
use crate::lease;
use crate::lifecycle;
use crate::load::Score;
use crate::local::CommitScope;
use crate::record::{ClusterSettings, Handover, Planner, PlannerKind};
use crate::registry::{Guard, Revision};
use crate::rule_context::RuleContext;
use crate::time::{Millis, Mono, Wall};
use crate::view::DISPATCH;

/// How much of the next beat is planned with this one: its planner starts only after the longest wait, and has to read
/// and to commit.
const MARGIN: Millis = Millis::secs(5);
/// How long from noticing that a lead is lost until nothing more is done under it (T2, S4-36): a step and its effects.
pub const STOP: Millis = Millis(500);
/// How long a message that was sent may still take effect.
pub const NET: Millis = Millis(500);

/// The right to plan.
#[derive(Clone, Debug)]
pub struct PlanningRight {
    /// The guards that hold as long as no other node has the right.
    pub guard: Guard,
    /// The beat or the lead that gives the right.
    pub planner: Planner,
    /// Fires up to here are planned.
    pub horizon: Wall,
    /// Whether the horizon moves on with the time of day.
    pub slides: bool,
    /// Plans must have been read at this revision or later: before it other planners may have written them.
    pub since: Revision,
}

/// The leader, as far as a node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This member leads, or none does.
    Known(Option<Member>),
    /// The node does not trust its lease, so another leader may have been elected without its notice.
    Unknown {
        /// The leader that it knew last, which may be itself.
        last: Option<Member>,
        /// Since when it does not trust its lease, by its own clock; `None` before it asked for one.
        since: Option<Mono>,
    },
}

/// The node's right to plan, if it has it: the beat is its own, or it serves as the leader.
#[must_use]
pub fn planning_right(ctx: &RuleContext<'_>) -> Option<PlanningRight> {
    ctx.me?;
    let settings = ctx.view.settings();
    let (key, since, number, until) = match settings.planner {
        PlannerKind::Beat => {
            let (operation, known) = ctx.view.beat_known(DISPATCH)?;
            let record = known.value.as_ref().filter(|record| record.holder == *ctx.member)?;
            (keys::beat(operation), known.revision, record.beat, settings.start_of(record.beat + 1))
        }
        PlannerKind::Leader => {
            let epoch = serves(ctx)?;
            let until = ctx.now.wall + settings.beat_length();
            (keys::serving(), ctx.view.serving().revision, epoch, until)
        }
    };
    Some(PlanningRight {
        guard: Guard::At(key, since),
        planner: Planner { member: ctx.member.clone(), number },
        horizon: until + MARGIN,
        slides: settings.planner == PlannerKind::Leader,
        since,
    })
}

/// The epoch under which this node serves; none while it releases the lead, which another node may have already.
#[must_use]
pub fn serves(ctx: &RuleContext<'_>) -> Option<u64> {
    let record = ctx.view.serving().value.as_ref()?;
    let serves = record.serves && record.leader.as_ref() == Some(ctx.member) && !ctx.gives_up();
    let serves = serves && ctx.is_idle(&CommitScope::Serving);
    serves.then_some(record.epoch)
}

/// Whether this node must leave commands to the serving leader (S4-33).
#[must_use]
pub fn on_standby(ctx: &RuleContext<'_>) -> bool {
    ctx.view.settings().planner == PlannerKind::Leader && serves(ctx).is_none()
}

/// The members that work, in the order of their names: those that are able and not draining. Of two lives of one node
/// the later. Cordoned members work on what they have.
#[must_use]
pub fn workers<'a>(ctx: &RuleContext<'a>) -> Vec<&'a Member> {
    let members = ctx.view.members().map(|(member, _)| member);
    let mut list: Vec<&Member> = members.filter(|member| !ctx.view.is_replaced(member)).collect();
    list.retain(|member| match *member == ctx.member {
        true => !ctx.gives_up() && ctx.local.availability.is_able(),
        false => ctx.view.intent(&member.node).is_none(),
    });
    list
}

/// The members that may be given runs: the working ones that are not marked offline and not cordoned.
#[must_use]
pub fn candidates<'a>(ctx: &RuleContext<'a>) -> Vec<&'a Member> {
    let mut list = workers(ctx);
    list.retain(|member| !ctx.view.is_cordoned(&member.node));
    online(ctx, list)
}

/// The members that may lead: the working ones that are not marked offline, cordoned or not, as leading and planning
/// give a node no run.
#[must_use]
pub fn may_be_leaders<'a>(ctx: &RuleContext<'a>) -> Vec<&'a Member> {
    online(ctx, workers(ctx))
}

fn online<'a>(ctx: &RuleContext<'a>, mut list: Vec<&'a Member>) -> Vec<&'a Member> {
    // Where all nodes are offline the strikes mean nothing any more: an offline node is better than none.
    if list.iter().any(|member| !ctx.view.is_offline(member)) {
        list.retain(|member| !ctx.view.is_offline(member));
    }
    list
}

/// Whether this node has an address for other nodes. One that is embedded without an HTTP interface has none: it cannot
/// find that another node is out of reach.
#[must_use]
pub fn has_address(ctx: &RuleContext<'_>) -> bool {
    !ctx.local.settings.address.is_empty()
}

/// Whether this node may take a beat or the lead: able, not draining, reachable, and its clock agrees (I11, law 6).
#[must_use]
pub fn may_lead(ctx: &RuleContext<'_>) -> bool {
    ctx.me.is_some() && ctx.clock_agrees() && may_be_leaders(ctx).contains(&ctx.member)
}

/// How many slots of this node are busy.
#[must_use]
pub fn busy_slots(ctx: &RuleContext<'_>) -> u32 {
    let slots = ctx.local.settings.slots;
    let free = lifecycle::free_slots(ctx.view, ctx.local);
    slots.saturating_sub(u32::try_from(free).unwrap_or(slots))
}

/// This node's load score as of now.
#[must_use]
pub fn load_score(ctx: &RuleContext<'_>) -> Score {
    Score::of(ctx.local.host_load, busy_slots(ctx), ctx.local.settings.slots)
}

/// How long a new leader waits before it serves: W = max(0, T1 + T2 + net + ε·L − M), where M is what its predecessor's
/// own deadline has in hand (S4-35 … S4-37, I5).
#[must_use]
pub fn takeover_wait(ttl: Millis, valid: Millis, notice: Millis, stop: Millis, net: Millis) -> Millis {
    let spare = ttl - valid;
    (notice + stop + net + Millis(ttl.0 / 100) - spare).max(Millis::ZERO)
}

/// That wait, by the cluster's settings.
#[must_use]
pub fn handover_wait(ctx: &RuleContext<'_>, settings: &ClusterSettings) -> Millis {
    let (ttl, early) = (ctx.local.lease.ttl(), ctx.local.settings.early);
    match settings.handover {
        Handover::Fenced => takeover_wait(ttl, lease::usable(ttl, early), Millis::ZERO, STOP, NET),
        Handover::Waited => takeover_wait(ttl, ttl, ctx.local.settings.notice, STOP, NET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(tenths: i64) -> Millis {
        Millis(tenths * 100)
    }

    /// proves: S4-35, S4-36, S4-37
    #[test]
    fn the_profiles_of_the_takeover_wait() {
        // A lock that is polled every 2 s, with 1 s for the command, by a holder without a deadline of its own.
        assert_eq!(takeover_wait(secs(100), secs(100), secs(30), secs(10), Millis(500)), Millis(4_600));
        // A session of 9 s that is given up at 6 s.
        assert_eq!(takeover_wait(secs(90), secs(60), secs(0), secs(10), Millis(500)), Millis::ZERO);
        // Ours: a third of the term is in hand.
        for ttl in [Millis::secs(2), Millis::secs(15), Millis::secs(60)] {
            let valid = lease::usable(ttl, Millis::ZERO);
            let wait = takeover_wait(ttl, valid, Millis::ZERO, STOP, NET);
            assert!(wait <= Millis(353), "{ttl}: {wait}");
            assert_eq!(wait == Millis::ZERO, ttl > Millis::secs(3), "{ttl}: {wait}");
        }
    }
}
