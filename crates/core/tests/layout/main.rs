//! Layout 2 of the tree, byte by byte: each kind of entry as a program of another version may have written it.
//!
//! `2.txt` has one line for each. Every record is made here with all its fields named, so a record with a new field does not
//! compile until this test says what the field holds. `docs/concepts/versions.md` says what is still the same layout, and what is a new
//! one. Within a layout, lines are added and the old record means the default: a line of `2.txt` is never changed once a
//! program with this layout was released.

mod declared;
mod exchanged;
mod tree;

use std::fmt::Debug;

use evenkeel_core::record::{LAYOUT, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// All lines, as they were written when this layout was made.
const LINES: &str = include_str!("2.txt");

/// A value as it is written.
struct LayoutLine {
    name: &'static str,
    text: String,
    /// Whether a text is read as the same value.
    reads: Box<dyn Fn(&str) -> bool>,
}

fn line<T: Serialize + DeserializeOwned + PartialEq + Debug + 'static>(
    name: &'static str,
    value: T,
) -> LayoutLine {
    let text = String::from_utf8(encode(&value).to_vec()).expect("JSON is text");
    LayoutLine {
        name,
        text,
        reads: Box::new(move |text| decode::<T>(text.as_bytes()).as_ref() == Some(&value)),
    }
}

fn lines() -> Vec<LayoutLine> {
    tree::lines().into_iter().chain(declared::lines()).chain(exchanged::lines()).collect()
}

/// Every value of an enumeration without fields; one that is left out does not compile.
macro_rules! every {
    ($of:ident: $($kind:ident),*) => {{
        let _complete = |it: $of| match it { $($of::$kind => ()),* };
        vec![$($of::$kind),*]
    }};
}
use every;

/// proves: I49
#[test]
fn what_is_written_is_what_this_layout_says_and_is_read_as_it_was_meant() {
    assert_eq!(LAYOUT, 2, "a new layout has lines of its own, and those of the last one stay");
    let written: Vec<String> = lines().iter().map(|line| format!("{} {}", line.name, line.text)).collect();
    let known: Vec<&str> = LINES.lines().collect();
    for (n, written) in written.iter().enumerate() {
        assert_eq!(Some(&written.as_str()), known.get(n), "line {}", n + 1);
    }
    assert_eq!(written.len(), known.len());
    for (line, known) in lines().iter().zip(known) {
        let text = known.strip_prefix(line.name).expect("its name").trim_start();
        assert!((line.reads)(text), "{known}");
    }
}

/// What a later version of this layout may add to a record of the house's own books is not in the way here, and is lost
/// when this program writes the record again.
///
/// proves: I49
#[test]
fn a_field_of_a_later_version_is_passed_over() {
    for line in lines().iter().filter(|line| !declared::is_strict(line.name)) {
        let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(&line.text) else { continue };
        fields.insert("later".to_owned(), Value::from(["than", "this"].map(Value::from).to_vec()));
        let text = Value::Object(fields).to_string();
        assert_eq!((line.reads)(&text), !tree::is_kind(line.name), "{}: {text}", line.name);
    }
}

/// A declaration that says more than this program knows is refused as a whole: nobody runs half of what was meant.
///
/// proves: I49
#[test]
fn a_declaration_of_a_later_version_is_refused_and_not_cut_down() {
    for line in lines().iter().filter(|line| declared::is_strict(line.name)) {
        for part in declared::parts(line.name) {
            let mut value: Value = serde_json::from_str(&line.text).expect("it is JSON");
            let fields = value.pointer_mut(part).and_then(Value::as_object_mut);
            let fields = fields.unwrap_or_else(|| panic!("{} has no {part}", line.name));
            fields.insert("later".to_owned(), Value::Bool(true));
            assert!(!(line.reads)(&value.to_string()), "{} with a field in {part}", line.name);
        }
    }
}

/// proves: I49
#[test]
fn what_is_cut_short_or_is_no_record_is_nothing_and_no_panic() {
    for line in lines() {
        for end in 0..line.text.len() {
            assert!(!(line.reads)(&line.text[..end]), "{}: {}", line.name, &line.text[..end]);
        }
        for other in ["", "null", "[]", "{}", "7", "\u{0}", "{\"v\":{}}"] {
            assert!(!(line.reads)(other), "{}: {other}", line.name);
        }
    }
}
