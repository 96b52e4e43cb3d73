//! Fields of a job that may be written in more than one way.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::Deserializer;
use serde::de::{self, SeqAccess, Visitor};

use super::SHARDS_MAX;

/// Rules of a schedule: a text, or a list of texts, which is kept as one text with a line for each.
pub(super) mod rules {
    use super::{SeqAccess, String, Visitor, de, fmt};
    use serde::{Deserializer, Serializer};

    /// Far more rules than are allowed, so that it is the schedule that says how many are.
    const READ: usize = 1_000;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = String;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a schedule, or a list of schedules")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(text.into())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let rules = core::iter::from_fn(|| list.next_element::<String>().transpose()).take(READ);
                let rules = rules.collect::<Result<alloc::vec::Vec<_>, _>>()?;
                Ok(rules.join("\n"))
            }
        }
        input.deserialize_any(Written)
    }

    pub(crate) fn serialize<S: Serializer>(text: &str, output: S) -> Result<S::Ok, S::Error> {
        match text.contains('\n') {
            true => output.collect_seq(text.split('\n')),
            false => output.serialize_str(text),
        }
    }
}

/// Parameters as a list, or as `0=a,1=b`.
pub(super) fn parameters<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    struct Written;
    impl<'de> Visitor<'de> for Written {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of texts, or a text as 0=north,1=south")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            parse_parameters(text).map_err(E::custom)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            core::iter::from_fn(|| list.next_element().transpose()).take(SHARDS_MAX as usize + 1).collect()
        }
    }
    input.deserialize_any(Written)
}

/// Reads `0=a,1=b` (S2-18).
fn parse_parameters(text: &str) -> Result<Vec<String>, String> {
    let mut list: Vec<Option<String>> = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let bad = || format!("parameters: {pair:?} is not shard=parameter, as in 0=north,1=south");
        let (shard, parameter) = pair.split_once('=').ok_or_else(bad)?;
        let at: usize = shard.trim().parse().map_err(|_| bad())?;
        if at >= SHARDS_MAX as usize || parameter.contains('=') {
            return Err(bad());
        }
        if list.len() <= at {
            list.resize(at + 1, None);
        }
        if list[at].replace(parameter.trim().to_string()).is_some() {
            return Err(format!("parameters: shard {at} is named twice"));
        }
    }
    Ok(list.into_iter().map(Option::unwrap_or_default).collect())
}
