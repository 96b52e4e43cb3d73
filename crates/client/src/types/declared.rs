//! References to the schemas of what users declare, which are made of the table of keys.

use evenkeel_core::job::PARAMETERS_MAX;
use schemars::{Schema, SchemaGenerator, json_schema};

/// The schema of a job.
pub fn job(_: &mut SchemaGenerator) -> Schema {
    reference("Job")
}

/// The schema of a list of jobs.
pub fn jobs(make: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": job(make) })
}

/// The schema of a list of calendars.
pub fn calendars(make: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": calendar(make) })
}

/// The schema of a calendar.
pub fn calendar(_: &mut SchemaGenerator) -> Schema {
    reference("Calendar")
}

/// The schema of the body that declares a namespace.
pub fn namespace_body(_: &mut SchemaGenerator) -> Schema {
    reference("NamespaceBody")
}

/// The schema of values of parameters.
pub fn parameters(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": PARAMETERS_MAX,
        "additionalProperties": { "type": ["string", "integer", "boolean"] },
    })
}

fn reference(name: &str) -> Schema {
    Schema::new_ref(format!("#/components/schemas/{name}"))
}
