//! The present document of a feed, and the latest patches that led to it.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::merge_patch::merge_patch;

/// The most patches that are kept for viewers that are behind or come back.
const PATCHES_MAX: usize = 512;
/// The most bytes of these patches.
const BYTES_MAX: usize = 256 * 1024;

/// What a viewer is sent; the number is the position of the document that it then has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FeedEvent {
    /// The whole document.
    Snapshot(u64, Arc<str>),
    /// What makes this document of the one before.
    Patch(u64, Arc<str>),
}

/// The present document of a feed, and the latest patches that led to it. Documents are numbered from 1 on.
#[derive(Debug, Default)]
pub(super) struct PatchRing {
    /// The position of the present document; 0 before the first one.
    seq: u64,
    document: Value,
    /// The present document as text, once a viewer has asked for it.
    text: Option<Arc<str>>,
    /// The patches that led to the last documents, of which the last one is the present document.
    patches: VecDeque<Arc<str>>,
    /// The length of all these patches.
    bytes: usize,
}

impl PatchRing {
    /// Takes the document as it is now, which has no object with a null in it.
    pub(super) fn put(&mut self, document: Value) {
        if self.seq > 0 {
            let Some(patch) = merge_patch(&self.document, &document) else { return };
            let patch: Arc<str> = patch.to_string().into();
            self.bytes += patch.len();
            self.patches.push_back(patch);
        }
        (self.seq, self.document, self.text) = (self.seq + 1, document, None);
        while self.patches.len() > PATCHES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.patches.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// What a viewer is sent next that has the document at this position, or none; `None` if it has the present one.
    pub(super) fn after(&mut self, seen: Option<u64>) -> Option<FeedEvent> {
        if self.seq == 0 || seen == Some(self.seq) {
            return None;
        }
        Some(self.patch_after(seen).unwrap_or_else(|| FeedEvent::Snapshot(self.seq, self.whole())))
    }

    fn patch_after(&self, seen: Option<u64>) -> Option<FeedEvent> {
        let behind = usize::try_from(self.seq.checked_sub(seen?)?).ok()?;
        let patch = self.patches.get(self.patches.len().checked_sub(behind)?)?;
        Some(FeedEvent::Patch(seen? + 1, patch.clone()))
    }

    fn whole(&mut self) -> Arc<str> {
        let document = &self.document;
        self.text.get_or_insert_with(|| document.to_string().into()).clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Everything that a viewer is sent, and the document that it then has.
    fn follow(ring: &mut PatchRing, mut seen: Option<u64>, mut document: Value) -> (Vec<FeedEvent>, Value) {
        let mut sent = Vec::new();
        while let Some(event) = ring.after(seen) {
            let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
            match &event {
                FeedEvent::Snapshot(seq, text) => (seen, document) = (Some(*seq), read(text)),
                FeedEvent::Patch(seq, text) => {
                    seen = Some(*seq);
                    json_patch::merge(&mut document, &read(text));
                }
            }
            sent.push(event);
        }
        (sent, document)
    }

    fn ring_of(documents: impl IntoIterator<Item = Value>) -> PatchRing {
        let mut ring = PatchRing::default();
        documents.into_iter().for_each(|document| ring.put(document));
        ring
    }

    #[test]
    fn a_viewer_gets_exactly_the_patches_that_it_missed() {
        let mut ring = ring_of((1..=5).map(|n| json!({ "n": n })));
        let patch = |n: u64| FeedEvent::Patch(n, format!("{{\"n\":{n}}}").into());
        assert_eq!(
            follow(&mut ring, Some(3), json!({ "n": 3 })),
            (vec![patch(4), patch(5)], json!({ "n": 5 }))
        );
        assert_eq!(follow(&mut ring, Some(1), json!({ "n": 1 })).0.len(), 4);
        assert_eq!(ring.after(Some(5)), None);
    }

    #[test]
    fn a_viewer_without_a_document_of_the_feed_gets_the_whole_one() {
        let mut ring = ring_of([json!({ "n": 1 }), json!({ "n": 2 })]);
        let whole = FeedEvent::Snapshot(2, "{\"n\":2}".into());
        for seen in [None, Some(0), Some(3), Some(u64::MAX)] {
            assert_eq!(ring.after(seen), Some(whole.clone()), "{seen:?}");
        }
        assert_eq!(PatchRing::default().after(None), None, "there is none yet");
    }

    #[test]
    fn a_document_that_did_not_change_has_no_number_of_its_own() {
        let mut ring = ring_of([json!({ "n": 1 }), json!({ "n": 1 })]);
        assert_eq!(ring.after(Some(1)), None);
        assert_eq!(ring.after(None), Some(FeedEvent::Snapshot(1, "{\"n\":1}".into())));
    }

    #[test]
    fn a_viewer_that_fell_behind_gets_the_whole_document_once_and_then_patches() {
        let last = PATCHES_MAX as u64 + 11;
        let mut ring = ring_of((1..=last).map(|n| json!({ "n": n })));
        assert_eq!(ring.patches.len(), PATCHES_MAX);
        let (sent, document) = follow(&mut ring, Some(10), json!({ "n": 10 }));
        assert_eq!((sent.len(), &document), (1, &json!({ "n": last })));
        assert!(matches!(sent[..], [FeedEvent::Snapshot(seq, _)] if seq == last));
        let (sent, same) = follow(&mut ring, Some(11), json!({ "n": 11 }));
        assert_eq!((sent.len(), same), (PATCHES_MAX, document), "its next patch is the oldest one");
    }

    #[test]
    fn long_patches_are_not_kept_beyond_a_number_of_bytes() {
        let mut ring = ring_of((0..20).map(|n| json!({ "text": format!("{n}").repeat(20_000) })));
        assert!(ring.bytes <= BYTES_MAX && ring.patches.len() >= 5, "{}", ring.bytes);
        assert_eq!(ring.bytes, ring.patches.iter().map(|patch| patch.len()).sum::<usize>());
        ring.put(json!({ "text": "x".repeat(BYTES_MAX) }));
        assert_eq!((ring.bytes, ring.patches.len()), (0, 0));
        assert!(matches!(ring.after(Some(20)), Some(FeedEvent::Snapshot(21, _))));
    }
}
