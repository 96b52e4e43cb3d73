//! Command items about the cluster: its settings, the layout of its tree, and the manual activation of nodes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::decision::{ItemDecision, answer, refuse};
use crate::cluster::health;
use crate::commit_kind::CommitKind;
use crate::effect::Event;
use crate::ids::NodeName;
use crate::input::{Answer, ApplyResult, ClusterSetting, Refusal};
use crate::keys;
use crate::local::CommitScope;
use crate::record::encode;
use crate::registry::{Txn, Write};
use crate::rule_context::{CommitNotice, RuleContext, RuleOutput};

/// The longest beat, in seconds.
const BEAT_MAX: u32 = 3_600;
/// The most strikes.
const STRIKES_MAX: u32 = 100;

/// Changes one setting.
pub(super) fn configure(ctx: &RuleContext<'_>, setting: ClusterSetting) -> ItemDecision {
    let known = ctx.view.settings_entry();
    let old = ctx.view.settings();
    let mut new = old.clone();
    match setting {
        ClusterSetting::Planner(planner) => new.planner = planner,
        ClusterSetting::Beat(secs) if secs == old.beat => {}
        ClusterSetting::Beat(secs) if (1..=BEAT_MAX).contains(&secs) => {
            if !ctx.clock_agrees() {
                let text = "this node's clock differs from the registry's, and beats are numbered by it: ask another node";
                return refuse(Refusal::Conflict, text.into());
            }
            new = old.with_beat(secs, ctx.now.wall);
        }
        ClusterSetting::Beat(secs) => {
            return refuse(Refusal::Invalid, format!("beat is {secs} s, allowed are 1 to {BEAT_MAX}"));
        }
        ClusterSetting::Strikes(strikes) if (1..=STRIKES_MAX).contains(&strikes) => new.strikes = strikes,
        ClusterSetting::Strikes(strikes) => {
            return refuse(Refusal::Invalid, format!("strikes is {strikes}, allowed are 1 to {STRIKES_MAX}"));
        }
        ClusterSetting::Handover(handover) => new.handover = handover,
        ClusterSetting::Spread(spread) => new.spread = spread,
    }
    if new == old {
        return answer(Answer::Done);
    }
    new.seq = old.seq + 1;
    let key = keys::settings();
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value: encode(&new), owner: None }].into();
    ItemDecision::Commit(CommitKind::Configure, Txn { guards, writes })
}

/// Lets the tree be written in the newest layout that a member knows, once all members know it.
///
/// First that layout is requested: from then on a node that does not know it cannot join, or it withdraws the request
/// in the same commit. So such nodes can only become fewer. When a listing since then shows none of them, the layout is
/// raised in a commit that fails if the request was touched.
pub(super) fn finalize(ctx: &RuleContext<'_>) -> ItemDecision {
    let known = ctx.view.cluster();
    if known.is_unreadable() {
        let text =
            "the entry cluster of the registry cannot be read: put it back as it was, or use a newer program";
        return refuse(Refusal::Conflict, text.into());
    }
    let Some(record) = &known.value else {
        let text = "this registry ends with its process, so no other version of the program ever reads it: there is nothing to finalize";
        return refuse(Refusal::NotFound, text.into());
    };
    let known_by = || ctx.view.members().map(|(member, state)| (&member.node, state.info.knows));
    let goal = known_by().map(|(_, layout)| layout).fold(record.layout, Ord::max);
    if goal == record.layout {
        return answer(Answer::Layout(goal, ApplyResult::Unchanged));
    }
    let behind = known_by().filter(|(_, layout)| *layout < goal);
    let behind: Vec<String> = behind.map(|(node, layout)| format!("{node} (up to {layout})")).collect();
    if !behind.is_empty() {
        let names = behind.join(", ");
        let text = format!(
            "the tree has layout {}, and not all nodes know layout {goal}: upgrade {names}, then try again",
            record.layout
        );
        return refuse(Refusal::Conflict, text);
    }
    let is_wanted = record.wanted.is_some_and(|wanted| wanted >= goal);
    let (kind, new) = match is_wanted {
        true if !ctx.view.knows_who_joined() => return ItemDecision::Wait,
        true => (CommitKind::RaiseLayout, record.raised(goal)),
        false => (CommitKind::WantLayout, record.wanting(Some(goal))),
    };
    let key = keys::cluster();
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value: encode(&new), owner: None }].into();
    ItemDecision::Commit(kind, Txn { guards, writes })
}

/// Marks a node as online again; its strikes up to now are forgiven.
pub(super) fn activate(
    ctx: &RuleContext<'_>,
    node: &NodeName,
    scope: CommitScope,
    out: &mut RuleOutput,
) -> ItemDecision {
    let life = ctx.view.members().map(|(member, _)| member).filter(|member| member.node == *node).last();
    let Some(life) = life else {
        return refuse(Refusal::NotFound, format!("there is no node {node}: start it, and it is online"));
    };
    if !ctx.view.is_offline(life) {
        return answer(Answer::Unchanged);
    }
    let beat = ctx.view.settings().beat_of(ctx.now.wall);
    let (guard, write) = health::offline_write(ctx, life, false, beat);
    out.notices.push(CommitNotice { scope, sent: false, event: Event::Online(node.clone()) });
    ItemDecision::Commit(CommitKind::Activate, Txn { guards: [guard].into(), writes: [write].into() })
}
