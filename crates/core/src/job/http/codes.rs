//! The status codes that count as success: a list of codes and of ranges of codes.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The final status codes.
const FINAL: core::ops::RangeInclusive<u16> = 200..=599;
/// The longest list.
const SPANS_MAX: usize = 64;

/// Status codes, as `[200, "300-399"]`: each range with both its ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusCodes(Vec<(u16, u16)>);

impl Default for StatusCodes {
    fn default() -> Self {
        Self(vec![(200, 299)])
    }
}

impl StatusCodes {
    /// The codes of these ranges, each with both its ends.
    #[must_use]
    pub fn new(spans: Vec<(u16, u16)>) -> Self {
        Self(spans)
    }

    /// Whether this code is among them.
    #[must_use]
    pub fn contains(&self, code: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&code))
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        if self.0.is_empty() || self.0.len() > SPANS_MAX {
            return Err(format!(
                "http.success has {} codes: write 1 to {SPANS_MAX}, as [\"200-299\", 404]",
                self.0.len()
            ));
        }
        let wrong =
            |(first, last): &&(u16, u16)| first > last || !FINAL.contains(first) || !FINAL.contains(last);
        match self.0.iter().find(wrong) {
            Some((first, last)) => Err(format!(
                "http.success has {first}-{last}: codes are {} to {}, the smaller one first",
                FINAL.start(),
                FINAL.end()
            )),
            None => Ok(()),
        }
    }
}

/// One entry of the list.
struct StatusRange(u16, u16);

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct StatusRangeVisitor;
        impl Visitor<'_> for StatusRangeVisitor {
            type Value = StatusRange;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a code as 404, or a span of codes as \"200-299\"")
            }
            fn visit_u64<E: de::Error>(self, code: u64) -> Result<StatusRange, E> {
                let code = u16::try_from(code);
                code.map(|code| StatusRange(code, code))
                    .map_err(|_| E::custom("http.success has no such code"))
            }
            fn visit_i64<E: de::Error>(self, code: i64) -> Result<StatusRange, E> {
                let code = u16::try_from(code);
                code.map(|code| StatusRange(code, code))
                    .map_err(|_| E::custom("http.success has no such code"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<StatusRange, E> {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let span = first.trim().parse().ok().zip(last.trim().parse().ok());
                span.map(|(first, last)| StatusRange(first, last))
                    .ok_or_else(|| E::custom(format!("http.success has {text:?}: write 404 or \"200-299\"")))
            }
        }
        input.deserialize_any(StatusRangeVisitor)
    }
}

impl<'de> Deserialize<'de> for StatusCodes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct StatusCodesVisitor;
        impl<'de> Visitor<'de> for StatusCodesVisitor {
            type Value = StatusCodes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of codes, as [\"200-299\", 404]")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StatusCodes, A::Error> {
                let spans = core::iter::from_fn(|| list.next_element::<StatusRange>().transpose());
                // One more than is allowed, so that it is the check that says how many are.
                let spans =
                    spans.take(SPANS_MAX + 1).map(|span| span.map(|StatusRange(first, last)| (first, last)));
                spans.collect::<Result<_, _>>().map(StatusCodes)
            }
        }
        input.deserialize_any(StatusCodesVisitor)
    }
}

impl Serialize for StatusCodes {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        struct StatusRangeText(u16, u16);
        impl Serialize for StatusRangeText {
            fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                match self.0 == self.1 {
                    true => output.serialize_u16(self.0),
                    false => output.collect_str(&format_args!("{}-{}", self.0, self.1)),
                }
            }
        }
        output.collect_seq(self.0.iter().map(|(first, last)| StatusRangeText(*first, *last)))
    }
}
