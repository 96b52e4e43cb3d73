//! References to the schemas of what users declare, which are made of the table of keys.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The schema of a job.
pub(crate) fn job(_: &mut SchemaGenerator) -> Schema {
    reference("Job")
}

/// The schema of a list of jobs.
pub(crate) fn jobs(make: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": job(make) })
}

/// The schema of a list of calendars.
pub(crate) fn calendars(make: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": calendar(make) })
}

/// The schema of a calendar.
pub(crate) fn calendar(_: &mut SchemaGenerator) -> Schema {
    reference("Calendar")
}

/// The schema of the body that declares a namespace.
pub(crate) fn namespace_body(_: &mut SchemaGenerator) -> Schema {
    reference("NamespaceBody")
}

fn reference(name: &str) -> Schema {
    Schema::new_ref(format!("#/components/schemas/{name}"))
}
