//! What changed between two documents, as a JSON Merge Patch (RFC 7396).

use serde_json::{Map, Value};

/// The patch that makes `new` of `old`; `None` if they are equal. In a patch `null` removes a key, so neither document may have
/// an object with a key whose value is null: [`without_nulls`] makes such a document.
pub(super) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| {
        let patch = match old.get(key) {
            Some(old) => merge_patch(old, value)?,
            None => value.clone(),
        };
        Some((key.clone(), patch))
    });
    let patch: Map<String, Value> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The same document without the keys whose values are null. A patch replaces an array as a whole, so its items stay as they are.
pub(super) fn without_nulls(document: Value) -> Value {
    match document {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any JSON, with few different keys, so that two of them have much in common.
    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_new_document_of_the_old_one(old in json_value(), new in json_value()) {
            let (old, new) = (without_nulls(old), without_nulls(new));
            let mut patched = old.clone();
            match merge_patch(&old, &new) {
                Some(patch) => json_patch::merge(&mut patched, &patch),
                None => prop_assert_eq!(&old, &new),
            }
            prop_assert_eq!(patched, new);
        }
    }

    #[test]
    fn a_patch_has_only_what_changed() {
        let old = json!({ "jobs": { "a": { "next": 1, "owner": "n1" }, "b": {} }, "nodes": ["n1", "n2"] });
        let new = json!({ "jobs": { "a": { "next": 2, "owner": "n1" }, "c": {} }, "nodes": ["n1"] });
        let patch = json!({ "jobs": { "a": { "next": 2 }, "b": null, "c": {} }, "nodes": ["n1"] });
        assert_eq!(merge_patch(&old, &new), Some(patch));
        assert_eq!(merge_patch(&new, &new), None);
    }

    #[test]
    fn keys_without_a_value_are_left_out_and_items_of_arrays_are_not() {
        let document = json!({ "a": null, "b": { "c": null, "d": [null, { "e": null }] } });
        assert_eq!(without_nulls(document), json!({ "b": { "d": [null, { "e": null }] } }));
    }
}
