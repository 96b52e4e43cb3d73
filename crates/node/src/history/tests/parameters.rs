//! The parameters of manual runs.

use evenkeel_core::job::RunParameters;

use super::*;

fn with(run: &str, n: u32, state: AttemptState, parameters: &RunParameters) -> HistoryWrite {
    let record = RunRecord { parameters: parameters.clone(), ..attempt(run, n, state) };
    HistoryWrite::Attempt(Box::new(record))
}

#[tokio::test]
async fn a_manual_run_is_found_with_its_parameters_in_every_attempt_and_shard() {
    for mut books in all().await {
        let pairs = [("day", "2026-01-31"), ("text", "\u{1}\"\u{e4}")];
        let given: RunParameters =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        books
            .write(vec![
                with("j:ask-r:0", 1, AttemptState::Failed, &given),
                with("j:ask-r:1", 1, AttemptState::Running, &given),
                entry("j:ask-s:0", 1, AttemptState::Running),
            ])
            .await;
        // The same again, and an attempt of a node that has heard nothing of them.
        let again = with("j:ask-r:0", 2, AttemptState::Running, &given);
        books.write(vec![again, entry("j:ask-r:0", 3, AttemptState::Succeeded)]).await;
        for (run, expected) in
            [("j:ask-r:0", &given), ("j:ask-r:1", &given), ("j:ask-s:0", &RunParameters::default())]
        {
            let found = books.reader.run(run.parse().unwrap()).await.unwrap();
            assert!(
                !found.is_empty() && found.iter().all(|record| record.parameters == *expected),
                "{found:?}"
            );
        }
        assert_eq!(books.count("run_parameters").await, 1, "one row for the fire");
        let listed = books.reader.runs(RunFilter::default()).await.unwrap();
        assert!(listed.iter().all(|record| record.parameters.is_empty()), "a list has none");
    }
}
