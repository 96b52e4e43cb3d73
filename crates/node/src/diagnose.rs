//! Checks whether a registry is fit for a cluster: inspects the engine, and tries it out with an entry of its own.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::backup::{asking_for_more, missing_calendars};
use evenkeel_core::ids::counted;
use evenkeel_core::job::JobWork;
use evenkeel_core::keys::{self, Key, ParsedKey};
use evenkeel_core::record::{ClusterRecord, Layouts, MemberInfo, SpecRecord, decode, split_seal};
use evenkeel_core::registry::{
    Change, DurabilityClass, EngineFacts, FeedKind, LeaseGrant, Txn, TxnOutcome, Value, Write,
};
use evenkeel_core::time::{Millis, Now};
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::{Exposure, Registry, RegistryError};

use crate::seal_key::OpenedEntry;
use crate::{NodeIdentity, SealKeys, clock};

/// A node whose clock differs by more claims no fires.
const DIFFERENCE_MAX: Millis = Millis::secs(1);
/// A fire is claimed this long before it is due; a registry that takes longer makes it late.
const LEAD: Duration = Duration::from_secs(1);
/// The default term of a node's lease.
const TTL: Millis = Millis::secs(15);
/// How often a round trip is measured.
const TRIPS: usize = 20;
/// How long to wait for a change to arrive in the feed.
const WATCH_PATIENCE: Duration = Duration::from_secs(10);

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check, as one word.
    pub check: String,
    /// The result.
    pub found: String,
    /// The fix; `None` when all is well.
    pub fix: Option<String>,
    /// Whether the registry works all the same, so that this is only a warning.
    pub mild: bool,
}

/// Checks the registry at a URL; with the identity of its cluster, also whether nodes wrote its entries. Writes one entry that no node reads, and removes it again.
///
/// # Errors
/// There is no registry, or it cannot be opened or asked; the text says what to do.
pub async fn examine(url: &str, identity: Option<&NodeIdentity>) -> Result<Vec<Finding>, RegistryError> {
    if !evenkeel_registry::exists(url).await? {
        let shown = evenkeel_registry::redacted(url);
        return Err(RegistryError::Refused(format!(
            "there is no registry at {shown}: name the URL that the nodes use; the first node that is started \
             with --registry {shown} makes it"
        )));
    }
    let exposure = evenkeel_registry::exposure(url)?;
    let registry = evenkeel_registry::open(url).await?;
    let facts = registry.facts();
    let examined = registry.check_health().await?;
    let version = examined.version.as_deref().unwrap_or("of a version it does not tell");
    let mut found = vec![good("engine", format!("{} {version}", facts.engine)), guarantee(&facts)];
    let own = cluster(&registry).await?;
    let generation = own.as_ref().map_or(facts.generation, |own| own.generation_on(facts.generation));
    found.extend(limits(&EngineFacts { generation, ..facts }));
    // With another cluster's identity nothing can be said.
    let seals =
        identity.filter(|known| own.as_ref().and_then(|own| own.identity.as_ref()) == Some(&known.name));
    found.extend(own.map(joining));
    found.extend(exposure.map(access));
    found.extend(examined.checks.into_iter().map(|(name, value)| good(name, value)));
    found.extend(examined.problems.into_iter().map(|it| bad(it.name, it.detail, it.fix)));

    let asked = clock::now();
    let granted = registry.open(facts.ttl_min.max(Millis::secs(10))).await?;
    found.push(difference(asked, &granted, clock::now()));
    let entries = registry.list().await?.changes;
    found.extend(asks_for_more(&entries, facts.class));
    found.extend(missing(&entries));
    found.extend(unbounded(&entries));
    found.extend(seals.map(|identity| sealed(&entries, &identity.seals)));
    let tried = try_out(&registry, &granted).await;
    // Also when the trial failed: its entry ends with the lease.
    let closed = registry.close(granted.lease).await;
    found.extend(tried?);
    closed?;
    Ok(found)
}

fn good(check: &str, found: impl Into<String>) -> Finding {
    Finding { check: check.to_owned(), found: found.into(), fix: None, mild: false }
}

fn bad(check: &str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check: check.to_owned(), found: found.into(), fix: Some(fix.into()), mild: false }
}

/// Who can read and change the registry besides the nodes. Beyond this host that is everybody on the network path; on
/// this host, every user.
fn access(exposure: Exposure) -> Finding {
    let check = "access";
    let Exposure { loopback, login, tls } = exposure;
    let fix =
        "set up users and encryption as docs/engines.md says, and give user, password and tls=on in the URL";
    match (loopback, login, tls) {
        (_, true, true) => good(check, "with a login, encrypted"),
        (true, true, false) => good(check, "with a login, on this host only"),
        (true, false, _) => Finding {
            mild: true,
            ..bad(
                check,
                "without a login: every user of this host can change the registry, and which commands run",
                fix,
            )
        },
        (false, false, _) => bad(
            check,
            "without a login: all who reach the engine can change the registry, and which commands run",
            fix,
        ),
        (false, true, false) => bad(
            check,
            "not encrypted: who is on the way reads the password, and can change the registry",
            "encrypt it as docs/engines.md says, and give tls=on in the URL",
        ),
    }
}

/// The cluster's own entry, if nodes were here before and the entry is theirs.
async fn cluster(registry: &Arc<dyn Registry>) -> Result<Option<ClusterRecord>, RegistryError> {
    let found = registry.read(vec![keys::cluster()]).await?.pop();
    Ok(found.and_then(|change| change.entry).and_then(|entry| decode(&entry.value)))
}

fn joining(cluster: ClusterRecord) -> Finding {
    if let Some(unknown) = Layouts::OWN.lacks(cluster.layout) {
        return bad("cluster", format!("{}: this program cannot join", cluster.id), unknown.to_string());
    }
    match cluster.shut {
        None => good("cluster", cluster.id),
        Some(shut) => bad("cluster", format!("{}: no node can join", cluster.id), shut.to_string()),
    }
}

/// The durability class of claims here, why, and what would improve it.
fn guarantee(facts: &EngineFacts) -> Finding {
    let check = "guarantee";
    let found = match facts.class {
        DurabilityClass::A => {
            return good(check, "class A: what was answered survives every crash that the engine survives");
        }
        DurabilityClass::B => "class B: as A, but for a window in which what was answered can be lost",
        DurabilityClass::C => "class C: what was answered can be lost",
    };
    match (facts.engine, facts.class) {
        // Redis answers before its replicas have the write, and cannot do better.
        ("redis", DurabilityClass::B) => good(check, format!("{found}; the most that Redis promises")),
        ("redis", _) => {
            bad(check, found, "set appendonly yes and appendfsync always, and see docs/engines.md")
        }
        ("postgres", DurabilityClass::B) => bad(
            check,
            found,
            "a standby may take over without the last commits: set synchronous_standby_names, and leave \
             synchronous_commit on",
        ),
        ("postgres", _) => bad(check, found, "turn fsync and full_page_writes on"),
        ("mysql", _) => bad(
            check,
            found,
            "set innodb_flush_log_at_trx_commit=1 and sync_binlog=1, and see docs/engines.md for clusters",
        ),
        ("memory", _) => bad(
            check,
            format!("{found}: it is gone with its process"),
            "take sqlite:PATH for one host, or an engine that is a server",
        ),
        _ => bad(check, found, "see docs/engines.md"),
    }
}

/// The jobs that require a higher durability class than the registry has: it had a higher one when they were declared.
fn asks_for_more(entries: &[Change], class: DurabilityClass) -> Option<Finding> {
    let entries = entries.iter().filter_map(|it| Some((&it.key, &it.entry.as_ref()?.value)));
    let more = asking_for_more(entries, class);
    let first = more.first()?;
    Some(bad(
        "jobs",
        format!("{} ask for a better guarantee than class {class:?}, {first} for one", more.len()),
        "make the engine better as said above, or declare them with less",
    ))
}

/// Jobs that never fire because a calendar that they name is missing.
fn missing(entries: &[Change]) -> Option<Finding> {
    let entries = entries.iter().filter_map(|it| Some((&it.key, &it.entry.as_ref()?.value)));
    let missing = missing_calendars(entries);
    let (calendar, job) = missing.first()?;
    Some(bad(
        "calendars",
        format!(
            "{} are named by jobs and missing, {calendar} by {job} for one: such jobs never fire",
            missing.len()
        ),
        "declare them with `evenkeel calendar apply -f FILE`, or take them out of the jobs",
    ))
}

/// Whether nodes of the cluster have written every entry that has a seal.
fn sealed(entries: &[Change], seals: &SealKeys) -> Finding {
    let check = "seals";
    let entries = entries.iter().filter_map(|it| Some((&it.key, &it.entry.as_ref()?.value)));
    // What the mark does not change counts for nothing anyway: a tombstone of an earlier version.
    let foreign = |(key, value): &(&Key, &Value)| match seals.open(key, value) {
        OpenedEntry::Foreign(marked) => marked != **value,
        OpenedEntry::Sealed(_) | OpenedEntry::SealedByAnother(_) => false,
    };
    let foreign: Vec<_> =
        entries.filter(|(key, _)| key.has_seal()).filter(foreign).map(|(key, _)| key).collect();
    let Some(first) = foreign.first() else {
        return good(check, "nodes of this cluster wrote every job, user and token");
    };
    bad(
        check,
        format!(
            "{} of jobs, users and tokens were written by no node of this cluster, {first} for one: they do not count",
            counted(foreign.len(), "entry").replace("entrys", "entries")
        ),
        "look at them with `evenkeel job unsealed`: accept or delete them, and see who can write to the registry",
    )
}

/// Whether the runs of a job have limits over all their processes.
fn has_run_limits(work: &JobWork) -> bool {
    work.command().is_some_and(|command| command.limits.together.is_some())
}

/// Nodes that cannot enforce the limits of `limits.together`, and whether a job with such limits may run there.
fn unbounded(entries: &[Change]) -> Option<Finding> {
    let check = "cgroups";
    let (mut nodes, mut jobs) = (Vec::new(), Vec::new());
    for (key, value) in entries.iter().filter_map(|it| Some((&it.key, &it.entry.as_ref()?.value))) {
        match keys::parse(key) {
            Some(ParsedKey::Node(member)) => {
                let info: Option<MemberInfo> = decode(value);
                nodes.extend(info.filter(|info| !info.lacking.is_empty()).map(|info| (member.node, info)));
            }
            Some(ParsedKey::Spec(_)) => match decode(split_seal(value).0) {
                Some(SpecRecord::Live(spec)) if has_run_limits(&spec.job.work) => jobs.push(spec.job),
                _ => {}
            },
            _ => {}
        }
    }
    let (node, info) = nodes.first()?;
    let found = format!(
        "{} cannot keep limits.together, {node} for one: {}",
        counted(nodes.len(), "node"),
        info.lacking
    );
    let hit =
        jobs.iter().find(|job| nodes.iter().any(|(node, info)| job.node_selector.fits(node, &info.labels)));
    Some(match hit {
        None => good(check, format!("{found}; no job there asks for any")),
        Some(job) => bad(
            check,
            format!("{found}; job {} asks for some and may run there", job.name),
            "start these nodes as root or as services with Delegate=yes, or say in the job's nodes which it may run on; see \
             docs/concepts/guard.md",
        ),
    })
}

fn limits(facts: &EngineFacts) -> Vec<Finding> {
    let feed = match facts.feed {
        FeedKind::Pushed => "pushed: the engine tells".to_owned(),
        FeedKind::Polled(every) => format!("polled: asked every {every}"),
    };
    let early =
        if facts.early > Millis::ZERO { format!(", may end {} early", facts.early) } else { String::new() };
    let lease = format!("{} at least{early}", facts.ttl_min);
    let room =
        format!("{} KiB a value, {} operations a transaction", facts.value_max >> 10, facts.operations_max);
    vec![
        good("feed", feed),
        match facts.ttl_min <= TTL {
            true => good("lease", lease),
            false => {
                bad("lease", lease, format!("lower the engine's least term, or say --ttl {}", facts.ttl_min))
            }
        },
        match facts.value_max >= 512 << 10 && facts.operations_max >= 64 {
            true => good("limits", room),
            false => {
                bad("limits", room, "raise the engine's limits: a job of many shards needs 512 KiB and 64")
            }
        },
        good("generation", facts.generation.to_string()),
    ]
}

/// Compares this host's clock with the engine's, which was read between two moments of this host's.
fn difference(asked: Now, granted: &LeaseGrant, answered: Now) -> Finding {
    let Some(theirs) = granted.clock else {
        return good("clock", "the engine tells none: nodes compare theirs with each other's");
    };
    let off = (asked.wall - theirs).max(theirs - answered.wall).max(Millis::ZERO);
    let found = format!("{off} apart, as far as can be told");
    match off <= DIFFERENCE_MAX {
        true => good("clock", found),
        false => bad("clock", found, "let NTP set the clocks of this host and of the engine's"),
    }
}

/// Reads, writes and watches, all with one entry that no node reads.
async fn try_out(registry: &Arc<dyn Registry>, granted: &LeaseGrant) -> Result<Vec<Finding>, RegistryError> {
    let key = Key::from_stored(format!("doctor/{}", granted.lease));
    let put = |round: usize| {
        let value = round.to_string().into_bytes().into();
        let put = Write::Put { key: key.clone(), value, owner: Some(granted.lease) };
        Txn { guards: Vec::new(), writes: vec![put] }
    };
    let mut feed = registry.watch(registry.list().await?.revision).await?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for round in 0..TRIPS {
        let watch = Stopwatch::start();
        registry.read(vec![key.clone()]).await?;
        reads.push(watch.elapsed());
        let watch = Stopwatch::start();
        let outcome = registry.commit(vec![put(round)]).await.pop();
        if !matches!(outcome, Some(TxnOutcome::Applied(_))) {
            let why = registry.last_error().map_or_else(|| format!("{outcome:?}"), |error| error.to_string());
            return Ok(vec![bad("writing", "a write was not made", why)]);
        }
        writes.push(watch.elapsed());
    }
    let watch = Stopwatch::start();
    registry.commit(vec![put(TRIPS)]).await;
    let told = async {
        while let Some(batch) = feed.next().await {
            let last = |it: &Change| {
                it.entry.as_ref().is_some_and(|entry| *entry.value == *TRIPS.to_string().as_bytes())
            };
            if batch.changes.iter().any(last) {
                return true;
            }
        }
        false
    };
    let told = tokio::time::timeout(WATCH_PATIENCE, told).await;
    let late = "look at the load of the engine and of the way to it";
    Ok(vec![
        trip("reading", reads, "bring the engine nearer, or relieve it"),
        trip("writing", writes, "bring the engine nearer, relieve it, or give it a faster disk"),
        match (told, watch.elapsed()) {
            (Ok(true), passed) if passed <= LEAD => {
                good("news", format!("{} after the write", shown(passed)))
            }
            (Ok(true), passed) => bad("news", format!("{} after the write", shown(passed)), late),
            (Ok(false), _) => bad("news", "the feed ended", late),
            (Err(_), _) => bad("news", format!("none within {}", shown(WATCH_PATIENCE)), late),
        },
    ])
}

fn trip(check: &str, mut times: Vec<Duration>, fix: &str) -> Finding {
    times.sort_unstable();
    let (usual, worst) = (times.get(times.len() / 2), times.last());
    let (usual, worst) = (usual.copied().unwrap_or_default(), worst.copied().unwrap_or_default());
    let found = format!("{} usually, {} at worst", shown(usual), shown(worst));
    match worst <= LEAD {
        true => good(check, found),
        false => bad(check, format!("{found}: longer than fires are claimed ahead"), fix),
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests;
