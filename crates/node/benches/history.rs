//! What a page of a long history costs: `cargo bench -p evenkeel --bench history -- 10000 1000000 20000000`.
//!
//! In SQLite always, and on each SQL server that `EVENKEEL_TEST_<NAME>` names, as `cargo xtask engines env` does. Each number
//! is a size in attempts; behind each median stands how many times that of the first size it is. Who names engines, as in
//! `-- mysql 10000 20000000`, gets those alone.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is no benchmark")]

#[path = "common/past.rs"]
mod past;

use std::path::Path;

use evenkeel_registry::conformance;
use past::PageTimes;

const SIZES: [u64; 2] = [10_000, 1_000_000];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let (sizes, named): (Vec<_>, Vec<_>) =
        asked.iter().partition(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let sizes: Vec<u64> = sizes.into_iter().map(|size| size.parse().unwrap()).collect();
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for engine in ["sqlite", "postgres", "mysql"] {
        if !named.is_empty() && !named.iter().any(|name| *name == engine) {
            continue;
        }
        let server = std::env::var(format!("EVENKEEL_TEST_{}", engine.to_uppercase())).ok();
        let mut first: Option<Vec<PageTimes>> = None;
        for rows in &sizes {
            let folder = tempfile::tempdir().unwrap();
            let history = match (engine, &server) {
                ("sqlite", _) => format!("sqlite:{}", folder.path().join("history").display()),
                (_, Some(url)) => conformance::with_fresh_namespace(url),
                (_, None) => {
                    println!("{engine}: skipped, EVENKEEL_TEST_{} names no server", engine.to_uppercase());
                    break;
                }
            };
            let figures = runtime.block_on(measure(folder.path(), &history, *rows));
            print_times(engine, *rows, &figures, first.as_deref());
            first.get_or_insert(figures);
        }
    }
}

async fn measure(folder: &Path, history: &str, rows: u64) -> Vec<PageTimes> {
    let node = past::open(folder, history).await;
    past::fill(history, rows).await;
    let figures = past::pages(&node, rows).await;
    node.stop_now().await;
    figures
}

fn print_times(engine: &str, rows: u64, figures: &[PageTimes], first: Option<&[PageTimes]>) {
    println!("| {engine}, {rows} attempts | median ms | longest ms | ÷ first size |\n|---|---|---|---|");
    let millis = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
    for (n, of) in figures.iter().enumerate() {
        let (median, most) = (millis(of.median()), millis(of.times[of.times.len() - 1]));
        let ratio = first.map_or(1.0, |first| median / millis(first[n].median()));
        println!("| {} | {median:.2} | {most:.2} | {ratio:.1} |", of.page);
    }
}
