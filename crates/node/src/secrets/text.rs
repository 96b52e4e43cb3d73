//! The text of a secret.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The text of a secret, as it is stored. It does not appear in what is made with `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(String);

impl SecretText {
    /// The text; `None` if it is empty but for a line break.
    pub(crate) fn new(text: String) -> Option<Self> {
        let text = Self(text);
        (!text.value().is_empty()).then_some(text)
    }

    /// The text without the line break at its end, as a variable or a request gets it.
    pub(crate) fn value(&self) -> &str {
        let text = self.0.as_str();
        text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text))
    }

    /// The whole text, as a file gets it: some programs read no key whose last line does not end.
    pub(crate) fn whole(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: I52
    #[test]
    fn a_text_is_not_shown_and_ends_without_its_line_break() {
        let text = |text: &str| SecretText::new(text.to_owned());
        for (given, value) in
            [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\nb\n\n", "a\nb\n"), (" a ", " a ")]
        {
            let text = text(given).unwrap();
            assert_eq!((text.value(), text.whole()), (value, given));
        }
        assert_eq!([text(""), text("\n"), text("\r\n")], [None, None, None]);
        assert!(!format!("{:?}", text("hunter2")).contains("hunter2"));
    }
}
