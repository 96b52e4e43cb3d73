//! What was declared of a job in which part of a span of time, from its versions and the switches of operators.

use evenkeel::{Job, JobChange, JobFile, JobVersion};
use evenkeel_core::ids::Namespace;
use evenkeel_core::job::Spec;
use evenkeel_core::time::Wall;

/// A change of a job.
#[derive(Clone, Debug)]
pub(super) enum JobTransition {
    /// It was declared, for the first time or anew.
    Declared(Box<Job>),
    /// It was declared in a way that this program cannot read.
    Unreadable,
    /// It was deleted.
    Deleted,
    /// It was not declared yet.
    Absent,
    /// It was paused or resumed.
    Paused(bool),
    /// It was enabled or disabled by an operator.
    Enabled(bool),
}

/// A part of the span in which nothing changed: after one moment, until another.
#[derive(Clone, Debug)]
pub(super) struct DeclaredSegment {
    pub(super) after: Wall,
    pub(super) until: Wall,
    /// What was declared; `None` if there was no such job, or that is not known.
    pub(super) job: Option<Box<Job>>,
    /// Why no fire is expected; `None` if the fires of the schedule are.
    pub(super) idle: Option<String>,
}

/// What holds of the job at one moment.
struct DeclaredState {
    job: Option<Box<Job>>,
    /// Why there is no declaration.
    absent: String,
    paused: bool,
    /// What an operator switched.
    enabled: Option<bool>,
}

/// The changes that the versions of a job are, the earliest first.
pub(super) fn of_versions(mut versions: Vec<JobVersion>) -> Vec<(Wall, JobTransition)> {
    versions.sort_by_key(|version| (version.version, version.asker.is_none()));
    versions.dedup_by_key(|version| version.version);
    let mut changes: Vec<(Wall, JobTransition)> = Vec::new();
    for version in versions {
        // A version that was found has the moment at which it was replaced: it was in force before.
        let at = match version.change {
            JobChange::Found => changes.last().map_or(Wall::MIN, |(at, _)| *at),
            // Of the versions before the oldest that is kept nothing is known.
            _ => version.at,
        };
        if version.change == JobChange::Created && changes.is_empty() {
            changes.push((Wall::MIN, JobTransition::Absent));
        }
        let change = match &version.declared {
            None => JobTransition::Deleted,
            Some(text) => read(text, version.job.namespace())
                .map_or(JobTransition::Unreadable, |job| JobTransition::Declared(Box::new(job))),
        };
        changes.push((at, change));
    }
    changes
}

/// Reads a declaration of the history.
fn read(text: &str, namespace: &str) -> Option<Job> {
    let mut file: JobFile = serde_json::from_str(text).ok()?;
    let namespace: Namespace = namespace.parse().ok()?;
    file.move_into(Some(&namespace)).ok()?;
    Job::parse(file).ok()
}

/// The parts of a span, in order. Without changes, the present declaration held all the time.
pub(super) fn segments(
    mut changes: Vec<(Wall, JobTransition)>,
    spec: &Spec,
    (since, until): (Wall, Wall),
) -> Vec<DeclaredSegment> {
    let after = Wall(since.0.saturating_sub(1));
    let last = Wall(until.0.saturating_sub(1));
    changes.sort_by_key(|(at, _)| *at);
    let mut state = DeclaredState::before(&changes, spec, after);
    let mut segments = Vec::new();
    let mut begin = after;
    for (at, change) in changes {
        if at > begin && at <= last {
            segments.push(state.segment(begin, at));
            begin = at;
        }
        if at > after {
            state.apply(change, at);
        }
    }
    segments.push(state.segment(begin, last));
    segments
}

impl DeclaredState {
    /// What holds at a moment, from the changes before it and from the first change of each switch after it.
    fn before(changes: &[(Wall, JobTransition)], spec: &Spec, moment: Wall) -> Self {
        let later = || changes.iter().filter(|(at, _)| *at > moment).map(|(_, change)| change);
        let same_job = || later().take_while(|change| !matches!(change, JobTransition::Deleted));
        // Where the job was deleted later, its present switches say nothing of the one before.
        let is_same = same_job().count() == later().count();
        let paused = same_job().find_map(|change| match change {
            JobTransition::Paused(on) => Some(!on),
            _ => None,
        });
        let enabled = same_job().find_map(|change| match change {
            JobTransition::Enabled(on) => Some(!on),
            _ => None,
        });
        let present = spec.operator.enabled.as_ref().filter(|_| is_same).map(|_| spec.job.enabled);
        let mut state = Self {
            job: None,
            absent: String::new(),
            paused: paused.unwrap_or(spec.paused && is_same),
            enabled: enabled.or(present),
        };
        let is_switch =
            |change: &JobTransition| matches!(change, JobTransition::Paused(_) | JobTransition::Enabled(_));
        let known: Vec<_> = changes.iter().filter(|(_, change)| !is_switch(change)).collect();
        match known.iter().rev().find(|(at, _)| *at <= moment) {
            Some((at, change)) => {
                let (paused, enabled) = (state.paused, state.enabled);
                state.apply(change.clone(), *at);
                (state.paused, state.enabled) = (paused, enabled);
            }
            None => match known.first() {
                Some((at, _)) => state.absent = format!("what was declared before {at} is not known"),
                None => state.job = Some(Box::new(spec.declared())),
            },
        }
        state
    }

    fn apply(&mut self, change: JobTransition, at: Wall) {
        match change {
            JobTransition::Declared(job) => {
                // An operator's switch stays, unless the declaration changes that field.
                if self.job.as_ref().is_none_or(|before| before.enabled != job.enabled) {
                    self.enabled = None;
                }
                self.job = Some(job);
            }
            JobTransition::Unreadable => {
                (self.job, self.absent) =
                    (None, format!("what was declared at {at} makes no sense to this program"));
            }
            JobTransition::Absent => {
                (self.job, self.absent) = (None, "the job did not exist yet".to_owned());
            }
            JobTransition::Deleted => {
                (self.job, self.absent) = (None, format!("the job was deleted at {at}"));
                (self.paused, self.enabled) = (false, None);
            }
            JobTransition::Paused(on) => self.paused = on,
            JobTransition::Enabled(on) => self.enabled = Some(on),
        }
    }

    fn segment(&self, after: Wall, until: Wall) -> DeclaredSegment {
        let idle = match &self.job {
            None => Some(self.absent.clone()),
            Some(job) if !self.enabled.unwrap_or(job.enabled) => Some("the job was disabled".to_owned()),
            Some(_) if self.paused => Some("the job was paused".to_owned()),
            Some(_) => None,
        };
        DeclaredSegment { after, until, job: self.job.clone(), idle }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::Work;

    use super::*;

    fn job(schedule: &str, enabled: bool) -> Box<Job> {
        let mut file = JobFile::new("j".parse().expect("a name"), schedule, Work::Function("f".into()));
        file.enabled = enabled;
        Box::new(Job::parse(file).expect("a job"))
    }

    /// The segments as text: their ends, the rules, and whether fires are expected.
    fn shown(changes: Vec<(Wall, JobTransition)>, spec: &Spec) -> Vec<String> {
        let one = |segment: &DeclaredSegment| {
            let rules = segment.job.as_ref().map_or("-", |job| job.rules());
            let idle = segment.idle.as_deref().unwrap_or("expected");
            format!("{}..{} {rules}: {idle}", segment.after.0, segment.until.0)
        };
        segments(changes, spec, (Wall(100), Wall(200))).iter().map(one).collect()
    }

    #[test]
    fn a_span_falls_into_parts_where_the_job_changed() {
        let spec = Spec::new(*job("@every 5s", true), 9, Wall(150));
        let declared = |rules, enabled| JobTransition::Declared(job(rules, enabled));
        assert_eq!(shown(Vec::new(), &spec), ["99..199 @every 5s: expected"]);
        let edited = vec![(Wall(7), declared("@every 1s", true)), (Wall(150), declared("@every 5s", true))];
        assert_eq!(shown(edited, &spec), ["99..150 @every 1s: expected", "150..199 @every 5s: expected"]);
        let created = vec![(Wall::MIN, JobTransition::Absent), (Wall(120), declared("@every 5s", true))];
        assert_eq!(
            shown(created.clone(), &spec),
            ["99..120 -: the job did not exist yet", "120..199 @every 5s: expected"]
        );
        assert!(shown(created[1..].to_vec(), &spec)[0].contains("is not known"), "earlier versions are gone");
        let resumed = vec![(Wall(7), declared("@every 5s", true)), (Wall(130), JobTransition::Paused(false))];
        assert_eq!(
            shown(resumed, &spec),
            ["99..130 @every 5s: the job was paused", "130..199 @every 5s: expected"]
        );
        let deleted = vec![
            (Wall(7), declared("@every 5s", true)),
            (Wall(110), JobTransition::Deleted),
            (Wall(150), declared("@every 5s", false)),
            (Wall(160), JobTransition::Enabled(true)),
        ];
        let parts = shown(deleted, &spec);
        assert!(parts[0].ends_with("expected") && parts[1].contains("deleted at"), "{parts:?}");
        assert!(parts[2].ends_with("disabled") && parts[3].ends_with("expected"), "{parts:?}");
    }

    #[test]
    fn a_version_that_was_found_held_before_the_one_that_replaced_it() {
        let version = |number: u64, at: i64, change, rules: &str| JobVersion {
            job: "j".parse().expect("a name"),
            version: number,
            at: Wall(at),
            node: "a".into(),
            asker: None,
            change,
            restored: None,
            declared: Some(serde_json::to_string(&job(rules, true)).expect("JSON")),
        };
        let versions = vec![
            version(2, 150, JobChange::Changed, "@every 5s"),
            version(1, 150, JobChange::Found, "@every 1s"),
        ];
        let spec = Spec::new(*job("@every 5s", true), 2, Wall(150));
        assert_eq!(
            shown(of_versions(versions), &spec),
            ["99..150 @every 1s: expected", "150..199 @every 5s: expected"]
        );
    }
}
