//! Notification settings of a job: its events, its notifiers, and the limits that make a fire late or absent.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::http::check_address;
use crate::ids::NotifierName;
use crate::time::{Millis, SpanLimits, TimeSpan};

/// An event of a job's fires that people can be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A run failed or took too long, and no attempt follows.
    Failure,
    /// A run succeeded after the one before had failed or was lost.
    Recovery,
    /// A fire was skipped: too old, or excluded by its job's settings.
    Miss,
    /// A fire had not started when the job's limit was over.
    Late,
    /// A fire had no outcome when the job's limit was over.
    Absent,
    /// The outcome of a run is unknown.
    Lost,
}

impl Occasion {
    /// All events.
    pub const ALL: [Self; 6] =
        [Self::Failure, Self::Recovery, Self::Miss, Self::Late, Self::Absent, Self::Lost];

    /// The name in a job file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Recovery => "recovery",
            Self::Miss => "miss",
            Self::Late => "late",
            Self::Absent => "absent",
            Self::Lost => "lost",
        }
    }

    /// The kind of the event, as history, notifiers and `event list` write it.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Failure => "job.failure",
            Self::Recovery => "job.recovery",
            Self::Miss => "job.miss",
            Self::Late => "job.late",
            Self::Absent => "job.absent",
            Self::Lost => "job.lost",
        }
    }
}

/// The notification settings of a job, as declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// The events to notify of; no others are reported to any notifier. All events when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<Occasion>>,
    /// The notifiers to use, by their names in the nodes' settings; when empty those of each node that are configured
    /// for such events.
    #[serde(default, deserialize_with = "super::written::some", skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<NotifierName>,
    /// How long after its moment a fire that has not started is late, such as `5m`; never when empty.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub late_after: String,
    /// How long after its moment a fire without an outcome is absent, such as `2h`; never when empty.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub absent_after: String,
    /// The address of a monitor, which gets a GET request after each success; none when empty.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub heartbeat: String,
}

impl Notify {
    /// Whether it names an event; without names it covers all.
    #[must_use]
    pub fn names(&self, occasion: Occasion) -> bool {
        self.on.as_ref().is_none_or(|on| on.contains(&occasion))
    }

    /// After how long a fire is late, or absent; `None` for never, and for every other event.
    #[must_use]
    pub fn limit(&self, occasion: Occasion) -> Option<Millis> {
        let text = match occasion {
            Occasion::Late => &self.late_after,
            Occasion::Absent => &self.absent_after,
            Occasion::Failure | Occasion::Recovery | Occasion::Miss | Occasion::Lost => return None,
        };
        // It was checked when the job was declared.
        span("", text).ok().flatten()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Err(
                "notify is empty: write on, to, late_after, absent_after or heartbeat, or leave it out"
                    .into(),
            );
        }
        if !self.heartbeat.is_empty() {
            check_address("notify.heartbeat", &self.heartbeat)?;
            if self.heartbeat.contains("{{") {
                return Err("notify.heartbeat: nothing is filled in here".to_string());
            }
        }
        let late = span("notify.late_after", &self.late_after)?;
        let absent = span("notify.absent_after", &self.absent_after)?;
        if let Some((late, absent)) = late.zip(absent).filter(|(late, absent)| absent < late) {
            return Err(format!(
                "notify.absent_after is {absent}, which is less than late_after of {late}: what has not started has no \
                 outcome either"
            ));
        }
        let named = self.on.iter().flatten();
        for (occasion, limit, field) in
            [(Occasion::Late, late, "late_after"), (Occasion::Absent, absent, "absent_after")]
        {
            if limit.is_none() && named.clone().any(|on| *on == occasion) {
                let word = occasion.as_str();
                return Err(format!("notify.on has {word:?}: say after how long, such as {field} = \"5m\""));
            }
            if limit.is_some() && !self.names(occasion) {
                let word = occasion.as_str();
                return Err(format!(
                    "notify.{field} has no effect: add {word:?} to notify.on, or leave it out"
                ));
            }
        }
        if self.on.as_ref().is_some_and(Vec::is_empty) && !self.to.is_empty() {
            return Err("notify.on is empty, so nothing is notified: leave out notify.to".to_string());
        }
        Ok(())
    }
}

fn span(word: &str, text: &str) -> Result<Option<Millis>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let span = TimeSpan::parse(word, text, SpanLimits::SCHEDULE).map_err(|e| e.to_string())?;
    Ok(Some(span.millis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobFile};

    fn read(schedule: &str, notify: &str) -> Result<Notify, String> {
        let schedule =
            if schedule.is_empty() { String::new() } else { format!(r#""schedule":"{schedule}","#) };
        let text = format!(r#"{{"name":"j","function":"f",{schedule}"notify":{notify}}}"#);
        let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let job = Job::parse(file).map_err(|e| e.to_string())?;
        Ok(*job.to_file().notify.unwrap())
    }

    #[test]
    fn a_job_names_occasions_notifiers_and_limits() {
        let all = read("@daily", r#"{"to":["oncall"],"late_after":"5m","absent_after":"2h"}"#).unwrap();
        assert!(Occasion::ALL.iter().all(|occasion| all.names(*occasion)));
        assert_eq!(all.limit(Occasion::Late), Some(Millis::secs(300)));
        assert_eq!(all.limit(Occasion::Absent), Some(Millis::secs(7_200)));
        assert_eq!(all.limit(Occasion::Failure), None);
        let some = read("", r#"{"on":["failure","recovery"]}"#).unwrap();
        let named: Vec<_> = Occasion::ALL.into_iter().filter(|occasion| some.names(*occasion)).collect();
        assert_eq!(named, [Occasion::Failure, Occasion::Recovery]);
        let none = read("", r#"{"on":[]}"#).unwrap();
        assert!(!Occasion::ALL.iter().any(|occasion| none.names(*occasion)), "it is mute");
    }

    #[test]
    fn a_heartbeat_is_for_jobs_whose_fire_is_one_run() {
        let read = |more: &str| {
            let text = format!(
                r#"{{"name":"j","function":"f","schedule":"@daily","notify":{{"on":[],"heartbeat":"https://h/a"}}{more}}}"#
            );
            let file: JobFile = serde_json::from_str(&text).unwrap();
            Job::parse(file).map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(read(""), Ok(()));
        assert_eq!(read(r#","placement":"dispatched""#), Ok(()));
        for more in [r#","placement":"sharded","shards":2"#, r#","placement":"broadcast""#] {
            let refused = read(more).unwrap_err();
            assert!(refused.contains("notify.heartbeat is for jobs whose fire is one run"), "{refused}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_fix() {
        for (schedule, notify, says) in [
            ("@daily", r#"{"on":["late"]}"#, "say after how long, such as late_after"),
            ("@daily", r#"{"on":["failure"],"absent_after":"1h"}"#, "add \"absent\" to notify.on"),
            ("@daily", r#"{"late_after":"1h","absent_after":"5m"}"#, "less than late_after"),
            ("@daily", r#"{"late_after":"10ms"}"#, "notify.late_after"),
            ("@daily", r#"{"late_after":"soon"}"#, "notify.late_after"),
            ("", r#"{"late_after":"1h"}"#, "for jobs with a schedule"),
            ("", r#"{"on":[],"to":["x"]}"#, "leave out notify.to"),
            (
                "",
                "{}",
                "notify is empty: write on, to, late_after, absent_after or heartbeat, or leave it out",
            ),
            ("", r#"{"on":["failed"]}"#, "unknown variant `failed`"),
            ("", r#"{"to":["a b"]}"#, "notifier name"),
            ("", r#"{"heartbeat":"hc-ping.com/a-secret"}"#, "notify.heartbeat: write http://HOST/PATH"),
            ("", r#"{"heartbeat":"https://h/{{secret:a}}"}"#, "notify.heartbeat: nothing is filled in"),
            (
                "",
                r#"{"heartbeat":"https://u:a-secret@h/"}"#,
                "notify.heartbeat: it holds a user or a password",
            ),
        ] {
            let refused = read(schedule, notify).unwrap_err();
            assert!(refused.contains(says), "{notify}: {refused}");
            assert!(!refused.contains("a-secret"), "{refused}");
        }
    }
}
