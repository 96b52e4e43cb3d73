//! What an engine tells of itself to somebody who looks whether all is well.

/// The answer to [`Registry::examine`](crate::Registry::examine).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// The version of what keeps the registry; `None` when it does not say.
    pub version: Option<String>,
    /// What was looked at and is as it should be, as name and value.
    pub told: Vec<(&'static str, String)>,
    /// What is not as it should be.
    pub faults: Vec<Fault>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub name: &'static str,
    /// What.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

impl Examined {
    /// Takes down something good.
    pub fn tell(&mut self, name: &'static str, value: impl Into<String>) {
        self.told.push((name, value.into()));
    }

    /// Takes down something bad.
    pub fn fault(&mut self, name: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.faults.push(Fault { name, what: what.into(), fix: fix.into() });
    }
}
