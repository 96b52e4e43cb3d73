//! Parameters of manual runs, in requests and attempts.

use evenkeel_core::ids::Fire;
use evenkeel_core::job::RunParameters;
use evenkeel_core::record::{TriggerRecord, TriggerRequest};
use evenkeel_core::shards::ShardSet;

use super::{AT, LayoutLine, attempt, line};

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
    let asked = Fire::Asked("r1".parse().expect("a name"));
    vec![
        line("job/triggers-parameters", TriggerRecord { requests: vec![request] }),
        line("attempt-parameters", attempt(asked).with_parameters(given)),
    ]
}
