//! The rules, in the order in which they run.

use crate::cluster::{beat, control, drain, health, locks, membership, pools, promotion};
use crate::lifecycle;
use crate::placement::{claims, dispatch, election, failover, firing, sharding};
use crate::rule_context::{Rule, RuleFn};

/// All rules.
pub static ALL: &[Rule] = &[
    MEMBERSHIP, PROMOTION, CONTROL, LOCKS, BEAT, HEALTH, CLAIMS, DRAIN, ELECTION, FAILOVER, SHARDING,
    DISPATCH, FIRING, PAUSE, POOLS, DRAINED,
];

/// See [`membership`].
pub const MEMBERSHIP: Rule = Rule { name: "membership", decide: RuleFn::Node(membership::decide) };
/// See [`control`].
pub const CONTROL: Rule = Rule { name: "control", decide: RuleFn::Node(control::decide) };
/// See [`locks`].
pub const LOCKS: Rule = Rule { name: "locks", decide: RuleFn::Node(locks::decide) };
/// See [`pools`].
pub const POOLS: Rule = Rule { name: "pools", decide: RuleFn::Node(pools::decide) };
/// See [`promotion`].
pub const PROMOTION: Rule = Rule { name: "promotion", decide: RuleFn::Node(promotion::decide) };
/// See [`beat`].
pub const BEAT: Rule = Rule { name: "beat", decide: RuleFn::Node(beat::decide) };
/// See [`health`].
pub const HEALTH: Rule = Rule { name: "health", decide: RuleFn::Node(health::decide) };
/// See [`dispatch`].
pub const DISPATCH: Rule = Rule { name: "dispatch", decide: RuleFn::Jobs(dispatch::decide) };
/// See [`claims`].
pub const CLAIMS: Rule = Rule { name: "claims", decide: RuleFn::Node(claims::decide) };
/// See [`drain`].
pub const DRAIN: Rule = Rule { name: "drain", decide: RuleFn::Job(drain::decide) };
/// See [`drain::report_drained`].
pub const DRAINED: Rule = Rule { name: "drained", decide: RuleFn::Node(drain::report_drained) };
/// See [`election`].
pub const ELECTION: Rule = Rule { name: "election", decide: RuleFn::Job(election::decide) };
/// See [`failover`].
pub const FAILOVER: Rule = Rule { name: "failover", decide: RuleFn::Job(failover::decide) };
/// See [`sharding`].
pub const SHARDING: Rule = Rule { name: "sharding", decide: RuleFn::Job(sharding::decide) };
/// See [`firing`].
pub const FIRING: Rule = Rule { name: "firing", decide: RuleFn::Job(firing::decide) };
/// See [`lifecycle::pause`].
pub const PAUSE: Rule = Rule { name: "pause", decide: RuleFn::Job(lifecycle::pause::decide) };
