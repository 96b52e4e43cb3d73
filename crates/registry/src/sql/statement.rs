//! Statements as they are put together: the little in which the dialects differ, and arguments in lists.

use std::fmt::Write as _;

use super::SqlServerInfo;
use super::connection::SqlConnection;
use crate::BoxFuture;

/// The little in which SQL servers differ, whatever is kept there.
#[derive(Debug)]
pub struct SqlDialect {
    /// Whether placeholders are `$1, $2` and not `?, ?`.
    pub numbered: bool,
    /// What names are put in.
    pub quote: char,
    /// The server's calendar clock in milliseconds, at this very moment and not when the transaction began.
    pub now: &'static str,
    /// Between `INSERT` and `INTO`, and at the end, where a row that is there already is left as it is.
    pub ignore: (&'static str, &'static str),
    /// Around what makes tables, where statements would else be given up after a while.
    pub no_ddl_timeout: Option<(&'static str, &'static str)>,
}

/// In which they differ more, as registries.
pub(crate) struct RegistryDialect {
    /// The engine's name, as in its URL.
    pub(crate) name: &'static str,
    pub(crate) sql: &'static SqlDialect,
    /// What every connection says first.
    pub(crate) session_setup: &'static str,
    /// Begins a transaction that writes.
    pub(crate) begin: &'static str,
    /// Tells, in its second column, how a transaction that was begun so is kept from others.
    pub(crate) isolation: &'static str,
    /// Begins one that reads several times and sees one moment.
    pub(crate) snapshot: &'static str,
    /// The type of a short text, and what stands behind the counter's table.
    pub(crate) identity: &'static str,
    pub(crate) table: &'static str,
    /// Behind `VALUES …` where an entry that is there already is replaced.
    pub(crate) replace_entry: &'static str,
    /// The same for a lease.
    pub(crate) replace_lease: &'static str,
    /// Wakes listeners with the number of a revision, where the server can.
    pub(crate) notify: Option<&'static str>,
    /// Whether nobody is shown what a crash of the server may still take back.
    pub(crate) durable_before_visible: bool,
    /// Makes all tables but the counter's, and may be repeated.
    pub(crate) first_layout: fn(&TableNames) -> Vec<String>,
    /// Asks the server what it is and what its promises are worth.
    pub(crate) inspect: for<'l> fn(
        &'l mut SqlConnection,
        &'l TableNames,
    ) -> BoxFuture<'l, Result<SqlServerInfo, sqlx::Error>>,
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub enum SqlArg<'a> {
    /// A number.
    Int(i64),
    /// A number that may be missing.
    Maybe(Option<i64>),
    /// A text; MySQL gets its bytes.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A statement and its arguments.
#[derive(Clone, Debug)]
pub struct SqlStatement<'a> {
    numbered: bool,
    text: String,
    args: Vec<SqlArg<'a>>,
}

impl<'a> SqlStatement<'a> {
    pub(crate) fn new(dialect: &RegistryDialect, text: impl Into<String>) -> Self {
        Self::of(dialect.sql.numbered, text)
    }

    /// Begins with text; `numbered` is the server's [`Tongue::numbered`].
    #[must_use]
    pub fn of(numbered: bool, text: impl Into<String>) -> Self {
        Self { numbered, text: text.into(), args: Vec::new() }
    }

    /// Goes on with text.
    #[must_use]
    pub fn then(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Goes on with an argument.
    #[must_use]
    pub fn with(mut self, arg: SqlArg<'a>) -> Self {
        self.push(arg);
        self
    }

    /// Goes on with a number of ours.
    pub(crate) fn number(self, number: u64) -> Self {
        self.with(SqlArg::Int(number.cast_signed()))
    }

    /// Goes on with arguments in brackets. The last is repeated up to a power of two, so that the server sees few
    /// different texts and remembers how to carry them out.
    #[must_use]
    pub fn any_of(mut self, args: impl IntoIterator<Item = SqlArg<'a>>) -> Self {
        let mut args: Vec<_> = args.into_iter().collect();
        let Some(last) = args.last().copied() else {
            // Nothing is in it, and an empty list is not SQL.
            return self.then("(NULL)");
        };
        args.resize(args.len().next_power_of_two(), last);
        self.row(args);
        self
    }

    /// Goes on with rows, each in brackets.
    #[must_use]
    pub fn rows<const N: usize>(mut self, rows: impl IntoIterator<Item = [SqlArg<'a>; N]>) -> Self {
        for (i, row) in rows.into_iter().enumerate() {
            if i > 0 {
                self.text.push_str(", ");
            }
            self.row(row);
        }
        self
    }

    fn row(&mut self, args: impl IntoIterator<Item = SqlArg<'a>>) {
        self.text.push('(');
        for (i, arg) in args.into_iter().enumerate() {
            if i > 0 {
                self.text.push_str(", ");
            }
            self.push(arg);
        }
        self.text.push(')');
    }

    fn push(&mut self, arg: SqlArg<'a>) {
        self.args.push(arg);
        match self.numbered {
            // Writing to a text cannot fail.
            true => drop(write!(self.text, "${}", self.args.len())),
            false => self.text.push('?'),
        }
    }

    /// Its text and its arguments in their order.
    #[must_use]
    pub fn into_parts(self) -> (String, Vec<SqlArg<'a>>) {
        (self.text, self.args)
    }
}

/// The most rows of one statement.
pub const ROWS_MAX: usize = 1_024;
/// The most bytes in the rows of one statement, where there are several.
const BYTES_MAX: usize = 4 << 20;

/// Cuts rows into pieces of few different lengths, none too heavy to send.
pub fn pieces<T>(rows: &[T], weight: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut pieces, mut rest) = (Vec::new(), rows);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |row: &&T| {
            bytes += weight(row);
            bytes <= BYTES_MAX
        };
        let most = rest.iter().take(ROWS_MAX).take_while(fits).count().max(1);
        let power = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
        let (piece, after) = rest.split_at(power);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The names of one registry's tables, quoted.
#[derive(Clone, Debug)]
pub(crate) struct TableNames {
    pub(crate) meta: String,
    pub(crate) entry: String,
    pub(crate) lease: String,
    pub(crate) change: String,
    /// The index of entries by their owner.
    pub(crate) owned: String,
    /// The counter's table without quotes.
    pub(crate) counter: String,
    /// What listeners listen to.
    pub(crate) channel: String,
}

impl TableNames {
    /// Those of a namespace, whose letters are harmless.
    pub(crate) fn new(dialect: &RegistryDialect, namespace: &str) -> Self {
        let name = |what: &str| format!("{0}{namespace}_{what}{0}", dialect.sql.quote);
        Self {
            meta: name("meta"),
            entry: name("entry"),
            lease: name("lease"),
            change: name("change"),
            owned: name("owned"),
            counter: format!("{namespace}_meta"),
            channel: format!("{namespace}_revision"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_few_lengths_and_hold_everything() {
        let rows: Vec<_> = (0..2_500).collect();
        let cut = pieces(&rows, |_| 1);
        assert_eq!(cut.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [1024, 1024, 256, 128, 64, 4]);
        assert_eq!(cut.concat(), rows);
        let heavy = pieces(&rows[..5], |row| if *row == 2 { 100 << 20 } else { 1 << 20 });
        assert_eq!(heavy, [&[0, 1][..], &[2], &[3, 4]]);
        assert!(pieces(&rows[..0], |_| 1).is_empty());
    }
}
