//! The names of the variables that a job gives its command.

use alloc::format;
use alloc::string::String;

use crate::characters::refuse_hidden;

/// The prefix of the reserved variable names.
const OWN: &str = "EVENKEEL_";

/// Refuses what is no name of a variable that a job may give in this field.
pub(super) fn validate_variable(field: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(format!(
            "{field} names {name:?}: a variable's name is not empty and holds no = and no NUL"
        ));
    }
    refuse_hidden(field, name)?;
    if name.starts_with(OWN) {
        return Err(format!(
            "{field} names {name}: variables that begin with {OWN} are set for every run and never the node's own"
        ));
    }
    Ok(())
}
