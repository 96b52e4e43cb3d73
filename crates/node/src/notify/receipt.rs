//! Tells history that a notice was sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::history::{HistoryWrite, WeakHistory};

/// Marks a notice as sent once all its recipients have it, or were given up.
#[derive(Clone)]
pub(super) struct Receipt(Arc<ReceiptState>);

struct ReceiptState {
    left: AtomicUsize,
    seq: i64,
    history: WeakHistory,
}

impl Receipt {
    pub(super) fn new(left: usize, seq: i64, history: WeakHistory) -> Self {
        Self(Arc::new(ReceiptState { left: AtomicUsize::new(left), seq, history }))
    }

    /// Counts one recipient as done.
    pub(super) fn done(&self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.history.put(HistoryWrite::NoticeSent(self.0.seq));
        }
    }
}
