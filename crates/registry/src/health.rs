//! The health report of an engine.

/// The answer to [`Registry::check_health`](crate::Registry::check_health).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// The version of the registry's server or library; `None` when it is unknown.
    pub version: Option<String>,
    /// The checks that passed, as name and value.
    pub checks: Vec<(&'static str, String)>,
    /// The problems.
    pub problems: Vec<HealthProblem>,
}

/// A problem and its fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthProblem {
    /// The check that found it.
    pub name: &'static str,
    /// The problem.
    pub detail: String,
    /// The fix.
    pub fix: String,
}

/// The numbers of a release, `3.9.4-rc1` being 3, 9 and 4; missing ones count as 0. `None` if there are none.
#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
pub(crate) fn release(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    Some([numbers.next()?, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)])
}

impl HealthReport {
    /// Adds a check that passed.
    pub fn add_check(&mut self, name: &'static str, value: impl Into<String>) {
        self.checks.push((name, value.into()));
    }

    /// Adds a problem.
    pub fn add_problem(&mut self, name: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(HealthProblem { name, detail: what.into(), fix: fix.into() });
    }
}

#[cfg(all(test, any(feature = "etcd", feature = "redis", feature = "zookeeper")))]
mod tests {
    use super::*;

    #[test]
    fn releases_are_understood_however_much_they_tell() {
        let told = ["3.9.4", "3.6.0-rc.1", "7", "3.10", "6.2.x", "", "unknown"].map(release);
        let known = [[3, 9, 4], [3, 6, 0], [7, 0, 0], [3, 10, 0], [6, 2, 0]].map(Some);
        assert_eq!(told[..5], known);
        assert_eq!(told[5..], [None; 2]);
    }
}
