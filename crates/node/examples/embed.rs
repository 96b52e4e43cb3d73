//! A cron function in about ten lines. Start it twice, from two folders with one registry, and the two share the work.

use evenkeel::{Config, Functions, JobFile, RunContext, Work};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let functions = Functions::new().add("greet", |run: RunContext| async move {
        println!("hello at {}", run.run().due);
    });
    let node = evenkeel::open(Config::new("a".parse()?, "sqlite:books", "data").with(functions)).await?;
    node.apply(vec![JobFile::new("greeting".parse()?, "* * * * * *", Work::Function("greet".into()))])
        .await?;
    tokio::signal::ctrl_c().await?;
    node.leave(std::time::Duration::from_secs(10)).await;
    Ok(())
}
