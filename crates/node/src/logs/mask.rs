//! Replaces secrets in a run's output, before it is written anywhere.

mod forms;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;

use crate::secrets::SecretText;

/// What stands in the place of a secret.
const MASK: &[u8] = b"***";

/// Finds the secrets of one run in its output, whatever the pieces in which it is read.
///
/// It reads each byte once. What may be the beginning of a secret is held back until more is read: never more than the
/// longest one has.
pub(crate) struct OutputMask {
    automaton: NFA,
    root: StateID,
    /// How many of the bytes read last may be the beginning of a secret, by the state after them.
    depths: BTreeMap<StateID, usize>,
    /// The bytes with which a secret begins.
    begins: [bool; 256],
    state: StateID,
    /// The bytes that are held back.
    held: Vec<u8>,
    /// Which parts of `held` are secrets, in order and apart from each other.
    covered: VecDeque<Range<usize>>,
    /// Whether the last thing that was returned is a mask: what overlaps or touches has one.
    in_mask: bool,
}

impl OutputMask {
    /// A mask for these secrets; `None` if there is nothing to look for.
    pub(crate) fn new<'a>(secrets: impl Iterator<Item = &'a SecretText>) -> Option<Self> {
        let forms = forms::of(secrets);
        if forms.is_empty() {
            return None;
        }
        let automaton = NFA::new(&forms).expect("secrets are far shorter than what an automaton can have");
        let root = automaton.start_state(Anchored::No).expect("it searches from everywhere");
        let mut begins = [false; 256];
        let mut depths = BTreeMap::new();
        for form in &forms {
            let mut state = root;
            for (at, byte) in form.iter().enumerate() {
                begins[usize::from(*byte)] |= at == 0;
                // The whole beginning is what the automaton has in mind here, so its length is the state's.
                state = automaton.next_state(Anchored::No, state, *byte);
                depths.insert(state, at + 1);
            }
        }
        let (held, covered) = (Vec::new(), VecDeque::new());
        Some(Self { state: root, automaton, root, depths, begins, held, covered, in_mask: false })
    }

    /// Takes a piece of the output, and returns what can be written.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        let begin = self.held.len();
        self.held.extend_from_slice(piece);
        let mut at = begin;
        while let Some(byte) = self.held.get(at) {
            if self.state == self.root && !self.begins[usize::from(*byte)] {
                let rest = self.held.get(at..).unwrap_or_default();
                at += rest.iter().take_while(|byte| !self.begins[usize::from(**byte)]).count();
                continue;
            }
            self.state = self.automaton.next_state(Anchored::No, self.state, *byte);
            at += 1;
            if self.automaton.is_match(self.state) {
                let found = 0..self.automaton.match_len(self.state);
                let found = found.map(|n| self.automaton.match_pattern(self.state, n));
                let longest = found.map(|pattern| self.automaton.pattern_len(pattern)).max().unwrap_or(0);
                self.cover(at.saturating_sub(longest)..at);
            }
        }
        let keep = self.depths.get(&self.state).copied().unwrap_or(0);
        self.release(self.held.len().saturating_sub(keep))
    }

    /// Returns what was held back: no more is read.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.state = self.root;
        self.release(self.held.len())
    }

    /// Notes a secret that ends where the reading stands.
    fn cover(&mut self, mut found: Range<usize>) {
        while let Some(last) = self.covered.pop_back_if(|last| last.end >= found.start) {
            found.start = found.start.min(last.start);
        }
        self.covered.push_back(found);
    }

    /// The first bytes of those held, as many as this, with masks.
    fn release(&mut self, end: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(end);
        let mut at = 0;
        while let Some(secret) = self.covered.pop_front_if(|secret| secret.start < end) {
            self.show(at..secret.start, &mut out);
            if !self.in_mask {
                out.extend_from_slice(MASK);
                self.in_mask = true;
            }
            at = secret.end.min(end);
            if secret.end > end {
                self.covered.push_front(end..secret.end);
                break;
            }
        }
        self.show(at..end, &mut out);
        self.held.drain(..end);
        self.covered.iter_mut().for_each(|secret| *secret = secret.start - end..secret.end - end);
        out
    }

    fn show(&mut self, part: Range<usize>, out: &mut Vec<u8>) {
        if let Some(part) = self.held.get(part).filter(|part| !part.is_empty()) {
            out.extend_from_slice(part);
            self.in_mask = false;
        }
    }
}

impl fmt::Debug for OutputMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputMask").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
