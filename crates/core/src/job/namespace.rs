//! The namespace of a declaration: what the names in it mean.

use alloc::format;
use alloc::string::String;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{JobError, JobFile};
use crate::ids::{DEFAULT_NAMESPACE, Namespace, Namespaced, WrittenName};

impl Serialize for JobFile {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        // The derived function, which is no method of the trait.
        Self::serialize(self, output)
    }
}

impl<'de> Deserialize<'de> for JobFile {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut file = Self::deserialize(input)?;
        let moved = file.name.move_into(file.namespace.take().as_ref(), None);
        moved.map_err(D::Error::custom)?;
        Ok(file)
    }
}

impl JobFile {
    /// Moves a declaration whose name is written alone into its own namespace, else into this one.
    ///
    /// # Errors
    /// `namespace` and `name` contradict each other, or the name is too long with the namespace before it.
    pub fn move_into(&mut self, namespace: Option<&Namespace>) -> Result<(), JobError> {
        let moved = self.name.move_into(self.namespace.as_ref(), namespace);
        self.namespace = None;
        moved.map_err(|e| JobError::new(format!("job {}: {e}", self.name)))
    }

    /// Writes every name as the registry keeps it, after which the names mean the same wherever they are read.
    ///
    /// # Errors
    /// As [`JobFile::move_into`], or the job names a calendar or a pool of a third namespace.
    pub(super) fn resolve(&mut self) -> Result<(), String> {
        self.name.move_into(self.namespace.take().as_ref(), None).map_err(|e| format!("{e}"))?;
        self.name = WrittenName::read_in(DEFAULT_NAMESPACE, self.name.name().clone());
        let namespace = self.name.name().namespace();
        let mut calendars = self.exclude_calendars.iter_mut().chain(&mut self.require_calendars);
        calendars.try_for_each(|name| resolve_reference("calendar", name, namespace))?;
        self.pool.iter_mut().try_for_each(|pool| resolve_reference("pool", &mut pool.name, namespace))
    }
}

/// A job sees what its own namespace has, and what `default` has for all.
fn resolve_reference<N: Namespaced>(
    what: &str,
    written: &mut WrittenName<N>,
    namespace: &str,
) -> Result<(), String> {
    let name = written.resolve(namespace).map_err(|e| format!("{e}"))?;
    let of = name.namespace();
    if of != namespace && of != DEFAULT_NAMESPACE {
        let own = if namespace == DEFAULT_NAMESPACE { "" } else { " or of its own namespace" };
        return Err(format!(
            "it names the {what} {written} of another namespace: a job in {namespace} can use a {what} of \
             {DEFAULT_NAMESPACE}{own}"
        ));
    }
    *written = WrittenName::read_in(namespace, name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::job::Job;

    fn parse(text: &str) -> Result<Job, String> {
        let file: JobFile = serde_json::from_str(text).map_err(|e| e.to_string())?;
        Job::parse(file).map_err(|e| e.to_string())
    }

    const REST: &str = r#""function":"f","schedule":"@daily""#;

    #[test]
    fn a_namespace_is_a_key_or_a_part_of_the_name() {
        let name = |fields: &str| parse(&format!("{{{fields},{REST}}}")).map(|job| job.name.to_string());
        assert_eq!(name(r#""name":"j""#).unwrap(), "j");
        assert_eq!(name(r#""name":"j","namespace":"a""#).unwrap(), "a/j");
        assert_eq!(name(r#""name":"a/j","namespace":"a""#).unwrap(), "a/j");
        assert_eq!(name(r#""name":"a/j""#).unwrap(), "a/j");
        assert_eq!(name(r#""name":"j","namespace":"default""#).unwrap(), "j");
        assert_eq!(name(r#""name":"default/j","namespace":"default""#).unwrap(), "j");
        for both in [r#""name":"a/j","namespace":"b""#, r#""name":"default/j","namespace":"a""#] {
            let error = name(both).unwrap_err();
            assert!(error.contains("leave one of them out"), "{error}");
        }
        let long = "x".repeat(128);
        let error = name(&format!(r#""name":"{long}","namespace":"a""#)).unwrap_err();
        assert!(error.contains("130 bytes with its namespace"), "{error}");
    }

    #[test]
    fn what_a_job_names_is_in_its_own_namespace_or_in_default() {
        let named = |name: &str, calendar: &str, pool: &str| {
            parse(&format!(
                r#"{{"name":"{name}","exclude_calendars":["{calendar}"],"pool":{{"name":"{pool}","limit":1}},{REST}}}"#
            ))
            .map(|job| {
                let calendars = job.calendars().map(ToString::to_string).collect::<alloc::vec::Vec<_>>();
                (calendars.concat(), job.pool.as_ref().unwrap().name.to_string())
            })
        };
        let of = |calendar: &str, pool: &str| Ok((calendar.to_string(), pool.to_string()));
        assert_eq!(named("a/j", "c", "p"), of("a/c", "a/p"));
        assert_eq!(named("a/j", "default/c", "a/p"), of("c", "a/p"));
        assert_eq!(named("j", "c", "default/p"), of("c", "p"));
        for (name, calendar, pool) in [("a/j", "b/c", "p"), ("a/j", "c", "b/p"), ("j", "a/c", "p")] {
            let error = named(name, calendar, pool).unwrap_err();
            assert!(error.contains("of another namespace"), "{error}");
        }
        let twice =
            format!(r#"{{"name":"a/j","exclude_calendars":["c"],"require_calendars":["a/c"],{REST}}}"#);
        assert!(
            parse(&twice).unwrap_err().contains("the calendar a/c twice"),
            "one calendar in two spellings"
        );
    }

    #[test]
    fn what_is_kept_means_the_same_when_it_is_read_again() {
        for (name, calendars) in [("j", ["c", "d"]), ("a/j", ["c", "default/d"])] {
            let job = parse(&format!(
                r#"{{"name":"{name}","exclude_calendars":{calendars:?},"pool":{{"name":"p","limit":2}},{REST}}}"#
            ))
            .unwrap();
            let kept = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&kept).unwrap(), job, "{kept}");
            assert_eq!(parse(&kept).unwrap(), job, "{kept}");
            assert!(!kept.contains("\"namespace\""), "{kept}");
        }
        let kept =
            parse(&format!(r#"{{"name":"a/j","exclude_calendars":["c","default/d"],{REST}}}"#)).unwrap();
        let kept = serde_json::to_string(&kept).unwrap();
        assert!(kept.contains(r#""exclude_calendars":["a/c","default/d"]"#), "{kept}");
        let kept = parse(&format!(r#"{{"name":"j","exclude_calendars":["c"],{REST}}}"#)).unwrap();
        assert!(serde_json::to_string(&kept).unwrap().contains(r#""exclude_calendars":["c"]"#));
    }
}
