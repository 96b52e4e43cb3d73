//! Roles of principals: in a namespace or in all, and on all jobs there or on those with certain labels.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Role;
use crate::ids::{IdError, JobName, Namespace};
use crate::job::{JobLabels, JobSelector};

/// How a role names all namespaces where its labels follow.
const EVERYWHERE: &str = "*";

/// A role in one namespace, or in all of them and for the cluster as a whole.
///
/// Written `author:team-a`, or `author` for all. With a selector, `operator:team-a:team=billing+!legacy`, the role is one on
/// the jobs that the selector fits, and everything else there may be read: labels limit what may be changed, and not what may
/// be seen. `*` in place of the namespace stands for all.
///
/// A program that knows no selectors refuses the text, so that it does not take it for the role on all jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The namespace; `None` for all namespaces and the cluster as a whole.
    pub namespace: Option<Namespace>,
    /// The jobs on which it is this role; `None` for all. Only an operator and an author have one, and it has a condition.
    pub labels: Option<JobSelector>,
}

impl Grant {
    /// The role for what is no job, or no known one.
    fn role_beside_jobs(&self) -> Role {
        match &self.labels {
            Some(_) => Role::Viewer,
            None => self.role,
        }
    }

    /// The role on a job with these labels.
    fn role_on(&self, labels: &JobLabels) -> Role {
        match &self.labels {
            Some(selector) if selector.fits(labels) => self.role,
            _ => self.role_beside_jobs(),
        }
    }

    fn is_in(&self, namespace: &str) -> bool {
        self.namespace.as_ref().is_none_or(|granted| granted.as_str() == namespace)
    }

    /// Whether this role allows all that the other one allows.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let namespace = self.namespace.is_none() || self.namespace == other.namespace;
        let labels = match (&self.labels, &other.labels) {
            (None, _) => true,
            (Some(_), _) if other.role == Role::Viewer => true,
            (Some(own), Some(other)) => own.covers(other),
            (Some(_), None) => false,
        };
        namespace && self.role >= other.role && labels
    }

    /// The role that both allow, in the namespace and on the jobs that both are for; `None` if there is no such namespace.
    fn both(&self, other: &Self) -> Option<Self> {
        let namespace = match (&self.namespace, &other.namespace) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let role = self.role.min(other.role);
        let labels = match (&self.labels, &other.labels) {
            (Some(a), Some(b)) => Some(a.and(b)),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        Some(Self { role, namespace, labels: labels.filter(|_| role > Role::Viewer) })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.role.fmt(f)?;
        match &self.namespace {
            Some(namespace) => write!(f, ":{namespace}")?,
            None if self.labels.is_some() => write!(f, ":{EVERYWHERE}")?,
            None => {}
        }
        // A comma stands between roles.
        for (n, condition) in self.labels.iter().flat_map(JobSelector::iter).enumerate() {
            write!(f, "{}{condition}", if n == 0 { ":" } else { "+" })?;
        }
        Ok(())
    }
}

impl FromStr for Grant {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut parts = text.splitn(3, ':');
        let (role, namespace, labels) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let role = Role::ALL.into_iter().find(|known| known.as_str() == role).ok_or_else(|| {
            IdError::new(format!(
                "{text:?} is no role: write viewer, operator, author or admin, :NAMESPACE for one namespace only, and \
                 :NAMESPACE:LABELS for jobs with these labels only, as operator:team-a:team=billing"
            ))
        })?;
        let namespace = match namespace {
            Some(EVERYWHERE) if labels.is_some() => None,
            namespace => namespace.map(str::parse).transpose()?,
        };
        let labels = labels.map(|labels| selector(text, role, labels)).transpose()?;
        Ok(Self { role, namespace, labels })
    }
}

/// The selector of a role.
fn selector(grant: &str, role: Role, text: &str) -> Result<JobSelector, IdError> {
    if !matches!(role, Role::Operator | Role::Author) {
        return Err(IdError::new(format!(
            "{grant:?}: labels limit what an operator or an author may change, and a role {role} has none: leave them out"
        )));
    }
    if text.contains(',') {
        return Err(IdError::new(format!(
            "{grant:?}: a comma ends a role: write + between the conditions on labels, as team=billing+!legacy"
        )));
    }
    let selector: JobSelector = text.replace('+', ",").parse()?;
    if selector.is_empty() {
        return Err(IdError::new(format!(
            "{grant:?} has no condition on labels: write one, as team=billing, or leave out the last colon"
        )));
    }
    Ok(selector)
}

impl TryFrom<String> for Grant {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

/// The roles of a principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(pub Vec<Grant>);

impl Grants {
    /// The role of an administrator of everything.
    #[must_use]
    pub fn all() -> Self {
        Self([Grant { role: Role::Admin, namespace: None, labels: None }].into())
    }

    /// The highest role for all that is in a namespace; `None` if there is none. A role on jobs with certain labels is a
    /// viewer's.
    #[must_use]
    pub fn role_in(&self, namespace: &str) -> Option<Role> {
        self.in_namespace(namespace).map(Grant::role_beside_jobs).max()
    }

    /// The highest role on a job with these labels in a namespace.
    #[must_use]
    pub fn role_on(&self, namespace: &str, labels: &JobLabels) -> Option<Role> {
        self.in_namespace(namespace).map(|grant| grant.role_on(labels)).max()
    }

    /// The highest role on some job that may be in a namespace: that of a job with the right labels.
    #[must_use]
    pub fn role_on_some_job(&self, namespace: &str) -> Option<Role> {
        self.in_namespace(namespace).map(|grant| grant.role).max()
    }

    /// The highest role for the cluster as a whole.
    #[must_use]
    pub fn role_in_cluster(&self) -> Option<Role> {
        self.in_cluster().map(Grant::role_beside_jobs).max()
    }

    /// The highest role on some job that may be in any namespace.
    #[must_use]
    pub fn role_on_some_job_anywhere(&self) -> Option<Role> {
        self.in_cluster().map(|grant| grant.role).max()
    }

    /// Whether a role is one on jobs with certain labels.
    #[must_use]
    pub fn has_labels(&self) -> bool {
        self.0.iter().any(|grant| grant.labels.is_some())
    }

    /// The namespaces in which there is a role; `None` for all.
    #[must_use]
    pub fn namespaces(&self) -> Option<Vec<&str>> {
        self.0.iter().map(|grant| grant.namespace.as_ref().map(Namespace::as_str)).collect()
    }

    /// The roles that both allow: in each namespace, and on each job, the lower one.
    #[must_use]
    pub fn both(&self, other: &Self) -> Self {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |two| (one, two)));
        let mut grants: Vec<Grant> = pairs.filter_map(|(one, two)| one.both(two)).collect();
        grants.sort();
        grants.dedup();
        Self(grants)
    }

    fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Grant> {
        self.0.iter().filter(move |grant| grant.is_in(namespace))
    }

    fn in_cluster(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter().filter(|grant| grant.namespace.is_none())
    }
}

/// What a command demands of its caller on each job that it changes, where the labels of the job decide.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobRights {
    /// The roles of the caller.
    pub grants: Grants,
    /// The least role.
    pub role: Role,
}

impl JobRights {
    /// Checks the role on a job that exists.
    ///
    /// # Errors
    /// The caller lacks it on a job with these labels: the reason.
    pub fn check_present(&self, job: &JobName, labels: &JobLabels) -> Result<(), String> {
        self.check(job, labels, |labels| match labels.is_empty() {
            true => "which has no labels".to_string(),
            false => format!("which has {labels}"),
        })
    }

    /// Checks the role on a job as it would be declared.
    ///
    /// # Errors
    /// The caller lacks it on a job with these labels: the reason.
    pub fn check_declared(&self, job: &JobName, labels: &JobLabels) -> Result<(), String> {
        self.check(job, labels, |labels| match labels.is_empty() {
            true => "which would have no labels".to_string(),
            false => format!("which would have {labels}"),
        })
    }

    /// Checks the role on a job whose labels are not known: it does not exist, or no node of the cluster wrote its entry.
    ///
    /// # Errors
    /// The caller has it on jobs with certain labels only: the reason.
    pub fn check_unknown(&self, job: &JobName) -> Result<(), String> {
        match self.grants.role_in(job.namespace()) >= Some(self.role) {
            true => Ok(()),
            false => Err(self.lacking(job, "whose labels are not known")),
        }
    }

    fn check(
        &self,
        job: &JobName,
        labels: &JobLabels,
        said: impl FnOnce(&JobLabels) -> String,
    ) -> Result<(), String> {
        match self.grants.role_on(job.namespace(), labels) >= Some(self.role) {
            true => Ok(()),
            false => Err(self.lacking(job, &said(labels))),
        }
    }

    fn lacking(&self, job: &JobName, what: &str) -> String {
        let own: Vec<String> = self.grants.in_namespace(job.namespace()).map(ToString::to_string).collect();
        let own = if own.is_empty() { "no role".to_string() } else { own.join(", ") };
        format!("this takes the role {} on job {job}, {what}: you have {own}", self.role)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    fn grants(text: &str) -> Grants {
        Grants(text.split(' ').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect())
    }

    fn labels(text: &str) -> JobLabels {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        let pairs: BTreeMap<String, String> =
            pairs.map(|(word, value)| (word.into(), value.into())).collect();
        pairs.try_into().unwrap()
    }

    #[test]
    fn grants_are_read_back_as_written() {
        for text in [
            "viewer",
            "admin",
            "author:team-a",
            "operator:default",
            "operator:team-a:team=billing",
            "author:a:!legacy+team=billing|sales+tier",
            "operator:*:team=a:b/c",
        ] {
            let read = text.parse::<Grant>().unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(read.to_string().parse::<Grant>(), Ok(read), "{text}");
        }
        let canonical = "operator:a:tier=2|1+team=x+tier=1|2".parse::<Grant>().unwrap();
        assert_eq!(canonical.to_string(), "operator:a:team=x+tier=1|2", "one text for one meaning");
        for bad in [
            "",
            "king",
            "author:",
            "author:a/b",
            "Admin",
            ":a",
            "operator:a:",
            "operator:a:+",
            "operator::team=x",
            "operator:*",
            "operator:a:team=x,tier=1",
            "operator:a:team=",
            "viewer:a:team=x",
            "admin:a:team=x",
        ] {
            assert!(bad.parse::<Grant>().is_err(), "{bad}");
        }
    }

    /// A program that knows no selectors splits a role at the first colon, and takes what follows for a namespace.
    #[test]
    fn a_program_that_knows_no_selectors_refuses_one() {
        for text in ["operator:team-a:team=billing", "author:*:team=billing"] {
            let (_, namespace) = text.split_once(':').unwrap();
            assert!(namespace.parse::<Namespace>().is_err(), "{namespace}");
        }
    }

    #[test]
    fn the_highest_role_counts_in_its_namespace_only() {
        let of = grants("viewer author:a viewer:a operator:b");
        assert_eq!(of.role_in("a"), Some(Role::Author));
        assert_eq!(of.role_in("b"), Some(Role::Operator));
        assert_eq!(of.role_in("c"), Some(Role::Viewer));
        assert_eq!(of.role_in_cluster(), Some(Role::Viewer));
        assert_eq!(of.namespaces(), None);
        let narrow = grants("author:a admin:b");
        assert_eq!((narrow.role_in("c"), narrow.role_in_cluster()), (None, None));
        assert_eq!(narrow.namespaces(), Some(["a", "b"].into()));
        assert_eq!(grants("").namespaces(), Some([].into()));
        assert_eq!(Grants::all().role_in_cluster(), Some(Role::Admin));
    }

    #[test]
    fn labels_limit_what_is_changed_and_not_what_is_seen() {
        let of = grants("operator:a:team=billing author:a:team=billing+tier=2");
        let on = |text| of.role_on("a", &labels(text));
        assert_eq!(on("team=billing"), Some(Role::Operator));
        assert_eq!(on("team=billing,tier=2"), Some(Role::Author));
        assert_eq!(on("team=sales"), Some(Role::Viewer));
        assert_eq!(on(""), Some(Role::Viewer));
        assert_eq!((of.role_in("a"), of.role_on_some_job("a")), (Some(Role::Viewer), Some(Role::Author)));
        assert_eq!(of.role_on("b", &labels("team=billing")), None, "another namespace");
        assert_eq!((of.role_in_cluster(), of.role_on_some_job_anywhere()), (None, None));
        let all = grants("operator:*:!prod");
        assert_eq!((all.role_in("b"), all.role_in_cluster()), (Some(Role::Viewer), Some(Role::Viewer)));
        assert_eq!(all.role_on_some_job_anywhere(), Some(Role::Operator));
        assert_eq!(all.role_on("b", &labels("")), Some(Role::Operator));
        assert_eq!(all.role_on("b", &labels("prod=yes")), Some(Role::Viewer));
        let wide = grants("operator:a author:a:team=billing");
        assert_eq!(wide.role_on("a", &labels("")), Some(Role::Operator), "the other role is there, too");
    }

    #[test]
    fn a_role_includes_what_it_allows() {
        let includes =
            |one: &str, other: &str| one.parse::<Grant>().unwrap().includes(&other.parse().unwrap());
        for (one, other) in [
            ("author", "operator:a:team=x"),
            ("author:a", "author:a:team=x"),
            ("operator:a:team=x", "viewer:a"),
            ("operator:a:team=x", "operator:a:team=x+tier=1"),
            ("author:*:team=x", "operator:a:team=x"),
        ] {
            assert!(includes(one, other) && !includes(other, one), "{one} {other}");
        }
        for (one, other) in
            [("operator:a:team=x", "operator:a:team=y"), ("operator:a:team=x", "author:a:team=x+tier=1")]
        {
            assert!(!includes(one, other), "{one} {other}");
        }
        assert!(!includes("operator:a:team=x", "operator:a") && !includes("operator:a", "operator:b"));
    }

    #[test]
    fn two_principals_together_may_what_both_may() {
        let both = |one: &str, two: &str| {
            let both = grants(one).both(&grants(two));
            assert_eq!(both, grants(two).both(&grants(one)), "{one} {two}");
            both.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(both("admin", "viewer:a"), "viewer:a");
        assert_eq!(both("author:a operator:b", "viewer:b admin:c"), "viewer:b");
        assert_eq!(both("author:a", "author:b"), "");
        assert_eq!(both("operator", "author"), "operator");
        assert_eq!(both("", "admin"), "");
        // The parts of one side are alternatives, so the lower one takes nothing away.
        assert_eq!(grants("viewer author:a").both(&grants("admin:a")).role_in("a"), Some(Role::Author));
        assert_eq!(both("admin", "operator:a:team=x"), "operator:a:team=x");
        assert_eq!(both("author:a:team=x", "operator:*:tier=1"), "operator:a:team=x+tier=1");
        assert_eq!(both("author:a:team=x", "viewer:a"), "viewer:a");
        assert_eq!(both("author:a:team=x", "author:b"), "");
    }

    /// What both may on a job is the lower of what each may, whatever the labels.
    #[test]
    fn two_principals_together_may_on_a_job_what_both_may() {
        let all =
            ["viewer:a", "operator:a", "operator:a:t=x", "author:a:t=x+u=1", "author:*:!t", "admin:b", ""];
        let jobs = ["", "t=x", "t=y", "t=x,u=1", "u=1"].map(labels);
        for (one, two) in all.iter().flat_map(|one| all.iter().map(move |two| (grants(one), grants(two)))) {
            for (namespace, job) in ["a", "b"].iter().flat_map(|ns| jobs.iter().map(move |job| (*ns, job))) {
                let lower = one.role_on(namespace, job).min(two.role_on(namespace, job));
                assert_eq!(one.both(&two).role_on(namespace, job), lower, "{one:?} {two:?} {job}");
            }
        }
    }

    #[test]
    fn a_refusal_names_the_job_its_labels_and_the_roles_of_the_caller() {
        let rights = JobRights { grants: grants("operator:a:team=x viewer:b"), role: Role::Operator };
        let job = "a/j".parse().unwrap();
        assert_eq!(rights.check_present(&job, &labels("team=x")), Ok(()));
        let text = "this takes the role operator on job a/j, which has team=y: you have operator:a:team=x";
        assert_eq!(rights.check_present(&job, &labels("team=y")), Err(text.into()));
        assert!(rights.check_declared(&job, &labels("")).unwrap_err().contains("which would have no labels"));
        assert!(rights.check_unknown(&job).is_err());
        let wide = JobRights { grants: grants("operator:a"), ..rights };
        assert_eq!(wide.check_unknown(&job), Ok(()));
    }
}
