//! The right to notify people of a late or absent fire: the node that first writes it over an earlier one has it.

use alloc::format;

use super::decision::{ItemDecision, answer, no_job, refuse};
use crate::commit_kind::CommitKind;
use crate::ids::JobName;
use crate::input::{Answer, Refusal};
use crate::job::Occasion;
use crate::keys;
use crate::record::{NotificationRecord, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::RuleContext;
use crate::time::Wall;

/// Claims the right. It is this node's again where it claimed it before, also in an earlier life: then it may have died
/// before it sent the notification, and a repeated one is recognised by its name.
pub(super) fn claim_notification(
    ctx: &RuleContext<'_>,
    name: &JobName,
    occasion: Occasion,
    due: Wall,
) -> ItemDecision {
    if ctx.view.find(name).is_none() {
        return no_job(name);
    }
    let known = ctx.view.notifications(name).cloned().unwrap_or_default();
    let old = known.value.as_ref();
    if let Some((record, notified)) =
        old.and_then(|old| Some((old, old.latest(occasion)?))).filter(|(_, notified)| *notified >= due)
    {
        if notified == due && record.by.node == ctx.member.node {
            return answer(Answer::Done);
        }
        let (by, occasion) = (&record.by.node, occasion.as_str());
        return refuse(
            Refusal::Conflict,
            format!(
                "node {by} has already notified people that the fire of {notified} of job {name} is {occasion}"
            ),
        );
    }
    let mut record = NotificationRecord {
        late: old.and_then(|old| old.late),
        absent: old.and_then(|old| old.absent),
        by: ctx.member.clone(),
        seq: old.map_or(0, |old| old.seq) + 1,
    };
    match occasion {
        Occasion::Late => record.late = Some(due),
        Occasion::Absent => record.absent = Some(due),
        Occasion::Failure | Occasion::Recovery | Occasion::Miss | Occasion::Lost => {
            let text = format!("{} is told by whoever writes it to history", occasion.as_str());
            return refuse(Refusal::Invalid, text);
        }
    }
    let key = keys::notifications(name);
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    ItemDecision::Commit(CommitKind::RecordNotification, Txn { guards, writes })
}
