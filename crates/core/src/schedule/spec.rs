//! What an operator writes of when a job is due.

use super::zone::Dst;

/// The timing fields of a job, as written; an empty field is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScheduleSpec<'a> {
    /// Its rules, one a line.
    pub text: &'a str,
    /// The IANA time zone in which all of this is read; UTC when empty.
    pub timezone: &'a str,
    /// The job's name, on which `H` and the jitter depend.
    pub name: &'a str,
    /// What clock changes do; when absent each rule's own default.
    pub dst: Option<Dst>,
    /// The first moment at which it may be due.
    pub start_at: &'a str,
    /// The moment from which on it is not due any more.
    pub end_at: &'a str,
    /// How far each fire may be moved, such as `5m`.
    pub jitter: &'a str,
}
