//! Declarations that say what the registry has already, found by their texts: most of what is applied again is unchanged.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use evenkeel::Handle;
use evenkeel_core::ids::JobName;
use evenkeel_core::input::{Declaration, SameDeclaration};
use evenkeel_core::job::JobFile;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How many texts are remembered, 8 bytes and somewhat more of each. When there are more, all are forgotten, which costs only
/// time.
const TEXTS_MAX: usize = 1 << 20;
/// How the text of a declaration begins that this program wrote.
const HEAD: &str = "{\"name\":\"";

/// The declarations in a body, as they are written there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredTexts<'a> {
    #[serde(borrow)]
    jobs: Vec<&'a RawValue>,
}

impl<'a> DeclaredTexts<'a> {
    /// The declarations in a body; `None` for a body with a mistake.
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }
}

/// The texts of declarations that this process has found valid. A text stays valid for as long as the program is the same, so
/// it is not checked again where the registry has it.
#[derive(Debug, Default)]
pub(crate) struct ValidTexts {
    hash: RandomState,
    /// Their hashes, under a key that this process made at random: two texts with the same one are not to be expected, and no
    /// caller can make them.
    seen: Mutex<BTreeSet<u64>>,
}

impl ValidTexts {
    /// Notes that the node took these declarations.
    pub(super) fn note_valid(&self, texts: &DeclaredTexts<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for text in &texts.jobs {
            if seen.len() >= TEXTS_MAX {
                *seen = BTreeSet::new();
            }
            seen.insert(self.hash.hash_one(text.get()));
        }
    }

    /// The declarations in these texts, and which of them the registry has. `None` where it has none of them, or one has a
    /// mistake.
    pub(super) fn compare(&self, handle: &Handle, texts: &DeclaredTexts<'_>) -> Option<Vec<Declaration>> {
        let mut known = false;
        let mut declarations = Vec::with_capacity(texts.jobs.len());
        for (text, same) in texts.jobs.iter().zip(self.same(handle, texts)) {
            known |= same.is_some();
            declarations.push(match same {
                Some(same) => Declaration::Same(same),
                None => Declaration::File(Box::new(serde_json::from_str::<JobFile>(text.get()).ok()?)),
            });
        }
        known.then_some(declarations)
    }

    /// For each text, the declaration if the registry has it and it is valid.
    fn same(&self, handle: &Handle, texts: &DeclaredTexts<'_>) -> Vec<Option<SameDeclaration>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let valid = |text: &str| seen.contains(&self.hash.hash_one(text));
        handle.with_node(|node| {
            let same = |text: &&RawValue| {
                let text = text.get();
                let (name, _) = text.strip_prefix(HEAD)?.split_once('"')?;
                let name: JobName = name.parse().ok()?;
                let revision = node.view().find(&name)?.declares(text.as_bytes())?;
                valid(text).then(|| SameDeclaration { name, revision, text: text.as_bytes().into() })
            };
            texts.jobs.iter().map(same).collect()
        })
    }
}
