//! Faults between neighbouring versions.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::keys;
use evenkeel_core::node::Node;
use evenkeel_core::record::{ClusterRecord, MemberInfo, decode, encode};
use evenkeel_core::registry::{Guard, Write};

use super::commits::commits;
use crate::mutation::Mutation;

/// Joins without a check of the requested layout, and leaves that unchanged.
pub(super) struct SkipsLayoutCheck;

impl Mutation for SkipsLayoutCheck {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for txn in commits(effects, &[CommitKind::Join]) {
            txn.guards.retain(|guard| !matches!(guard, Guard::At(key, _) if *key == keys::cluster()));
            txn.writes.retain(|write| *write.key() != keys::cluster());
        }
    }
}

/// Raises a layout that was not requested before, so that older nodes may join meanwhile.
pub(super) struct RaisesLayoutEarly;

impl Mutation for RaisesLayoutEarly {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::WantLayout]).flat_map(|txn| &mut txn.writes) {
            let Write::Put { value, .. } = write else { continue };
            let Some(record) = decode::<ClusterRecord>(value) else { continue };
            *value = encode(&record.raised(record.wanted.unwrap_or(record.layout)));
        }
    }
}

/// Claims to know one layout more than it does.
pub(super) struct OverstatesLayout;

impl Mutation for OverstatesLayout {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::Join]).flat_map(|txn| &mut txn.writes) {
            let Write::Put { value, .. } = write else { continue };
            let Some(info) = decode::<MemberInfo>(value) else { continue };
            *value = encode(&MemberInfo { knows: info.knows + 1, ..info });
        }
    }
}

/// Continues in any program.
pub(super) struct AcceptsAnyProgram;

impl Mutation for AcceptsAnyProgram {
    fn checks_programs(&self) -> bool {
        false
    }
}
