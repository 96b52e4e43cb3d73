//! Deserializers for fields of a job that may be written in more than one way.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::shards::SHARDS_MAX;
use crate::time::TimeSpan;

/// Rules of a schedule: a text, or a list of texts, which is kept as one text with a line for each.
pub(super) mod rules {
    use super::{SeqAccess, String, Visitor, de, fmt};
    use serde::{Deserializer, Serializer};

    /// Far more rules than are allowed, so that it is the schedule that says how many are.
    const READ: usize = 1_000;
    const EMPTY: &str = "is empty: write when the job is due, as \"0 5 * * *\", or leave the key out for a job with manual runs only";

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
        struct ScheduleVisitor;
        impl<'de> Visitor<'de> for ScheduleVisitor {
            type Value = String;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a schedule, or a list of schedules")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match text.trim().is_empty() {
                    true => Err(E::custom(EMPTY)),
                    false => Ok(text.into()),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let rules = core::iter::from_fn(|| list.next_element::<String>().transpose()).take(READ);
                let rules = rules.collect::<Result<alloc::vec::Vec<_>, _>>()?;
                match rules.is_empty() || rules.iter().any(|rule| rule.trim().is_empty()) {
                    true => Err(de::Error::custom(EMPTY)),
                    false => Ok(rules.join("\n")),
                }
            }
        }
        input.deserialize_any(ScheduleVisitor)
    }

    pub(crate) fn serialize<S: Serializer>(text: &str, output: S) -> Result<S::Ok, S::Error> {
        match text.contains('\n') {
            true => output.collect_seq(text.split('\n')),
            false => output.serialize_str(text),
        }
    }
}

/// A text. Where the key is written it must say something: an empty text would silently mean the default.
pub(super) fn filled<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let text = String::deserialize(input)?;
    match text.trim().is_empty() {
        true => Err(D::Error::custom("is empty: write a value, or leave the key out")),
        false => Ok(text),
    }
}

/// A list. Where the key is written the list must hold something, for the same reason.
pub(super) fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(input)?;
    match list.is_empty() {
        true => Err(D::Error::custom("is an empty list: write what it holds, or leave the key out")),
        false => Ok(list),
    }
}

/// A duration of whole seconds, written as a text such as `90s`.
pub(super) mod span {
    use super::{Deserialize, Deserializer, TimeSpan};
    use serde::Serializer;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
        TimeSpan::deserialize(input).map(TimeSpan::as_secs)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn serialize<S: Serializer>(secs: &u64, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(&TimeSpan::secs(*secs))
    }
}

/// The same where the key may be absent.
pub(super) mod span_or_none {
    use super::{Deserialize, Deserializer, TimeSpan};
    use serde::Serializer;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<TimeSpan>::deserialize(input)?.map(TimeSpan::as_secs))
    }

    #[expect(clippy::ref_option, reason = "serde passes a reference")]
    pub(crate) fn serialize<S: Serializer>(secs: &Option<u64>, output: S) -> Result<S::Ok, S::Error> {
        match secs {
            Some(secs) => output.collect_str(&TimeSpan::secs(*secs)),
            None => output.serialize_none(),
        }
    }
}

/// A table by the name of its keys, and no list of their values in some order.
pub(super) fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    struct TableVisitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    input.deserialize_map(TableVisitor(PhantomData))
}

/// The same where the key may be absent.
pub(super) fn table_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<Option<T>, D::Error> {
    struct OptionalTable<T>(T);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for OptionalTable<T> {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            table(input).map(Self)
        }
    }
    Ok(Option::<OptionalTable<T>>::deserialize(input)?.map(|table| table.0))
}

/// A table of names and values, each name once: of two values one would silently be lost.
pub(super) fn entries<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    struct EntriesVisitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
        type Value = BTreeMap<String, T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some(name) = map.next_key::<String>()? {
                if entries.contains_key(&name) {
                    return Err(A::Error::custom(format_args!("names {name:?} twice: leave one out")));
                }
                entries.insert(name, map.next_value()?);
            }
            Ok(entries)
        }
    }
    input.deserialize_map(EntriesVisitor(PhantomData))
}

/// Parameters as a list, or as `0=a,1=b`.
pub(super) fn parameters<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    struct ParametersVisitor;
    impl<'de> Visitor<'de> for ParametersVisitor {
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
    input.deserialize_any(ParametersVisitor)
}

/// Parses `0=a,1=b` (S2-18).
fn parse_parameters(text: &str) -> Result<Vec<String>, String> {
    let mut list: Vec<Option<String>> = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let bad = || format!("shard_parameters: {pair:?} is not shard=parameter, as in 0=north,1=south");
        let (shard, parameter) = pair.split_once('=').ok_or_else(bad)?;
        let at: usize = shard.trim().parse().map_err(|_| bad())?;
        if at >= SHARDS_MAX as usize || parameter.contains('=') {
            return Err(bad());
        }
        if list.len() <= at {
            list.resize(at + 1, None);
        }
        if list[at].replace(parameter.trim().to_string()).is_some() {
            return Err(format!("shard_parameters: shard {at} is named twice"));
        }
    }
    Ok(list.into_iter().map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use crate::job::{Job, JobFile};

    fn read(fields: &str) -> Result<JobFile, String> {
        let text = format!(r#"{{"name":"j","function":"f",{fields}}}"#);
        let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Job::parse(file).map(|job| job.to_file()).map_err(|e| e.to_string())
    }

    #[test]
    fn every_span_is_a_text() {
        let spans = r#""placement":"sharded","timeout":"1m","run_timeout":"1h30m","misfire_grace":"0s","max_clock_skew":"2s","reshard_timeout":"1m""#;
        let job = read(spans).unwrap();
        assert_eq!((job.timeout, job.run_timeout, job.misfire_grace), (Some(60), Some(5_400), Some(0)));
        assert_eq!((job.max_clock_skew, job.reshard_timeout), (Some(2), 60));
        let text = serde_json::to_string(&job).unwrap();
        assert!(text.contains(r#""timeout":"1m","run_timeout":"1h30m","misfire_grace":"0s""#), "{text}");
        assert_eq!(serde_json::from_str::<JobFile>(&text).unwrap(), job, "what is kept is read back");
        let counted = read(r#""dataflow":{"interval":"5m"}"#).unwrap().dataflow.unwrap();
        assert_eq!(counted.interval, 300);
        assert_eq!(read(r#""timeout":null"#).unwrap().timeout, None);
        for (wrong, says) in [
            (r#""timeout":"5x""#, "span `5x`: write numbers with a unit (d, h, m, s or ms)"),
            (r#""timeout":"300""#, "such as `90s` or `1h30m`"),
            (r#""timeout":"1500ms""#, "only whole seconds count here; write `2s`"),
            (r#""timeout":-1"#, "integer `-1`, expected a span such as"),
            (r#""timeout":1.5"#, "expected a span such as \"90s\" or \"1h30m\""),
            (r#""timeout":60"#, "takes a span with its unit: write \"60s\" for seconds"),
            (r#""reshard_timeout":3600"#, "write \"3600s\" for seconds"),
            (r#""timeout":"""#, "the span is missing"),
            (r#""timeout":"0s""#, "timeout is 0 seconds"),
            (r#""reshard_timeout":"soon""#, "span `soon`"),
        ] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains(says), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_key_about_times_takes_a_schedule() {
        for key in [
            r#""timezone":"UTC""#,
            r#""dst":"skip""#,
            r#""start_at":"2026-01-01""#,
            r#""end_at":"2026-01-01""#,
            r#""jitter":"5m""#,
        ] {
            let said = read(key).unwrap_err();
            assert!(
                said.contains(
                    "says how a schedule is read, and the schedule is empty: give schedule, or leave"
                ),
                "{said}"
            );
        }
    }

    #[test]
    fn a_table_has_names_and_each_once() {
        let of = |fields: &str| serde_json::from_str::<JobFile>(&format!(r#"{{"name":"j",{fields}}}"#));
        for list in [
            r#""retry":[3]"#,
            r#""pool":["db",3]"#,
            r#""limits":[]"#,
            r#""limits":{"together":[]}"#,
            r#""notify":[]"#,
            r#""dataflow":["5m"]"#,
            r#""http":["http://h/"]"#,
            r#""environment":[]"#,
        ] {
            let said = of(list).unwrap_err().to_string();
            assert!(said.contains("expected a table"), "{list}: {said}");
        }
        for twice in ["environment", "secrets", "secret_files"] {
            let said = of(&format!(r#""{twice}":{{"A":"1","A":"2"}}"#)).unwrap_err().to_string();
            assert!(said.starts_with("names \"A\" twice: leave one out"), "{twice}: {said}");
        }
        assert_eq!(of(r#""retry":null,"pool":null"#).unwrap().retry, None);
    }

    #[test]
    fn a_key_that_is_written_says_something() {
        for empty in [
            r#""schedule":"""#,
            r#""schedule":" ""#,
            r#""schedule":[]"#,
            r#""schedule":["@daily",""]"#,
            r#""schedule":"@daily","timezone":"""#,
            r#""schedule":"@daily","start_at":"""#,
            r#""schedule":"@daily","end_at":"""#,
            r#""schedule":"@daily","jitter":"""#,
            r#""catch_up_window":"""#,
            r#""catch_up_spread":"""#,
            r#""function":"""#,
            r#""directory":"""#,
            r#""user":"""#,
            r#""limits":{"cpu":""}"#,
            r#""limits":{"memory":""}"#,
            r#""limits":{"together":{"memory":""}}"#,
            r#""retry":{"max_retries":1,"delay":""}"#,
            r#""retry":{"max_retries":1,"max_delay":""}"#,
            r#""retry":{"max_retries":1,"exit_codes":[]}"#,
            r#""notify":{"to":[]}"#,
            r#""notify":{"late_after":""}"#,
            r#""notify":{"absent_after":""}"#,
            r#""http":{"url":"http://h/","method":""}"#,
            r#""http":{"url":"https://h/","ca":""}"#,
        ] {
            let said = serde_json::from_str::<JobFile>(&format!(r#"{{"name":"j",{empty}}}"#))
                .unwrap_err()
                .to_string();
            assert!(
                said.starts_with("is empty: ") || said.starts_with("is an empty list: "),
                "{empty}: {said}"
            );
            assert!(said.contains("leave the key out"), "{empty}: {said}");
        }
    }
}
