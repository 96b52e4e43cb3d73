//! Parameters of manual runs, in requests and attempts.

use evenkeel_core::ids::Fire;
use evenkeel_core::job::RunParameters;
use evenkeel_core::record::{Backfill, TriggerRecord, TriggerRequest};
use evenkeel_core::shards::ShardSet;

use super::{AT, LayoutLine, attempt, later, line};

pub(super) fn parameters() -> Vec<LayoutLine> {
    let given: RunParameters = [("DAY".to_owned(), "2026-01-31".to_owned())].into_iter().collect();
    let request = TriggerRequest {
        id: "r3".parse().expect("a name"),
        at: AT,
        taken: false,
        node: None,
        shards: ShardSet::empty(),
        former: [].into(),
        parameters: given.clone(),
        taken_back: None,
    };
    let backfill = Backfill {
        id: "b1".parse().expect("a name"),
        at: later(2),
        dues: vec![AT, later(1)],
        next: 1,
        max_parallel: 1,
        parameters: given.clone(),
        cancelled: None,
    };
    let cancelled = Backfill {
        next: 2,
        cancelled: Some((later(3), 1)),
        parameters: RunParameters::default(),
        ..backfill.clone()
    };
    let asked = Fire::Asked("r1".parse().expect("a name"));
    vec![
        line("job/triggers-parameters", TriggerRecord { requests: vec![request], backfills: vec![] }),
        line(
            "job/triggers-backfills",
            TriggerRecord { requests: vec![], backfills: vec![backfill, cancelled] },
        ),
        line("attempt-parameters", attempt(asked).with_parameters(given)),
    ]
}
