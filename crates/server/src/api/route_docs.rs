//! What the description of the API says of an address, beside its path and what it demands.

pub(crate) use evenkeel_client::operations::SchemaOf;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// What the description of the API says of an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteDocs {
    /// What a request does, in a sentence without a full stop.
    pub(crate) summary: &'static str,
    /// The query keys that it takes.
    pub(crate) query: Option<SchemaOf>,
    /// Its body, and whether it must have one.
    pub(crate) body: Option<(SchemaOf, bool)>,
    /// What a success answers.
    pub(crate) answer: AnswerDocs,
}

/// The content of a success.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerDocs {
    /// JSON.
    Json(SchemaOf),
    /// Text of this media type.
    Text(&'static str),
}

/// The documentation of an address, of which the further functions say more. It answers with an object.
pub(crate) const fn does(summary: &'static str) -> RouteDocs {
    RouteDocs { summary, query: None, body: None, answer: AnswerDocs::Json(schema_of::<serde_json::Value>) }
}

impl RouteDocs {
    /// The query keys that it takes, in order.
    pub(crate) fn query_keys(&self) -> Vec<String> {
        let Some(query) = self.query else { return Vec::new() };
        let schema = query(&mut SchemaGenerator::default());
        let keys = schema.get("properties").and_then(serde_json::Value::as_object);
        keys.map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
    }

    /// It takes the fields of this type as query keys.
    pub(crate) const fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    /// Its body is of this type.
    pub(crate) const fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some((schema_of::<T>, true)), ..self }
    }

    /// Its body is of this type, and may be empty.
    pub(crate) const fn may_have<T: JsonSchema>(self) -> Self {
        Self { body: Some((schema_of::<T>, false)), ..self }
    }

    /// Its body has this schema, and may be empty.
    pub(crate) const fn may_have_as(self, schema: SchemaOf) -> Self {
        Self { body: Some((schema, false)), ..self }
    }

    /// Its body has this schema.
    pub(crate) const fn body_as(self, schema: SchemaOf) -> Self {
        Self { body: Some((schema, true)), ..self }
    }

    /// A success answers with this type.
    pub(crate) const fn answers<T: JsonSchema>(self) -> Self {
        Self { answer: AnswerDocs::Json(schema_of::<T>), ..self }
    }

    /// A success answers with one of these types.
    pub(crate) const fn answers_either<A: JsonSchema, B: JsonSchema>(self) -> Self {
        Self { answer: AnswerDocs::Json(either::<A, B>), ..self }
    }

    /// A success answers with text of this media type.
    pub(crate) const fn text(self, kind: &'static str) -> Self {
        Self { answer: AnswerDocs::Text(kind), ..self }
    }
}

fn either<A: JsonSchema, B: JsonSchema>(make: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "anyOf": [make.subschema_for::<A>(), make.subschema_for::<B>()] })
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
