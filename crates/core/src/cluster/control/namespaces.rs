//! Command items about namespaces, and what a namespace lets in.
//!
//! A job that is created where the number of jobs is limited writes the namespace's entry too, and names itself there. So of
//! two nodes that create jobs at the same moment one is refused; and it creates none before its view has the other's job,
//! and with it all jobs before that one.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::decision::{ItemDecision, answer, refuse, rewritten};
use crate::commit_kind::CommitKind;
use crate::ids::{JobName, Namespace, Namespaced, counted};
use crate::input::{Answer, ApplyResult, Refusal};
use crate::job::{Job, Spec};
use crate::keys::{self, Key};
use crate::namespace::NamespaceSettings;
use crate::record::{CreatedJob, NamespaceRecord, NamespaceSpec, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::RuleContext;

/// What a new object adds to its transaction, so that its namespace is as this node knows it.
#[derive(Debug, Default)]
pub(super) struct NamespacePass {
    pub(super) guards: Vec<Guard>,
    pub(super) writes: Vec<Write>,
}

/// The entries of namespaces that transactions of this node are writing: in each namespace with a limit one job is created
/// after the other.
#[derive(Debug, Default)]
pub(super) struct NamespaceWrites(Option<BTreeSet<Key>>);

impl NamespaceWrites {
    /// Whether the entry is free for one more transaction; then it is taken.
    fn take(&mut self, ctx: &RuleContext<'_>, key: &Key) -> bool {
        let keys = self.0.get_or_insert_with(|| {
            let creating = ctx.local.commits.iter().filter(|commit| commit.kind == CommitKind::CreateJob);
            let written = creating.flat_map(|commit| &commit.txn.writes).map(|write| write.key().clone());
            written.filter(keys::is_namespace).collect()
        });
        keys.insert(key.clone())
    }
}

/// Creates a namespace or replaces its settings.
pub(super) fn declare(ctx: &RuleContext<'_>, namespace: &NamespaceSettings) -> ItemDecision {
    let old = ctx.view.namespace(&namespace.name);
    if old.is_some_and(|old| old.namespace == *namespace) {
        return answer(Answer::Namespace(namespace.name.clone(), ApplyResult::Unchanged));
    }
    if namespace.runs_max.is_some()
        && let Some(job) = unmonitored_in(ctx, &namespace.name)
    {
        let text = format!("namespace {}: {}", namespace.name, uncounted(&job));
        return refuse(Refusal::Conflict, text);
    }
    let kind = if old.is_some() { CommitKind::UpdateNamespace } else { CommitKind::CreateNamespace };
    let (namespace, last) = (namespace.clone(), old.and_then(|old| old.last.clone()));
    let name = namespace.name.clone();
    let live = |version| NamespaceRecord::Live(Box::new(NamespaceSpec { namespace, version, last }));
    ItemDecision::Commit(kind, rewrite(ctx, &name, live))
}

/// Deletes a namespace that holds nothing.
pub(super) fn delete(ctx: &RuleContext<'_>, name: &Namespace) -> ItemDecision {
    if name.is_default() {
        let text = "the namespace default always exists: what it holds can be deleted, and its limit lifted with `evenkeel \
                    namespace set default --jobs-max none`";
        return refuse(Refusal::Conflict, text.into());
    }
    if ctx.view.namespace(name).is_none() {
        return refuse(Refusal::NotFound, missing(name));
    }
    let held = [
        (ctx.view.jobs_in(name), "job"),
        (ctx.view.calendars_in(name), "calendar"),
        (ctx.view.secrets_in(name), "secret"),
    ];
    let held: Vec<String> =
        held.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| counted(n, what)).collect();
    if !held.is_empty() {
        let text = format!("namespace {name} holds {}: delete them first", held.join(" and "));
        return refuse(Refusal::Conflict, text);
    }
    let deleted = |version| NamespaceRecord::Deleted { version };
    ItemDecision::Commit(CommitKind::DeleteNamespace, rewrite(ctx, name, deleted))
}

/// Lets a new calendar or secret into its namespace.
pub(super) fn admit(ctx: &RuleContext<'_>, name: &impl Namespaced) -> Result<NamespacePass, ItemDecision> {
    let Ok(namespace) = name.namespace().parse::<Namespace>() else { return Ok(NamespacePass::default()) };
    if !ctx.view.has_namespace(&namespace) {
        return Err(refuse(Refusal::NotFound, missing(&namespace)));
    }
    // Nothing can become of `default` that a new object would have to know.
    let guards =
        if namespace.is_default() { Vec::new() } else { [ctx.view.namespace_guard(&namespace)].into() };
    Ok(NamespacePass { guards, writes: Vec::new() })
}

/// Lets a job into its namespace that becomes `spec`, or is enabled anew. `old` is what stands; changes of it pass.
pub(super) fn admit_job(
    ctx: &RuleContext<'_>,
    old: Option<&Spec>,
    (job, version): (&Job, u64),
    writes: &mut NamespaceWrites,
) -> Result<NamespacePass, ItemDecision> {
    may_count(ctx, job)?;
    if let Some(old) = old {
        let anew = job.enabled && !old.job.enabled;
        return if anew {
            may_enable(ctx, job).map(|()| NamespacePass::default())
        } else {
            Ok(NamespacePass::default())
        };
    }
    let pass = admit(ctx, &job.name)?;
    let Ok(namespace) = job.name.namespace().parse::<Namespace>() else { return Ok(pass) };
    let Some(spec) = ctx.view.namespace(&namespace) else { return Ok(pass) };
    let Some(jobs_max) = spec.namespace.jobs_max else { return Ok(pass) };
    let key = keys::namespace(&namespace);
    let knows =
        |last: &CreatedJob| ctx.view.id(&last.job).is_some_and(|id| ctx.job(id).version() >= last.version);
    if !spec.last.as_ref().is_none_or(knows) {
        return Err(ItemDecision::Wait);
    }
    let jobs = ctx.view.jobs_in(&namespace);
    if jobs >= jobs_max as usize {
        return Err(full(ctx, &namespace, jobs_max, &job.name));
    }
    if !writes.take(ctx, &key) {
        return Err(ItemDecision::Wait);
    }
    let last = Some(CreatedJob { job: job.name.clone(), version });
    let spec = NamespaceSpec { version: spec.version + 1, last, ..spec.clone() };
    let write = Write::Put { key, value: encode(&NamespaceRecord::Live(Box::new(spec))), owner: None };
    Ok(NamespacePass { guards: [ctx.view.namespace_guard(&namespace)].into(), writes: [write].into() })
}

/// Refuses to enable a job of a namespace that holds more jobs than it may: its limit was lowered.
pub(super) fn may_enable(ctx: &RuleContext<'_>, job: &Job) -> Result<(), ItemDecision> {
    let Ok(namespace) = job.name.namespace().parse::<Namespace>() else { return Ok(()) };
    let jobs_max = ctx.view.namespace(&namespace).and_then(|spec| spec.namespace.jobs_max);
    match jobs_max.filter(|max| ctx.view.jobs_in(&namespace) > *max as usize) {
        Some(max) => Err(full(ctx, &namespace, max, &job.name)),
        None => Ok(()),
    }
}

/// Refuses a job whose runs cannot be counted where the number of runs is limited.
fn may_count(ctx: &RuleContext<'_>, job: &Job) -> Result<(), ItemDecision> {
    let Ok(namespace) = job.name.namespace().parse::<Namespace>() else { return Ok(()) };
    if job.placement.is_monitored() || ctx.view.runs_max(&namespace).is_none() {
        return Ok(());
    }
    let text =
        format!("job {}: namespace {namespace} has a runs_max: {}", job.name.full(), uncounted(&job.name));
    Err(refuse(Refusal::Conflict, text))
}

/// A living job of a namespace whose runs cannot be counted, if there is one.
fn unmonitored_in(ctx: &RuleContext<'_>, namespace: &Namespace) -> Option<JobName> {
    let inside = |name: &JobName| name.namespace() == namespace.as_str();
    let jobs = ctx.view.ids().map(|id| ctx.job(id)).filter(|job| job.is_sharded() && inside(job.name()));
    let mut specs = jobs.filter_map(|job| job.spec());
    specs.find(|spec| !spec.job.placement.is_monitored()).map(|spec| spec.job.name.clone())
}

fn uncounted(job: &JobName) -> String {
    format!(
        "the runs of {} cannot be counted, since no node learns when they end: it takes monitor_execution = true",
        job.full()
    )
}

fn full(ctx: &RuleContext<'_>, namespace: &Namespace, max: u32, job: &impl Namespaced) -> ItemDecision {
    let text = format!(
        "job {}: namespace {namespace} holds {}, allowed are {max}: delete some, or raise jobs_max with `evenkeel namespace set \
         {namespace} --jobs-max N`",
        job.full(),
        counted(ctx.view.jobs_in(namespace), "job"),
    );
    refuse(Refusal::Conflict, text)
}

fn missing(name: &Namespace) -> String {
    format!("there is no namespace {name}: create it with `evenkeel namespace create {name}`")
}

fn rewrite(ctx: &RuleContext<'_>, name: &Namespace, record: impl FnOnce(u64) -> NamespaceRecord) -> Txn {
    rewritten(keys::namespace(name), ctx.view.namespace_entry(name), record)
}
