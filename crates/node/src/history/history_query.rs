//! What a query of history is: a question with the statements that answer it.

use super::connection::{DatabaseError, HistoryConnection};

/// The most rows of one answer.
pub(super) const LIMIT_MAX: u32 = 10_000;

/// A query.
pub(super) trait HistoryQuery: Send + Sync + 'static {
    type Item: Send;

    fn ask(
        &self,
        link: &mut HistoryConnection,
    ) -> impl Future<Output = Result<Vec<Self::Item>, DatabaseError>> + Send;
}
