//! The dataflow settings of a job: how its function fetches and processes data.

use serde::{Deserialize, Serialize};

/// The longest interval of counting, in seconds: a day.
pub(super) const INTERVAL_MAX: u64 = 86_400;
/// The most items that are processed at once in one run.
pub(super) const THREADS_MAX: u32 = 1_024;
/// The most items that one fetch asks for.
pub(super) const FETCH_MAX: u32 = 1_000_000;

/// How data is fetched, processed and counted. Each setting is also read under the name that Elastic-Job-Lite gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "DataflowFields")]
pub struct Dataflow {
    /// Over how many seconds successes and failures are counted (S2-21).
    #[serde(with = "super::written::span", skip_serializing_if = "is_interval")]
    pub interval: u64,
    /// How many items are processed at once; twice the host's processors by default (S2-22).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// How many items one fetch asks for (S2-23).
    #[serde(skip_serializing_if = "super::defaults::is_one")]
    pub fetch: u32,
    /// Whether a run goes on until a fetch is empty (S2-24).
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub streaming: bool,
}

/// The dataflow fields as they are parsed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataflowFields {
    #[serde(default, with = "super::written::span_or_none")]
    interval: Option<u64>,
    #[serde(default, rename = "processCountIntervalSeconds")]
    interval_seconds: Option<u64>,
    #[serde(default, alias = "concurrentDataProcessThreadCount")]
    threads: Option<u32>,
    #[serde(default = "super::defaults::one", alias = "fetchDataCount")]
    fetch: u32,
    #[serde(default, alias = "streamingProcess", alias = "streaming-process")]
    streaming: bool,
}

impl TryFrom<DataflowFields> for Dataflow {
    type Error = &'static str;

    fn try_from(written: DataflowFields) -> Result<Self, Self::Error> {
        let DataflowFields { interval: span, interval_seconds, threads, fetch, streaming } = written;
        if span.is_some() && interval_seconds.is_some() {
            return Err("interval and processCountIntervalSeconds are the same key: leave one out");
        }
        let interval = span.or(interval_seconds).unwrap_or_else(interval);
        Ok(Self { interval, threads, fetch, streaming })
    }
}

impl Default for Dataflow {
    fn default() -> Self {
        Self { interval: interval(), threads: None, fetch: 1, streaming: false }
    }
}

fn interval() -> u64 {
    300
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_interval(secs: &u64) -> bool {
    *secs == interval()
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use crate::job::{Job, JobFile};

    fn read(fields: &str) -> Result<JobFile, String> {
        let text = format!(r#"{{"name":"j",{fields}}}"#);
        let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Job::parse(file).map(|job| job.to_file()).map_err(|e| e.to_string())
    }

    /// proves: S2-22, S2-23
    #[test]
    fn settings_have_bounds_and_defaults_that_are_not_written() {
        let plain = read(r#""function":"f","dataflow":{}"#).unwrap();
        assert_eq!(
            plain.dataflow,
            Some(Dataflow { interval: 300, threads: None, fetch: 1, streaming: false })
        );
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"name":"j","function":"f","dataflow":{}}"#);
        assert_eq!(read(r#""function":"f""#).unwrap().dataflow, None);
        for (field, why) in [
            (r#""threads":0"#, "dataflow.threads is 0, allowed are 1 to 1024"),
            (r#""threads":1025"#, "allowed are 1 to 1024"),
            (r#""fetch":0"#, "dataflow.fetch is 0"),
            (r#""fetch":1000001"#, "allowed are 1 to 1000000"),
            (r#""interval":"0s""#, "dataflow.interval is 0"),
            (r#""interval":60"#, "write \"60s\" for seconds"),
            (r#""interval":"5m","processCountIntervalSeconds":300"#, "are the same key"),
            (r#""interval":"24h1s""#, "allowed are 1 to 86400"),
            (r#""thread":1"#, "unknown field"),
        ] {
            let said = read(&format!(r#""function":"f","dataflow":{{{field}}}"#)).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        assert!(read(r#""command":["a"],"dataflow":{}"#).unwrap_err().contains("is for functions"));
    }

    /// proves: S2-24
    #[test]
    fn the_sources_own_names_are_read_and_ours_are_written() {
        let ours = r#""dataflow":{"interval":"1m","threads":4,"fetch":100,"streaming":true}"#;
        let job = read(&format!(r#""function":"f",{ours}"#)).unwrap();
        for streaming in ["streamingProcess", "streaming-process"] {
            let theirs = format!(
                r#""processCountIntervalSeconds":60,"concurrentDataProcessThreadCount":4,"fetchDataCount":100,"{streaming}":true"#
            );
            assert_eq!(read(&format!(r#""function":"f","dataflow":{{{theirs}}}"#)).unwrap(), job);
        }
        assert_eq!(serde_json::to_string(&job).unwrap(), format!(r#"{{"name":"j","function":"f",{ours}}}"#));
    }
}
