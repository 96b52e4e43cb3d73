//! The audit log in a file and on every available server.

use super::*;
use crate::audit::{AuditFilter, AuditOutcome, AuditRecord, Proof, Requester};

fn record(id: &str, outcome: AuditOutcome) -> AuditRecord {
    AuditRecord {
        seq: 0,
        id: id.into(),
        at: Wall(1_000),
        node: "a".into(),
        asker: Requester::new(Proof::Key, "10.0.0.7", "root@h"),
        verb: "apply".into(),
        object: "job j".into(),
        job: Some("j".parse().unwrap()),
        about: None,
        outcome,
        before: None,
        after: Some(7),
        what: "schedule: \u{1F600}".into(),
    }
}

fn audit_entry(record: AuditRecord, fate: AuditDisposition) -> HistoryWrite {
    HistoryWrite::Audit(Box::new(AuditEntry { record, request: String::new(), fate, ask: None }))
}

fn entry(id: &str, outcome: AuditOutcome) -> HistoryWrite {
    audit_entry(record(id, outcome), AuditDisposition::Keep)
}

fn repeated(id: &str, outcome: AuditOutcome, fate: AuditDisposition) -> HistoryWrite {
    let record = record(id, outcome);
    HistoryWrite::Audit(Box::new(AuditEntry { record, request: "j once".into(), fate, ask: None }))
}

async fn outcomes(books: &HistoryFixture) -> Vec<(String, AuditOutcome)> {
    let found = books.reader.audit(AuditFilter::default()).await.unwrap();
    found.into_iter().map(|record| (record.id, record.outcome)).collect()
}

/// proves: I51
#[tokio::test]
async fn an_outcome_is_written_into_its_entry_and_stands() {
    for mut books in all().await {
        books.write(vec![entry("1", AuditOutcome::Asked), entry("2", AuditOutcome::Asked)]).await;
        books.write(vec![entry("1", AuditOutcome::Unknown)]).await;
        books.write(vec![entry("1", AuditOutcome::Applied)]).await;
        books.write(vec![entry("1", AuditOutcome::Refused), entry("1", AuditOutcome::Asked)]).await;
        books.write(vec![entry("3", AuditOutcome::Asked), entry("3", AuditOutcome::Denied)]).await;
        let expected =
            [("3", AuditOutcome::Denied), ("2", AuditOutcome::Asked), ("1", AuditOutcome::Applied)];
        assert_eq!(outcomes(&books).await, expected.map(|(id, outcome)| (id.to_owned(), outcome)));
        let found = books.reader.audit(AuditFilter::default()).await.unwrap();
        assert_eq!(found[2], AuditRecord { seq: 1, ..record("1", AuditOutcome::Applied) }, "as written");
        // The same batch once more, as after a commit whose answer was lost.
        books.rewrite(vec![entry("4", AuditOutcome::Applied)], Some(BatchResult::default())).await;
        assert_eq!(outcomes(&books).await.len(), 3, "that batch had been made");

        // The next life closes what a life left open, and another node does not.
        let other = AuditRecord { node: "b".into(), ..record("5", AuditOutcome::Asked) };
        books.write(vec![audit_entry(other, AuditDisposition::Keep)]).await;
        super::super::store::enter(&mut books.link, "a", Wall(9_000)).await.unwrap();
        let expected = [
            ("5", AuditOutcome::Asked),
            ("3", AuditOutcome::Denied),
            ("2", AuditOutcome::Unknown),
            ("1", AuditOutcome::Applied),
        ];
        assert_eq!(outcomes(&books).await, expected.map(|(id, outcome)| (id.to_owned(), outcome)));
    }
}

/// proves: I51
#[tokio::test]
async fn a_request_that_is_made_again_is_told_once() {
    for mut books in all().await {
        let (keep, again) = (AuditDisposition::Keep, AuditDisposition::Repeat);
        books.write(vec![repeated("1", AuditOutcome::Asked, keep)]).await;
        books.write(vec![repeated("2", AuditOutcome::Asked, keep)]).await;
        books.write(vec![repeated("1", AuditOutcome::Applied, keep)]).await;
        books.write(vec![repeated("2", AuditOutcome::Unchanged, again)]).await;
        assert_eq!(outcomes(&books).await, [("1".to_owned(), AuditOutcome::Applied)]);
        books.write(vec![entry("3", AuditOutcome::Asked)]).await;
        books.write(vec![audit_entry(record("3", AuditOutcome::Asked), AuditDisposition::Drop)]).await;
        assert_eq!(outcomes(&books).await.len(), 1, "another node tells of it");
    }
}

#[tokio::test]
async fn the_log_is_looked_up_by_job_node_person_and_time() {
    for mut books in all().await {
        let hour = 3_600_000;
        let row = |n: i64| {
            let mut record = record(&n.to_string(), AuditOutcome::Applied);
            record.at = Wall(n * hour);
            if n % 2 == 0 {
                record.job = None;
                record.about = Some("b".parse().unwrap());
            }
            if n % 3 == 0 {
                record.node = "b".into();
                record.asker = Requester::new(Proof::Local, "127.0.0.1", "eve@h");
            }
            audit_entry(record, AuditDisposition::Keep)
        };
        books.write((1..=12).map(row).collect()).await;
        let none = AuditFilter::default;
        let ids = async |filter: AuditFilter| {
            let found = books.reader.audit(filter).await.unwrap();
            found.into_iter().map(|record| record.id.parse().unwrap()).collect::<Vec<i64>>()
        };
        let job = Some("j".parse().unwrap());
        assert_eq!(ids(AuditFilter { job: job.clone(), ..none() }).await, [11, 9, 7, 5, 3, 1]);
        let node = || Some("b".to_owned());
        assert_eq!(ids(AuditFilter { node: node(), ..none() }).await, [12, 10, 9, 8, 6, 4, 3, 2]);
        for who in ["local", "eve@h"] {
            let who = Some(who.to_owned());
            assert_eq!(ids(AuditFilter { who, node: node(), limit: 3, ..none() }).await, [12, 9, 6]);
        }
        let (since, until) = (Some(Wall(4 * hour)), Some(Wall(6 * hour)));
        assert_eq!(ids(AuditFilter { since, until, ..none() }).await, [6, 5, 4]);
        assert_eq!(ids(AuditFilter { since, job, ..none() }).await, [11, 9, 7, 5]);
        assert_eq!(ids(AuditFilter { before: Some(3), ..none() }).await, [2, 1]);
        assert!(ids(AuditFilter { who: Some("mallory".into()), ..none() }).await.is_empty());
    }
}

/// proves: I48
#[tokio::test]
async fn the_log_is_kept_for_a_time_of_its_own() {
    for mut books in all().await {
        let many = (0..6_000).map(|n| {
            audit_entry(
                AuditRecord { at: Wall(n), ..record(&n.to_string(), AuditOutcome::Applied) },
                AuditDisposition::Keep,
            )
        });
        books.write(many.collect()).await;
        let keep = Retention {
            age: Duration::from_secs(1),
            audit: Duration::from_secs(1_000),
            ..Retention::default()
        };
        let mut left = Vec::new();
        let mut sweeper = retention::RetentionSweeper::new(keep);
        for (mono, wall) in [(0, 900_000), (10_000, 1_000_000 + 5_998), (10_200, 1_000_000 + 5_998)] {
            let now = Now { mono: Mono(mono), wall: Wall(wall) };
            sweeper.sweep(&mut books.link, BTreeMap::new(), now).await.unwrap();
            left.push(books.count("audit").await);
        }
        assert_eq!(left, [6_000, 999, 2], "a little at a time");
    }
}

#[tokio::test]
async fn a_history_of_before_gets_a_log_and_keeps_what_it_has() {
    for (folder, place) in locations() {
        let mut books = HistoryFixture::new(folder, place.clone()).await;
        books.write(vec![super::entry("j:1000:0", 1, AttemptState::Succeeded)]).await;
        let tables = [
            "audit",
            "event_job",
            "run_parameters",
            "job_version",
            "rollup_hour",
            "rollup_job",
            "rollup_pending",
            "rollup_state",
        ];
        let mut gone: Vec<String> =
            tables.iter().map(|table| format!("DROP TABLE {}", books.link.table(table))).collect();
        // On a server a node may have died in the middle of the step.
        if !place.is_shared() {
            gone.push("ALTER TABLE attempt DROP COLUMN counted".to_owned());
        }
        for text in gone {
            let gone = books.link.statement(text);
            books.link.run(gone).await.unwrap();
        }
        let before = match place.is_shared() {
            true => format!("UPDATE {} SET layout = 1", books.link.table("history")),
            false => "PRAGMA user_version = 5".to_owned(),
        };
        let before = books.link.statement(before);
        books.link.run(before).await.unwrap();
        books.link = HistoryConnection::open(&place).await.unwrap();
        books.write(vec![entry("1", AuditOutcome::Applied)]).await;
        assert_eq!(outcomes(&books).await.len(), 1);
        assert_eq!(books.states("j:1000:0").await, [(1, AttemptState::Succeeded)]);
    }
}
