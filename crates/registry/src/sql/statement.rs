//! Builds statements: the differences of the dialects, and lists of arguments.

use std::fmt::Write as _;

/// The differences between SQL servers, for any tables.
#[derive(Debug)]
pub struct SqlDialect {
    /// Whether placeholders are `$1, $2` and not `?, ?`.
    pub numbered: bool,
    /// The quotation mark of names.
    pub quote: char,
    /// The server's calendar clock in milliseconds, at the moment of the call and not of the transaction's begin.
    pub now: &'static str,
    /// Inserted between `INSERT` and `INTO`, and at the end, to leave an existing row as it is.
    pub ignore: (&'static str, &'static str),
    /// Before and after the creation of tables, to lift the limit on a statement's time.
    pub no_ddl_timeout: Option<(&'static str, &'static str)>,
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub enum SqlArg<'a> {
    /// An integer.
    Int(i64),
    /// An integer that may be null.
    Maybe(Option<i64>),
    /// A text; MySQL gets its bytes.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An integer behind the base that the transaction has kept. Only as text.
    BehindBase(i64),
}

/// A statement and its arguments.
#[derive(Clone, Debug)]
pub struct SqlStatement<'a> {
    numbered: bool,
    /// The text before each argument, and behind the last.
    text: Vec<String>,
    args: Vec<SqlArg<'a>>,
}

impl<'a> SqlStatement<'a> {
    /// Begins with text; `numbered` is the server's [`SqlDialect::numbered`].
    #[must_use]
    pub fn of(numbered: bool, text: impl Into<String>) -> Self {
        Self { numbered, text: vec![text.into()], args: Vec::new() }
    }

    /// Appends text.
    #[must_use]
    pub fn then(mut self, text: &str) -> Self {
        self.add(text);
        self
    }

    /// Appends an argument.
    #[must_use]
    pub fn with(mut self, arg: SqlArg<'a>) -> Self {
        self.push(arg);
        self
    }

    /// Appends an unsigned number.
    pub(crate) fn number(self, number: u64) -> Self {
        self.with(SqlArg::Int(number.cast_signed()))
    }

    /// Appends arguments in brackets. The last one is repeated up to a power of two, so that the server sees few
    /// different texts and caches their plans.
    #[must_use]
    pub fn any_of(mut self, args: impl IntoIterator<Item = SqlArg<'a>>) -> Self {
        let mut args: Vec<_> = args.into_iter().collect();
        let Some(last) = args.last().copied() else {
            // Matches nothing: an empty list is not SQL.
            return self.then("(NULL)");
        };
        args.resize(args.len().next_power_of_two(), last);
        self.row(args);
        self
    }

    /// Appends rows, each in brackets.
    #[must_use]
    pub fn rows<const N: usize>(mut self, rows: impl IntoIterator<Item = [SqlArg<'a>; N]>) -> Self {
        for (i, row) in rows.into_iter().enumerate() {
            if i > 0 {
                self.add(", ");
            }
            self.row(row);
        }
        self
    }

    fn row(&mut self, args: impl IntoIterator<Item = SqlArg<'a>>) {
        self.add("(");
        for (i, arg) in args.into_iter().enumerate() {
            if i > 0 {
                self.add(", ");
            }
            self.push(arg);
        }
        self.add(")");
    }

    fn push(&mut self, arg: SqlArg<'a>) {
        self.args.push(arg);
        self.text.push(String::new());
    }

    fn add(&mut self, text: &str) {
        if let Some(last) = self.text.last_mut() {
            last.push_str(text);
        }
    }

    /// The text with placeholders, and the arguments in order.
    #[must_use]
    pub fn into_parts(self) -> (String, Vec<SqlArg<'a>>) {
        let mut text = String::new();
        for (i, part) in self.text.iter().enumerate() {
            match (i, self.numbered) {
                (0, _) => {}
                // Writing to a text cannot fail.
                (_, true) => {
                    let _ = write!(text, "${i}");
                }
                (_, false) => text.push('?'),
            }
            text.push_str(part);
        }
        (text, self.args)
    }

    /// The text with its arguments spelt out, so that several statements can be sent as one request.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut parts = self.text.iter();
        let mut text = parts.next().cloned().unwrap_or_default();
        for (arg, part) in self.args.iter().zip(parts) {
            spell(&mut text, arg, self.numbered);
            text.push_str(part);
        }
        text
    }
}

/// The base of [`SqlArg::BehindBase`]: a setting of PostgreSQL's transaction, and a variable of MariaDB's session.
pub(crate) const BASE_SETTING: &str = "evenkeel.base";
pub(crate) const BASE_VARIABLE: &str = "@evenkeel_base";

/// Appends an argument as a literal that means the same under every setting of a server.
fn spell(text: &mut String, arg: &SqlArg<'_>, is_postgres: bool) {
    match (arg, is_postgres) {
        // A negative number is not a literal, and PostgreSQL takes a small one for a short integer.
        (SqlArg::Int(number) | SqlArg::Maybe(Some(number)), true) => {
            let _ = write!(text, "({number}::bigint)");
        }
        (SqlArg::Int(number) | SqlArg::Maybe(Some(number)), false) => {
            let _ = write!(text, "({number})");
        }
        (SqlArg::BehindBase(number), true) => {
            let _ = write!(text, "(current_setting('{BASE_SETTING}')::bigint + {number})");
        }
        (SqlArg::BehindBase(number), false) => {
            let _ = write!(text, "({BASE_VARIABLE} + {number})");
        }
        (SqlArg::Maybe(None), true) => text.push_str("NULL::bigint"),
        (SqlArg::Maybe(None), false) => text.push_str("NULL"),
        (SqlArg::Text(value), true) => {
            text.push_str("E'");
            for letter in value.chars() {
                if matches!(letter, '\'' | '\\') {
                    text.push('\\');
                }
                text.push(letter);
            }
            text.push('\'');
        }
        (SqlArg::Bytes(value), true) => {
            text.push_str("E'\\\\x");
            hex(text, value);
            text.push_str("'::bytea");
        }
        (SqlArg::Text(value), false) => {
            text.push_str("x'");
            hex(text, value.as_bytes());
            text.push('\'');
        }
        (SqlArg::Bytes(value), false) => {
            text.push_str("x'");
            hex(text, value);
            text.push('\'');
        }
    }
}

fn hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    text.reserve(bytes.len() * 2);
    for byte in bytes {
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// The most rows of one statement.
pub const ROWS_MAX: usize = 1_024;
/// The most bytes in the rows of one statement, where there are several.
const BYTES_MAX: usize = 4 << 20;

/// Splits rows into pieces of few different lengths, none too large to send.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_placeholders_or_literals() {
        let args =
            [SqlArg::Int(-7), SqlArg::Maybe(None), SqlArg::Text("a'b\\c?$1"), SqlArg::Bytes(&[0, 255])];
        let statement = |numbered| SqlStatement::of(numbered, "VALUES ").rows([args]).then(";");
        assert_eq!(statement(true).into_parts().0, "VALUES ($1, $2, $3, $4);");
        assert_eq!(statement(false).into_parts().0, "VALUES (?, ?, ?, ?);");
        let postgres = r"VALUES ((-7::bigint), NULL::bigint, E'a\'b\\c?$1', E'\\x00ff'::bytea);";
        assert_eq!(statement(true).into_text(), postgres);
        assert_eq!(statement(false).into_text(), "VALUES ((-7), NULL, x'6127625c633f2431', x'00ff');");
    }

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
