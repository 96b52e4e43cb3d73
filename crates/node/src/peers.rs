//! How a node reaches others: whoever opens it brings the means, and without them nobody can be reached.

use evenkeel_core::words::Member;

/// From whom to whom, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who asks.
    pub from: Member,
    /// Who is asked: this life of it and no other.
    pub to: Member,
    /// Where it answers.
    pub address: String,
}
