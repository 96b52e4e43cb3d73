//! What a run gets of its job's parameters, and which declarations and values are refused.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::parameters::{JobParameter, PARAMETERS_MAX, shortened, validate_name};
use super::run_parameters::RunParameters;
use super::{JobFile, JobParts};

impl JobParts {
    /// The parameters of a manual run that is given these values: each is checked, and what is not given has its default.
    ///
    /// # Errors
    /// A value is not allowed, none of the job's parameters has that name, or one without a default is not given. The text
    /// says the fix.
    pub fn run_parameters(&self, given: &RunParameters) -> Result<RunParameters, String> {
        for (name, value) in given.values() {
            let Some(declared) = self.parameters.get(name) else {
                return Err(match self.parameters.is_empty() {
                    true => format!(
                        "job {} has no parameters: leave {:?} out, or declare it under parameters of the job",
                        self.name,
                        shortened(name)
                    ),
                    false => format!(
                        "job {} has no parameter {:?}: it has {}",
                        self.name,
                        shortened(name),
                        self.parameters.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                    ),
                });
            };
            declared.check(value).map_err(|wrong| format!("parameter {name} is {wrong}"))?;
        }
        let missing =
            |(name, declared): &(&String, &JobParameter)| declared.is_required() && given.get(name).is_none();
        if let Some((name, declared)) = self.parameters.iter().find(missing) {
            let takes = declared.takes();
            return Err(format!(
                "job {} needs the parameter {name}, {takes}: give it, as `--param {name}=VALUE`",
                self.name
            ));
        }
        self.with_defaults(given).bounded()
    }

    /// These values, and the defaults of the parameters without one.
    #[must_use]
    pub fn with_defaults(&self, values: &RunParameters) -> RunParameters {
        let default =
            |(name, declared): (&String, &JobParameter)| Some((name.clone(), declared.default.clone()?));
        if self.parameters.is_empty() {
            return values.clone();
        }
        let mut all: BTreeMap<_, _> = self.parameters.iter().filter_map(default).collect();
        all.extend(values.values().map(|(name, value)| (name.clone(), value.clone())));
        RunParameters::of(all)
    }
}

impl JobFile {
    /// Refuses parameters that are invalid, that clash with a variable of the job, or that its fires could not have.
    pub(super) fn validate_parameters(&self) -> Result<(), String> {
        let count = self.parameters.len();
        if count > PARAMETERS_MAX {
            return Err(format!("parameters has {count}, allowed are at most {PARAMETERS_MAX}"));
        }
        for (name, declared) in &self.parameters {
            validate_name(name)?;
            declared.validate().map_err(|wrong| format!("parameters.{name}: {wrong}"))?;
            let others = [
                ("environment", self.environment.contains_key(name)),
                ("inherit", self.inherit.contains(name)),
                ("secrets", self.secrets.contains_key(name)),
                ("secret_files", self.secret_files.contains_key(name)),
            ];
            if let Some((other, _)) = others.into_iter().find(|(_, named)| *named) {
                return Err(format!("parameters and {other} both name {name}: once is enough"));
            }
            if declared.is_required() && !self.schedule.is_empty() {
                return Err(format!(
                    "parameters.{name} has no default, which a fire of the schedule needs: give it one, or leave schedule out"
                ));
            }
        }
        let named = self.http.iter().flat_map(|http| http.parameters());
        if let Some(name) = named.into_iter().find(|name| !self.parameters.contains_key(*name)) {
            return Err(format!("http names the parameter {name}, which is not declared under parameters"));
        }
        let default = |(name, it): (&String, &JobParameter)| Some((name.clone(), it.default.clone()?));
        let defaults = RunParameters::of(self.parameters.iter().filter_map(default).collect());
        defaults.bounded().map(drop).map_err(|wrong| format!("parameters: with their defaults {wrong}"))
    }
}

#[cfg(test)]
mod tests;
