//! The records of one job, and since when they are kept.

use super::*;

/// How much the readers of these tests take to be kept.
pub(super) const KEEP: Retention = Retention {
    output: 1,
    output_rate: None,
    outputs: 1,
    age: Duration::from_secs(1_000),
    audit: Duration::from_secs(1_000),
    summary: Duration::from_secs(1_000),
    runs_of_job: 8,
    runs: 100,
};

#[tokio::test]
async fn the_records_of_a_job_say_since_when_all_of_them_are_kept() {
    for mut histories in all().await {
        let run = |n: i64, job: &str| RunRecord {
            due: Wall(n),
            ..attempt(&format!("{job}:{n}:0"), 1, AttemptState::Succeeded)
        };
        let put = |n: i64, job: &str| HistoryWrite::Attempt(Box::new(run(n, job)));
        let kept = async |histories: &HistoryFixture, now| {
            let records =
                histories.reader.job_records("a".parse().unwrap(), (Wall(4), Wall(now))).await.unwrap();
            (records.rows.len(), records.kept_from.0)
        };
        histories.write((1..=7).map(|n| put(n, "a")).collect()).await;
        assert_eq!(kept(&histories, 9_000).await, (4, 9_000 - 1_000_000), "by age alone");
        histories.write(vec![put(8, "a"), put(9, "a")]).await;
        assert_eq!(kept(&histories, 9_000).await, (6, 2), "eight of a job are kept");
        histories.write((20..=120).map(|n| put(n, "b")).collect()).await;
        assert_eq!(kept(&histories, 9_000).await, (6, 2), "the oldest of all is not deleted yet");
        let keep = Retention { runs_of_job: 1_000, ..KEEP };
        let now = Now { mono: Mono(0), wall: Wall(9_000) };
        retention::RetentionSweeper::new(keep)
            .sweep(&mut histories.link, BTreeMap::new(), now)
            .await
            .unwrap();
        assert_eq!(kept(&histories, 9_000).await, (0, 21), "a hundred in all are kept");
    }
}
