//! Faults in rules: nodes follow a changed rule.

use evenkeel_core::cluster::membership;
use evenkeel_core::placement::claims;
use evenkeel_core::rule_context::{Rule, RuleContext, RuleFn, RuleOutput};
use evenkeel_core::rules::{
    self, BEAT, CONTROL, DISPATCH, DRAIN, ELECTION, FAILOVER, FIRING, HEALTH, LOCKS, MEMBERSHIP, POOLS,
    PROMOTION, SHARDING,
};

use crate::mutation::Mutation;

/// Claims while X ≤ N, and so ends up with one job too many.
pub(super) struct ExceedsQuota;

impl Mutation for ExceedsQuota {
    fn rules(&self) -> &'static [Rule] {
        const CLAIMS: Rule = Rule { name: "claims beyond the quota", decide: RuleFn::Node(beyond) };
        &[
            MEMBERSHIP, PROMOTION, CONTROL, LOCKS, BEAT, HEALTH, CLAIMS, DRAIN, ELECTION, FAILOVER, SHARDING,
            DISPATCH, FIRING, POOLS,
        ]
    }
}

fn beyond(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let quota = |group| claims::quota_in(ctx.view, ctx.local.settings(), group);
    claims::decide_within(ctx, |group| quota(group) + 1, out);
}

/// Claims as if no node were ever missing: N = 1 + K/S.
pub(super) struct IgnoresTolerance;

impl Mutation for IgnoresTolerance {
    fn rules(&self) -> &'static [Rule] {
        const CLAIMS: Rule = Rule { name: "claims without tolerance", decide: RuleFn::Node(intolerant) };
        &[
            MEMBERSHIP, PROMOTION, CONTROL, LOCKS, BEAT, HEALTH, CLAIMS, DRAIN, ELECTION, FAILOVER, SHARDING,
            DISPATCH, FIRING, POOLS,
        ]
    }
}

fn intolerant(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let quota = |group| 1 + ctx.view.jobs_of(group) / ctx.view.nodes_of(group).max(1);
    claims::decide_within(ctx, quota, out);
}

/// Joins once, and never again.
pub(super) struct JoinsOnce;

impl Mutation for JoinsOnce {
    fn rules(&self) -> &'static [Rule] {
        const ONCE: Rule = Rule { name: "membership, once", decide: RuleFn::Node(once) };
        &[
            ONCE,
            PROMOTION,
            CONTROL,
            LOCKS,
            BEAT,
            HEALTH,
            rules::CLAIMS,
            DRAIN,
            ELECTION,
            FAILOVER,
            SHARDING,
            DISPATCH,
            FIRING,
            POOLS,
        ]
    }
}

fn once(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if ctx.local.membership().predecessor().is_none() {
        membership::decide(ctx, out);
    }
}
