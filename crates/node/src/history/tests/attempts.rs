//! What the history keeps of an attempt, whatever is reported of it and in which order.

use super::*;

#[tokio::test]
async fn an_attempt_is_read_back_as_written() {
    for mut books in all().await {
        let mut record = attempt("j:1000:0", 1, AttemptState::Failed);
        (record.reason, record.code) = ("exit code 3 \u{1F600}".into(), Some(-3));
        record.output = u64::MAX;
        books.write(vec![HistoryWrite::Attempt(Box::new(record.clone()))]).await;
        record.seq = 1;
        assert_eq!(books.reader.run(record.run.clone()).await.unwrap(), [record.clone()]);
        // A text that none of the three databases may fail on: all later ones would wait.
        record.reason = format!("a\0b{}", "x".repeat(1 << 20));
        let second = RunRecord { attempt: 2, ..record.clone() };
        books.write(vec![HistoryWrite::Attempt(Box::new(second))]).await;
        let found = books.reader.run(record.run.clone()).await.unwrap();
        assert!(found.len() == 2 && found[1].reason.len() > 1 << 20);
    }
}

/// proves: I22
#[tokio::test]
async fn a_late_result_never_overwrites_an_end() {
    for mut books in all().await {
        books.write(vec![entry("j:1000:0", 1, AttemptState::Running)]).await;
        books.write(vec![lost("j:1000:0")]).await;
        books
            .write(vec![
                entry("j:1000:0", 1, AttemptState::Succeeded),
                entry("j:1000:0", 1, AttemptState::Running),
            ])
            .await;
        assert_eq!(books.states("j:1000:0").await, [(1, AttemptState::Lost)]);
        assert_eq!(books.late("j:1000:0").await, [("a".to_string(), AttemptState::Succeeded)]);
    }
}

/// proves: I22
#[tokio::test]
async fn a_verdict_told_twice_is_one_and_never_overwrites_a_result() {
    for mut books in all().await {
        books.write(vec![lost("j:1000:0")]).await;
        books.write(vec![lost("j:1000:0")]).await;
        assert_eq!(books.states("j:1000:0").await, [(1, AttemptState::Lost)]);
        assert_eq!(books.late("j:1000:0").await, []);
        books.write(vec![entry("j:2000:0", 1, AttemptState::Succeeded)]).await;
        books.write(vec![lost("j:2000:0"), lost("j:2000:0")]).await;
        books.write(vec![lost("j:2000:0")]).await;
        assert_eq!(books.states("j:2000:0").await, [(1, AttemptState::Succeeded)]);
        assert_eq!(books.late("j:2000:0").await, [("b@2".to_string(), AttemptState::Lost)]);
    }
}

#[tokio::test]
async fn a_later_attempt_ends_the_earlier_one_that_nobody_ended() {
    for mut books in all().await {
        books.write(vec![entry("j:1000:0", 1, AttemptState::Running)]).await;
        books.write(vec![entry("j:1000:0", 2, AttemptState::Running)]).await;
        assert_eq!(books.states("j:1000:0").await, [(1, AttemptState::Lost), (2, AttemptState::Running)]);
        books
            .write(vec![
                entry("j:2000:0", 1, AttemptState::Running),
                entry("j:2000:0", 2, AttemptState::Succeeded),
            ])
            .await;
        assert_eq!(books.states("j:2000:0").await, [(1, AttemptState::Lost), (2, AttemptState::Succeeded)]);
    }
}

#[tokio::test]
async fn an_attempt_goes_on_from_what_was_known_of_it() {
    for mut books in all().await {
        let waiting =
            RunRecord { token: None, started: None, ..attempt("j:1000:0", 1, AttemptState::Waiting) };
        books.write(vec![HistoryWrite::Attempt(Box::new(waiting))]).await;
        let running = RunRecord { node: "c".into(), ..attempt("j:1000:0", 1, AttemptState::Running) };
        books.write(vec![HistoryWrite::Attempt(Box::new(running.clone()))]).await;
        let mut end = RunRecord { sent: String::new(), ..attempt("j:1000:0", 1, AttemptState::Failed) };
        (end.token, end.started) = (None, None);
        books.write(vec![HistoryWrite::Attempt(Box::new(end))]).await;
        let found = books.reader.run(running.run.clone()).await.unwrap();
        let whole = RunRecord { seq: 1, state: AttemptState::Failed, ended: Some(Wall(1002)), ..running };
        assert_eq!(found, [whole], "its end says neither who sent it nor its token, nor when it started");
    }
}

#[tokio::test]
async fn an_attempt_is_told_of_the_node_that_made_it() {
    for mut books in all().await {
        let waiting =
            RunRecord { token: None, started: None, ..attempt("j:1000:0", 2, AttemptState::Waiting) };
        books.write(vec![HistoryWrite::Attempt(Box::new(waiting))]).await;
        let on = |node: &str, state| RunRecord { node: node.into(), ..attempt("j:1000:0", 2, state) };
        let [running, end] = [AttemptState::Running, AttemptState::Succeeded].map(|state| on("c", state));
        books.write([running, end].map(|record| HistoryWrite::Attempt(Box::new(record))).into()).await;
        let found = books.reader.run("j:1000:0".parse().unwrap()).await.unwrap();
        assert_eq!(found[0].node, "c", "not of the one where it was to follow");
    }
}

#[test]
fn start_and_end_in_one_batch_are_one_row() {
    let done = entry("j:1000:0", 1, AttemptState::Succeeded);
    let other = entry("j:2000:0", 1, AttemptState::Running);
    let batch = vec![entry("j:1000:0", 1, AttemptState::Running), other.clone(), done.clone()];
    assert_eq!(coalesce(batch), [other, done], "its end stays behind what came before it");
    let not_started = HistoryWrite::NotStarted { run: "j:1000:0".parse().unwrap(), attempt: 1 };
    assert_eq!(coalesce(vec![entry("j:1000:0", 1, AttemptState::Running), not_started.clone()]), []);
    assert_eq!(coalesce(vec![not_started.clone()]), [not_started]);
}

#[tokio::test]
async fn what_did_not_start_leaves_no_row_unless_it_was_attempted_before() {
    for mut books in all().await {
        books.write(vec![entry("j:1000:0", 1, AttemptState::Running)]).await;
        books.write(vec![HistoryWrite::NotStarted { run: "j:1000:0".parse().unwrap(), attempt: 1 }]).await;
        assert_eq!(books.states("j:1000:0").await, []);
        books
            .write(vec![
                entry("j:1000:0", 1, AttemptState::Failed),
                entry("j:1000:0", 2, AttemptState::Running),
            ])
            .await;
        books.write(vec![HistoryWrite::NotStarted { run: "j:1000:0".parse().unwrap(), attempt: 2 }]).await;
        assert_eq!(books.states("j:1000:0").await, [(1, AttemptState::Failed), (2, AttemptState::Waiting)]);
    }
}
