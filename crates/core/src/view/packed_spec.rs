//! The spec of a job as a view keeps it: its text, without what the specs of all jobs begin with.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;

use super::known_entry::KnownEntry;
use crate::ids::JobName;
use crate::keys::Key;
use crate::record::decode;
use crate::registry::{Guard, Revision, Value};

/// What a living job's spec begins with: this, and then the job's name in quotation marks.
const HEAD: &[u8] = b"{\"live\":{\"job\":{\"name\":\"";
/// How many bytes of that are before the declaration itself.
const BEFORE_JOB: usize = b"{\"live\":{\"job\":".len();
/// What follows the declaration.
const AFTER_JOB: &[u8] = b",\"version\":";

/// An entry of a spec. Its text is kept, since most jobs belong to other nodes, and is decoded where a rule needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PackedSpec {
    known: KnownEntry<Box<[u8]>>,
    /// Whether the text lacks [`HEAD`], the name and the quotation mark after it.
    packed: bool,
}

impl PackedSpec {
    /// The spec of the job of this name as it was read.
    pub(super) fn new(name: &JobName, spec: &KnownEntry<&Value>) -> Self {
        let Some(text) = spec.value else {
            return Self { known: KnownEntry::absent(spec.revision), packed: false };
        };
        let rest = text
            .strip_prefix(HEAD)
            .and_then(|rest| rest.strip_prefix(name.as_str().as_bytes()))
            .and_then(|rest| rest.strip_prefix(b"\""));
        Self {
            known: KnownEntry::present(Some(rest.unwrap_or(text).into()), spec.revision),
            packed: rest.is_some(),
        }
    }

    /// When it was written, or found absent.
    pub(crate) fn revision(&self) -> Revision {
        self.known.revision
    }

    /// The guard that the entry under `key` is still as it is known.
    pub(crate) fn guard(&self, key: Key) -> Guard {
        self.known.guard(key)
    }

    /// The record, decoded, or what another type takes of it; `None` when it is absent or unreadable. `name` is the name of the
    /// job.
    pub(super) fn record<T: DeserializeOwned>(&self, name: &JobName) -> Option<T> {
        let rest = self.known.value.as_deref()?;
        if !self.packed {
            return decode(rest);
        }
        let text: Vec<u8> = [HEAD, name.as_str().as_bytes(), b"\"", rest].concat();
        decode(&text)
    }

    /// Whether this text is the declaration, letter by letter. `name` is the name of the job.
    pub(super) fn declares(&self, name: &JobName, text: &[u8]) -> bool {
        let declared = || {
            let own = text
                .strip_prefix(&HEAD[BEFORE_JOB..])?
                .strip_prefix(name.as_str().as_bytes())?
                .strip_prefix(b"\"")?;
            self.known.value.as_deref()?.strip_prefix(own)
        };
        self.packed && declared().is_some_and(|rest| rest.starts_with(AFTER_JOB))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobFile, Spec, Work};
    use crate::record::{SpecRecord, encode};
    use crate::time::Wall;

    fn job(name: &str) -> Job {
        let file = JobFile::new(name.parse().unwrap(), "@daily", Work::Function("f".into()));
        Job::parse(file).unwrap()
    }

    #[test]
    fn a_spec_is_decoded_as_it_was_written() {
        let live = SpecRecord::Live(Box::new(Spec::new(job("j"), 3, Wall(7))));
        let deleted = SpecRecord::Deleted { version: 4 };
        let name = "j".parse().unwrap();
        for record in [live.clone(), deleted] {
            let text = encode(&record);
            let packed = PackedSpec::new(&name, &KnownEntry::present(Some(&text), Revision(5)));
            assert_eq!((packed.record(&name), packed.revision()), (Some(record.clone()), Revision(5)));
            assert_eq!(packed.packed, record == live);
        }
        // Another order of the keys, and the spec of a job of another name.
        let text = encode(&live);
        let odd = alloc::string::String::from_utf8(text.to_vec()).unwrap().replace("{\"name\"", "{ \"name\"");
        for (text, name) in [(Value::from(odd.as_bytes()), &name), (text, &"i".parse().unwrap())] {
            let kept = PackedSpec::new(name, &KnownEntry::present(Some(&text), Revision(5)));
            assert_eq!((kept.record(name), kept.packed), (Some(live.clone()), false));
        }
        assert_eq!(
            PackedSpec::new(&name, &KnownEntry::absent(Revision(9))).record::<SpecRecord>(&name),
            None
        );
    }

    #[test]
    fn only_the_whole_declaration_is_the_same() {
        let name = "j".parse().unwrap();
        let text = encode(&SpecRecord::Live(Box::new(Spec::new(job("j"), 3, Wall(7)))));
        let packed = PackedSpec::new(&name, &KnownEntry::present(Some(&text), Revision(5)));
        let own = encode(&job("j"));
        assert!(packed.declares(&name, &own));
        for other in [&own[..own.len() - 1], b"", b"{\"name\":\"j\"", &encode(&job("i"))] {
            assert!(!packed.declares(&name, other));
        }
    }
}
