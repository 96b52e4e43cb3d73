//! Faults in what nodes of neighbouring versions owe each other.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::keys;
use evenkeel_core::node::Node;
use evenkeel_core::record::{ClusterRecord, MemberInfo, decode, encode};
use evenkeel_core::registry::{Guard, Write};

use super::commits::commits;
use crate::tamper::Tamper;

/// Joins without a look at which layout is wanted, and leaves that as it is.
pub(super) struct JoinsUnasked;

impl Tamper for JoinsUnasked {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for txn in commits(effects, &[CommitKind::Join]) {
            txn.guards.retain(|guard| !matches!(guard, Guard::At(key, _) if *key == keys::cluster()));
            txn.writes.retain(|write| *write.key() != keys::cluster());
        }
    }
}

/// Raises a layout that nobody wanted before, so that some may join meanwhile.
pub(super) struct RaisesAtOnce;

impl Tamper for RaisesAtOnce {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::WantLayout]).flat_map(|txn| &mut txn.writes) {
            let Write::Put { value, .. } = write else { continue };
            let Some(record) = decode::<ClusterRecord>(value) else { continue };
            *value = encode(&record.raised(record.wanted.unwrap_or(record.layout)));
        }
    }
}

/// Says that it knows a layout more than it does.
pub(super) struct SaysTooMuch;

impl Tamper for SaysTooMuch {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::Join]).flat_map(|txn| &mut txn.writes) {
            let Write::Put { value, .. } = write else { continue };
            let Some(info) = decode::<MemberInfo>(value) else { continue };
            *value = encode(&MemberInfo { knows: info.knows + 1, ..info });
        }
    }
}

/// Goes on in whatever program there is.
pub(super) struct GoesOnInAny;

impl Tamper for GoesOnInAny {
    fn asks_programs(&self) -> bool {
        false
    }
}
