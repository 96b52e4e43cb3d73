//! How late the claims of many nodes are on one server, and how soon that many join: `EVENKEEL_TEST_POSTGRES` or
//! `EVENKEEL_TEST_MYSQL` names the server. `fleet --bench NODES… [--ordered]`; with `--ordered` each claim writes a second
//! entry, so that all of them wait for the counter.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::{Registry, open};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What all nodes together fire in a second; each fire is a claim and a verdict.
const FIRES: usize = 800;
const SECONDS: u64 = 8;
const TTL: Millis = Millis::secs(10);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --benches` only wants to know that it runs.
    if !args.iter().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let counts: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let ordered = args.iter().any(|arg| arg == "--ordered");
    let counts = if counts.is_empty() { vec![20, 50, 100] } else { counts };
    for name in ["POSTGRES", "MYSQL"] {
        let Ok(url) = std::env::var(format!("EVENKEEL_TEST_{name}")) else { continue };
        for nodes in &counts {
            fleet(&format!("{url}/fleet{}-{nodes}", std::process::id()), name, *nodes, ordered).await?;
        }
    }
    Ok(())
}

struct FleetNode {
    registry: Arc<dyn Registry>,
    lease: LeaseId,
    born: Revision,
    name: usize,
}

async fn join(url: String, name: usize) -> Result<FleetNode, Failure> {
    let registry = open(&url).await?;
    let lease = registry.open(TTL).await?.lease;
    let mut feed = registry.watch(registry.list().await?.revision).await?;
    tokio::spawn(async move { while feed.next().await.is_some() {} });
    let key = Key::from_stored(format!("node/n{name}"));
    let put = Write::Put { key: key.clone(), value: b"{}".as_slice().into(), owner: Some(lease) };
    let txn = Txn { guards: vec![Guard::Open(lease), Guard::Absent(key)], writes: vec![put] };
    match registry.commit(vec![txn]).await[..] {
        [TxnOutcome::Applied(born)] => Ok(FleetNode { registry, lease, born, name }),
        ref other => Err(format!("could not join: {other:?} {:?}", registry.last_error()).into()),
    }
}

async fn fleet(url: &str, engine: &str, nodes: usize, ordered: bool) -> Result<(), Failure> {
    drop(open(url).await?);
    let watch = Stopwatch::start();
    let joins: Vec<_> = (0..nodes).map(|name| tokio::spawn(join(url.to_owned(), name))).collect();
    let mut members = Vec::new();
    for node in joins {
        members.push(node.await??);
    }
    let joined = watch.elapsed();
    let works: Vec<_> = members.into_iter().map(|node| tokio::spawn(node.work(nodes, ordered))).collect();
    let mut late = Vec::new();
    for work in works {
        late.extend(work.await??);
    }
    late.sort_unstable();
    let at = |share: usize| late[(late.len() - 1) * share / 1_000].as_secs_f64() * 1e3;
    println!(
        "{engine:8} {nodes:>3} nodes: joined in {:.1} s; {} commits of {FIRES} fires/s: p50 {:.1} ms, p90 {:.1}, p99 {:.1}, \
         p99.9 {:.1}, most {:.1}",
        joined.as_secs_f64(),
        late.len(),
        at(500),
        at(900),
        at(990),
        at(999),
        at(1_000)
    );
    Ok(())
}

impl FleetNode {
    /// Fires its share of the jobs once a second, spread over the second, and keeps its lease and its load.
    async fn work(self, nodes: usize, ordered: bool) -> Result<Vec<Duration>, Failure> {
        let node = Arc::new(self);
        let mut jobs = Vec::new();
        for job in (node.name..FIRES).step_by(nodes) {
            let node = node.clone();
            jobs.push(tokio::spawn(async move {
                let (mut known, mut took) = (None, Vec::new());
                let due = Duration::from_micros(job as u64 * 1_000_000 / FIRES as u64);
                let start = Stopwatch::start();
                for second in 0..SECONDS {
                    let due = due + Duration::from_secs(second);
                    tokio::time::sleep(due.saturating_sub(start.elapsed())).await;
                    for _ in ["claim", "verdict"] {
                        let watch = Stopwatch::start();
                        known = Some(node.claim(job, known, ordered).await?);
                        took.push(watch.elapsed());
                    }
                }
                Ok::<_, Failure>(took)
            }));
        }
        let keeper = tokio::spawn({
            let node = node.clone();
            async move {
                for round in 0_u64.. {
                    tokio::time::sleep(Duration::from_millis(3_000 + node.name as u64 * 7)).await;
                    let _ = node.registry.renew(node.lease).await;
                    let key = Key::from_stored(format!("load/n{}", node.name));
                    let value = round.to_string().into_bytes().into();
                    let writes = vec![Write::Put { key, value, owner: None }];
                    node.registry.commit(vec![Txn { guards: vec![], writes }]).await;
                }
            }
        });
        let mut late = Vec::new();
        for job in jobs {
            late.extend(job.await??);
        }
        keeper.abort();
        Ok(late)
    }

    async fn claim(&self, job: usize, known: Option<Revision>, ordered: bool) -> Result<Revision, Failure> {
        let key = Key::from_stored(format!("run/j{job}/claim"));
        let own = known.map_or_else(|| Guard::Absent(key.clone()), |known| Guard::At(key.clone(), known));
        let me = Key::from_stored(format!("node/n{}", self.name));
        let put = |key| Write::Put { key, value: [b'x'; 200].as_slice().into(), owner: None };
        let mut writes = vec![put(key)];
        if ordered {
            writes.push(put(Key::from_stored(format!("run/j{job}/plan"))));
        }
        let txn = Txn { guards: vec![own, Guard::Born(me, self.born)], writes };
        match self.registry.commit(vec![txn]).await[..] {
            [TxnOutcome::Applied(revision)] => Ok(revision),
            ref other => Err(format!("could not claim: {other:?} {:?}", self.registry.last_error()).into()),
        }
    }
}
