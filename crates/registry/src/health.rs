//! What an engine tells of itself to somebody who looks whether all is well.

/// The answer to [`Registry::examine`](crate::Registry::examine).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// The version of what keeps the registry; `None` when it does not say.
    pub version: Option<String>,
    /// What was looked at and is as it should be, as name and value.
    pub checks: Vec<(&'static str, String)>,
    /// What is not as it should be.
    pub problems: Vec<HealthProblem>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthProblem {
    /// Where.
    pub name: &'static str,
    /// What.
    pub detail: String,
    /// What to do about it.
    pub fix: String,
}

/// The numbers of a release, `3.9.4-rc1` being 3, 9 and 4; what is left out counts as 0. `None` where there are none.
#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
pub(crate) fn release(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    Some([numbers.next()?, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)])
}

impl HealthReport {
    /// Takes down something good.
    pub fn add_check(&mut self, name: &'static str, value: impl Into<String>) {
        self.checks.push((name, value.into()));
    }

    /// Takes down something bad.
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
