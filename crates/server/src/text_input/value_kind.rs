//! The kinds of values that keys take.

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ValueKind {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// The same, or `null`.
    WholeOrNull(u64, u64),
    /// A number above 0.
    Number,
    /// A span with its unit.
    Span,
    /// A list of texts.
    Texts,
    /// A text or a list of texts.
    TextOrTexts,
    /// A list of whole numbers.
    Wholes(u64, u64),
    /// A list of HTTP status codes, and of ranges of them as texts.
    CodesAndRanges,
    /// A table of texts.
    TextTable,
    /// A table whose keys are in the table of keys.
    Table,
    /// A table of parameters with their declarations.
    Parameters,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of some of these words.
    SomeOf(&'static [&'static str]),
    /// A program and its arguments, or a text for the shell.
    Program,
    /// What becomes of fires older than the grace.
    CatchUp,
    /// What becomes of fires that come due while a run executes.
    Overlap,
}
