//! Command items about calendars. No job may name a calendar that does not exist.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::decision::{ItemDecision, answer, refuse, rewritten};
use super::namespaces::{self, NamespacePass};
use crate::calendar::Calendar;
use crate::commit_kind::CommitKind;
use crate::ids::CalendarName;
use crate::input::{Answer, ApplyResult, Refusal};
use crate::job::Job;
use crate::keys;
use crate::record::{CalendarRecord, CalendarSpec};
use crate::registry::Txn;
use crate::rule_context::RuleContext;
use crate::view::JobView;

/// How many jobs a refusal names.
const NAMED: usize = 5;

/// Creates a calendar or replaces it. Past fires that it newly allows are ignored, as with a changed schedule.
pub(super) fn declare(ctx: &RuleContext<'_>, calendar: &Calendar) -> ItemDecision {
    let old = ctx.view.calendar(&calendar.name);
    if old.is_some_and(|old| old.calendar == *calendar) {
        return answer(Answer::Calendar(calendar.name.clone(), ApplyResult::Unchanged));
    }
    let pass = match old {
        Some(_) => NamespacePass::default(),
        None => match namespaces::admit(ctx, &calendar.name) {
            Ok(pass) => pass,
            Err(decided) => return decided,
        },
    };
    let kind = if old.is_some() { CommitKind::UpdateCalendar } else { CommitKind::CreateCalendar };
    // Another node may have changed it last, by a clock that is ahead of ours.
    let since = old.map_or(ctx.now.wall, |old| old.since.max(ctx.now.wall));
    let calendar = calendar.clone();
    let name = calendar.name.clone();
    let live = |version| CalendarRecord::Live(Box::new(CalendarSpec { calendar, version, since }));
    let mut txn = rewrite(ctx, &name, live);
    txn.guards.extend(pass.guards);
    ItemDecision::Commit(kind, txn)
}

/// Deletes a calendar that no job names.
pub(super) fn delete(ctx: &RuleContext<'_>, name: &CalendarName) -> ItemDecision {
    if ctx.view.calendar(name).is_none() {
        let text = format!("there is no calendar {name}: `evenkeel calendar list` shows those there are");
        return refuse(Refusal::NotFound, text);
    }
    let jobs: Vec<String> =
        ctx.view.jobs_under(name).filter(JobView::is_live).map(|job| job.name().to_string()).collect();
    if !jobs.is_empty() {
        let more = match jobs.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let named = jobs[..jobs.len().min(NAMED)].join(", ");
        let text = format!(
            "calendar {name} is named by {named}{more}: take it out of their exclude_calendars and require_calendars first"
        );
        return refuse(Refusal::Conflict, text);
    }
    ItemDecision::Commit(
        CommitKind::DeleteCalendar,
        rewrite(ctx, name, |version| CalendarRecord::Deleted { version }),
    )
}

/// Why a job cannot be declared: it names missing calendars.
pub(super) fn missing(ctx: &RuleContext<'_>, job: &Job) -> Option<String> {
    let missing = ctx.view.missing(job);
    let first = missing.first()?;
    Some(format!(
        "job {}: there is no calendar {first}: declare it first with `calendar apply -f FILE`, or leave it out of exclude_calendars and \
         require_calendars",
        job.name
    ))
}

fn rewrite(ctx: &RuleContext<'_>, name: &CalendarName, record: impl FnOnce(u64) -> CalendarRecord) -> Txn {
    rewritten(keys::calendar(name), ctx.view.calendar_entry(name), record)
}
