//! Attempts and events are listed page by page, and found by name, job, state, node and time.

use super::*;

#[tokio::test]
async fn attempts_are_listed_by_job_and_state_page_by_page() {
    for mut books in all().await {
        for n in 1..=5 {
            books
                .write(vec![
                    entry(&format!("a:{n}:0"), 1, AttemptState::Succeeded),
                    entry(
                        &format!("b:{n}:0"),
                        1,
                        if n == 2 { AttemptState::Lost } else { AttemptState::Failed },
                    ),
                ])
                .await;
        }
        let ask = |filter| books.reader.runs(filter);
        let filter = RunFilter { job: Some("a".parse().unwrap()), limit: 2, ..RunFilter::default() };
        let first = ask(filter.clone()).await.unwrap();
        assert_eq!(first.iter().map(|r| r.run.to_string()).collect::<Vec<_>>(), ["a:5:0", "a:4:0"]);
        let next = ask(RunFilter { before: first.last().map(|r| r.seq), ..filter }).await.unwrap();
        assert_eq!(next.iter().map(|r| r.run.to_string()).collect::<Vec<_>>(), ["a:3:0", "a:2:0"]);
        let failed = RunFilter {
            states: vec![AttemptState::Failed, AttemptState::Lost, AttemptState::Lost],
            ..RunFilter::default()
        };
        let due = async |limit| {
            let found = ask(RunFilter { limit, ..failed.clone() }).await.unwrap();
            found.iter().map(|r| r.run.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(due(100).await, ["b:5:0", "b:4:0", "b:3:0", "b:2:0", "b:1:0"]);
        assert_eq!(due(4).await, ["b:5:0", "b:4:0", "b:3:0", "b:2:0"], "states are one list");
        let succeeded = RunFilter { states: vec![AttemptState::Succeeded], ..RunFilter::default() };
        assert_eq!(ask(succeeded).await.unwrap().len(), 5);
    }
}

#[tokio::test]
async fn attempts_are_found_by_name_in_whatever_state() {
    for mut books in all().await {
        let each = [
            ("a:1:0", 1, AttemptState::Failed),
            ("a:1:0", 2, AttemptState::Running),
            ("a:2:0", 1, AttemptState::Lost),
        ];
        books.write(each.map(|(run, n, state)| entry(run, n, state)).to_vec()).await;
        let attempts = [("a:1:0", 2), ("a:2:0", 1), ("a:2:0", 2), ("a:3:0", 1)];
        let attempts = attempts.map(|(run, n)| (run.parse().unwrap(), n)).to_vec();
        let found = books.reader.runs(RunFilter { attempts, ..RunFilter::default() }).await.unwrap();
        let found: Vec<_> = found.iter().map(|r| (r.run.to_string(), r.attempt, r.state)).collect();
        let wanted = [("a:2:0", 1, AttemptState::Lost), ("a:1:0", 2, AttemptState::Running)];
        assert_eq!(found, wanted.map(|(run, n, state)| (run.to_owned(), n, state)));
    }
}

#[tokio::test]
async fn a_fire_is_all_its_shards_and_no_other_fire() {
    for mut books in all().await {
        let runs =
            ["a:10:0", "a:10:1", "a:10:12", "a:100:0", "a:1:0", "ab:10:0", "a:ask-10:0", "a:ask-10.b:0"];
        for run in runs {
            books.write(vec![entry(run, 1, AttemptState::Failed)]).await;
        }
        books.write(vec![entry("a:10:1", 2, AttemptState::Running)]).await;
        for (fire, wanted) in [
            ("a:10", &["a:10:1", "a:10:12", "a:10:1", "a:10:0"][..]),
            ("a:ask-10", &["a:ask-10:0"]),
            ("a:2", &[]),
        ] {
            let filter = RunFilter { fire: Some(fire.parse().unwrap()), ..RunFilter::default() };
            let found = books.reader.runs(filter).await.unwrap();
            assert_eq!(found.iter().map(|r| r.run.to_string()).collect::<Vec<_>>(), wanted, "{fire}");
        }
    }
}

#[tokio::test]
async fn events_are_listed_by_node_kind_and_time_page_by_page() {
    for mut books in all().await {
        for at in 1..=6 {
            let node = if at % 2 == 0 { "a" } else { "b" };
            let kind = if at <= 3 { "joined" } else { "alarm" };
            let text = format!("event {at}");
            books
                .write(vec![HistoryWrite::Event { at: Wall(at), node: node.into(), kind, job: None, text }])
                .await;
        }
        let ask = async |filter| {
            let found: Vec<EventRecord> = books.reader.events(filter).await.unwrap();
            found.into_iter().map(|event| event.at.0).collect::<Vec<_>>()
        };
        let all = EventFilter::default;
        assert_eq!(ask(all()).await, [6, 5, 4, 3, 2, 1]);
        assert_eq!(ask(EventFilter { node: Some("a".into()), ..all() }).await, [6, 4, 2]);
        assert_eq!(ask(EventFilter { kind: Some("joined".into()), ..all() }).await, [3, 2, 1]);
        assert_eq!(ask(EventFilter { since: Some(Wall(5)), ..all() }).await, [6, 5]);
        assert_eq!(ask(EventFilter { limit: 2, before: Some(5), ..all() }).await, [4, 3]);
    }
}

#[tokio::test]
async fn runs_and_events_are_listed_by_namespace() {
    for mut books in all().await {
        // Names on both sides of each end of the namespace `team`.
        let jobs =
            ["j", "team", "team-a/j", "team.x", "team/a", "team/z", "team0", "team0/j", "teams/j", "Team/a"];
        for (n, job) in jobs.into_iter().enumerate() {
            let state = if n % 2 == 0 { AttemptState::Succeeded } else { AttemptState::Failed };
            books.write(vec![entry(&format!("{job}:10:0"), 1, state)]).await;
            let job = Some(job.parse().unwrap());
            let (at, node, text) = (Wall(n as i64), "a".into(), String::new());
            books.write(vec![HistoryWrite::Event { at, node, kind: "elected", job, text }]).await;
        }
        let (at, node, text) = (Wall(99), "a".into(), String::new());
        books.write(vec![HistoryWrite::Event { at, node, kind: "joined", job: None, text }]).await;
        for (namespace, wanted) in [
            ("team", &["team/a", "team/z"][..]),
            ("team-a", &["team-a/j"]),
            ("team0", &["team0/j"]),
            ("Team", &["Team/a"]),
            ("default", &["j", "team", "team.x", "team0"]),
            ("tea", &[]),
        ] {
            let namespace = Some(namespace.parse().unwrap());
            let filter = RunFilter { namespace: namespace.clone(), ..RunFilter::default() };
            let found = books.reader.runs(filter.clone()).await.unwrap();
            let names: Vec<_> = found.iter().rev().map(|run| run.job.to_string()).collect();
            assert_eq!(names, wanted, "{namespace:?}");
            let failed = RunFilter { states: vec![AttemptState::Failed], ..filter };
            let failed = books.reader.runs(failed).await.unwrap();
            let failed: Vec<_> = failed.iter().rev().map(|run| run.job.to_string()).collect();
            let odd = |job: &&str| jobs.iter().position(|name| *name == *job).unwrap() % 2 == 1;
            assert_eq!(failed, wanted.iter().copied().filter(odd).collect::<Vec<_>>(), "{namespace:?}");
            let filter = EventFilter { namespace, ..EventFilter::default() };
            let found = books.reader.events(filter).await.unwrap();
            let names: Vec<_> =
                found.iter().rev().map(|event| event.job.as_ref().unwrap().to_string()).collect();
            assert_eq!(names, wanted);
        }
        let all = books.reader.events(EventFilter::default()).await.unwrap();
        assert_eq!(all.len(), jobs.len() + 1);
        assert_eq!(all[0].job, None, "an event of a node");
    }
}
