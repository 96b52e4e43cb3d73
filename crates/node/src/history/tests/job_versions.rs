//! The versions of jobs in a file and on every available server.

use evenkeel_core::job::{Job, JobFile, Work};

use super::*;
use crate::audit::{Proof, Requester};
use crate::job_version::{JobChange, JobVersion, JobVersionFilter};

fn job(name: &str, schedule: &str) -> Box<Job> {
    let file = JobFile::new(name.parse().unwrap(), schedule, Work::Function("f".into()));
    Box::new(Job::parse(file).unwrap())
}

/// A change at the moment of its number, with this schedule and the one before.
fn changed(name: &str, version: u64, schedule: &str, before: Option<(u64, &str)>) -> HistoryWrite {
    let written = JobVersion {
        job: name.parse().unwrap(),
        version,
        at: Wall(i64::try_from(version).unwrap()),
        node: "a".into(),
        asker: Some(Requester::new(Proof::User("ann".into()), "10.0.0.7", "ann@h \u{1F600}")),
        change: if before.is_some() { JobChange::Changed } else { JobChange::Created },
        restored: None,
        declared: None,
    };
    let replaced = before.map(|(version, schedule)| (version, job(name, schedule)));
    let job = Some(job(name, schedule));
    HistoryWrite::JobVersion(Box::new(JobVersionEntry { version: written, job, replaced }))
}

fn deleted(name: &str, version: u64, before: (u64, &str)) -> HistoryWrite {
    let HistoryWrite::JobVersion(mut entry) = changed(name, version, "", Some(before)) else {
        unreachable!("it is one")
    };
    (entry.version.change, entry.job) = (JobChange::Deleted, None);
    HistoryWrite::JobVersion(entry)
}

async fn read(books: &HistoryFixture, name: &str) -> Vec<JobVersion> {
    let filter = JobVersionFilter { job: name.parse().unwrap(), limit: 1_000, before: None };
    books.reader.job_versions(filter).await.unwrap()
}

/// Number, change and schedule of each version.
async fn versions(books: &HistoryFixture, name: &str) -> Vec<String> {
    let schedule = |version: &JobVersion| match &version.declared {
        Some(text) => serde_json::from_str::<Job>(text).unwrap().rules().to_owned(),
        None => "none".to_owned(),
    };
    let found = read(books, name).await;
    found
        .iter()
        .map(|version| format!("{} {} {}", version.version, version.change, schedule(version)))
        .collect()
}

#[tokio::test]
async fn a_version_is_read_as_it_was_written_and_is_there_once() {
    for mut books in all().await {
        let batch = vec![
            changed("j", 1, "@daily", None),
            changed("j", 2, "@hourly", Some((1, "@daily"))),
            changed("team/j", 1, "@weekly", None),
        ];
        books.write(batch.clone()).await;
        books.write(batch).await;
        books.write(vec![deleted("j", 3, (2, "@hourly"))]).await;
        assert_eq!(versions(&books, "j").await, ["3 deleted none", "2 changed @hourly", "1 created @daily"]);
        assert_eq!(versions(&books, "team/j").await, ["1 created @weekly"]);
        let HistoryWrite::JobVersion(entry) = changed("j", 2, "@hourly", Some((1, "@daily"))) else {
            unreachable!("it is one")
        };
        let declared = serde_json::to_string(&job("j", "@hourly")).ok();
        assert_eq!(read(&books, "j").await[1], JobVersion { declared, ..entry.version });
        let page = JobVersionFilter { job: "j".parse().unwrap(), limit: 1, before: Some(3) };
        let page = books.reader.job_versions(page).await.unwrap();
        assert_eq!(page.iter().map(|version| version.version).collect::<Vec<_>>(), [2]);
    }
}

#[tokio::test]
async fn a_version_that_no_history_has_is_written_by_the_next_change() {
    for mut books in all().await {
        books.write(vec![changed("j", 1, "@daily", None)]).await;
        // The node that made version 2 died before it was written here.
        books.write(vec![changed("j", 3, "@weekly", Some((2, "@hourly")))]).await;
        let list = ["3 changed @weekly", "2 found @hourly", "1 created @daily"];
        assert_eq!(versions(&books, "j").await, list);
        assert_eq!(read(&books, "j").await[1].asker, None);
        // It was only late, and more is known of it now, whatever is found again.
        books.write(vec![changed("j", 2, "@hourly", Some((1, "@daily")))]).await;
        books.write(vec![changed("j", 3, "@weekly", Some((2, "@hourly")))]).await;
        let list = ["3 changed @weekly", "2 changed @hourly", "1 created @daily"];
        assert_eq!(versions(&books, "j").await, list);
        assert!(read(&books, "j").await[1].asker.is_some());
    }
}

async fn swept(books: &mut HistoryFixture, sweeper: &mut retention::RetentionSweeper, at: i64) {
    let now = Now { mono: Mono(at * 10_000), wall: Wall(at) };
    sweeper.sweep(&mut books.link, BTreeMap::new(), now).await.unwrap();
}

/// proves: I48
#[tokio::test]
async fn the_latest_versions_of_a_job_are_kept() {
    for mut books in all().await {
        let mut sweeper = retention::RetentionSweeper::new(Retention::default());
        let each = (2..=120).map(|n| changed("j", n, "@daily", Some((n - 1, "@hourly"))));
        let done = books.write(each.chain([changed("k", 1, "@daily", None)]).collect()).await;
        assert_eq!(done.redeclared.len(), 2);
        sweeper.note_versions(done.redeclared);
        swept(&mut books, &mut sweeper, 200).await;
        let left: Vec<u64> = read(&books, "j").await.iter().map(|version| version.version).collect();
        assert_eq!((left.len(), left[0], left[49]), (50, 120, 71));
        assert_eq!(versions(&books, "k").await, ["1 created @daily"]);
    }
}

/// proves: I48
#[tokio::test]
async fn the_age_of_a_version_counts_from_when_it_was_replaced() {
    for mut books in all().await {
        let keep = Retention { audit: Duration::from_millis(100), ..Retention::default() };
        let mut sweeper = retention::RetentionSweeper::new(keep);
        books.write(vec![changed("j", 1, "@daily", None), changed("k", 1, "@daily", None)]).await;
        books.write(vec![changed("j", 900, "@hourly", Some((1, "@daily")))]).await;
        books.write(vec![deleted("k", 950, (1, "@daily"))]).await;
        swept(&mut books, &mut sweeper, 999).await;
        assert_eq!(
            versions(&books, "j").await,
            ["900 changed @hourly", "1 created @daily"],
            "replaced lately"
        );
        assert_eq!(versions(&books, "k").await.len(), 2, "it can be put back");
        swept(&mut books, &mut sweeper, 1_010).await;
        assert_eq!(versions(&books, "j").await, ["900 changed @hourly"]);
        swept(&mut books, &mut sweeper, 90_000).await;
        assert_eq!(versions(&books, "j").await, ["900 changed @hourly"], "it is declared still");
        assert!(versions(&books, "k").await.is_empty());
    }
}
