//! A job that fetches data and processes it, four items at a time, until there is nothing left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::{Config, Dataflow, Functions, JobFile, RunContext, Work};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orders = Arc::new(Mutex::new((1..=1_000).collect::<VecDeque<u32>>()));
    let fetch = move |_: RunContext, how_many: usize| {
        let orders = orders.clone();
        async move {
            let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
            let how_many = how_many.min(orders.len());
            orders.drain(..how_many).collect::<Vec<_>>()
        }
    };
    let process = |_: RunContext, order: u32| async move {
        if order.is_multiple_of(100) { Err(format!("order {order} has no address")) } else { Ok(()) }
    };
    let functions = Functions::new().add_dataflow("send-orders", fetch, process);
    let node = evenkeel::open(Config::new("a".parse()?, "sqlite:books", "data").with(functions)).await?;
    let mut job = JobFile::new("orders".parse()?, "*/5 * * * * *", Work::Function("send-orders".into()));
    job.dataflow = Some(Dataflow { threads: Some(4), fetch: 50, streaming: true, ..Dataflow::default() });
    node.apply(vec![job]).await?;
    tokio::signal::ctrl_c().await?;
    node.leave(std::time::Duration::from_secs(10)).await;
    Ok(())
}
