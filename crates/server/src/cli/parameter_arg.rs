//! Parameters of a manual run on the command line: `--param day=2026-01-31`.

use std::collections::BTreeMap;
use std::str::FromStr;

use evenkeel_core::job::RunParameters;

use crate::exit::{CliError, ExitKind};

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterArg {
    name: String,
    value: String,
}

impl FromStr for ParameterArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self { name: name.into(), value: value.into() }),
            _ => Err("write the parameter's name, = and its value, as day=2026-01-31".into()),
        }
    }
}

impl ParameterArg {
    /// The parameters as a request has them.
    ///
    /// # Errors
    /// A parameter is given twice.
    pub(crate) fn parameters(all: &[Self]) -> Result<RunParameters, CliError> {
        let mut parameters = BTreeMap::new();
        for Self { name, value } in all {
            if parameters.insert(name.clone(), value.clone()).is_some() {
                let text = format!("the parameter {name} is given twice: leave one out");
                return Err(CliError::new(ExitKind::Usage, text));
            }
        }
        Ok(parameters.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_empty_or_hold_the_sign_and_a_name_is_given_once() {
        let all = ["a=", "b=x=y", "c= z"].map(|text| text.parse().expect("a parameter"));
        let parameters = ParameterArg::parameters(&all).expect("each once");
        assert_eq!(serde_json::json!(parameters), serde_json::json!({ "a": "", "b": "x=y", "c": " z" }));
        for wrong in ["a", "=x", ""] {
            wrong.parse::<ParameterArg>().expect_err(wrong);
        }
        let twice = ["a=1", "a=2"].map(|text| text.parse().expect("a parameter"));
        assert!(ParameterArg::parameters(&twice).is_err());
    }
}
