//! A table of keys of another scheduler, from which keys are taken; what is left over was not read, and is reported.

use serde_json::{Map, Value};

use super::{ImportNotes, ImportRefusal};

/// A table of another scheduler's keys.
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignKeys {
    /// Where the table stands, as `spec.jobTemplate.`; empty for the object itself.
    at: String,
    map: Map<String, Value>,
}

impl ForeignKeys {
    /// The keys of a value; `at` is the path of the table in messages.
    ///
    /// # Errors
    /// The value is no table.
    pub(super) fn of(at: &str, value: Value) -> Result<Self, ImportRefusal> {
        let start = if at.is_empty() { String::new() } else { format!("{at}.") };
        match value {
            Value::Object(map) => Ok(Self { at: start, map }),
            Value::Null => Ok(Self { at: start, map: Map::new() }),
            other => Err(ImportRefusal::new(at, format!("it takes a table, not {}", kind(&other)))),
        }
    }

    /// The path of a key in messages.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.at)
    }

    /// A value, taken out; `None` where it is absent or null.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// Drops keys that say nothing about the job.
    pub(super) fn ignore(&mut self, keys: &[&str]) {
        keys.iter().for_each(|key| drop(self.map.remove(*key)));
    }

    /// A text; a number or a truth counts as its text.
    ///
    /// # Errors
    /// The value is a list or a table.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, ImportRefusal> {
        let Some(value) = self.take(key) else { return Ok(None) };
        scalar(&value).map(Some).ok_or_else(|| self.wrong(key, "a text", &value))
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// It is absent or empty, or no text.
    pub(super) fn needed(&mut self, key: &str) -> Result<String, ImportRefusal> {
        let text = self.text(key)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| ImportRefusal::new(&self.path(key), "it is missing"))
    }

    /// A whole number; a text that is one counts.
    ///
    /// # Errors
    /// It is no whole number.
    pub(super) fn whole(&mut self, key: &str) -> Result<Option<i64>, ImportRefusal> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let text = scalar(&value).unwrap_or_default();
        let text = text.trim();
        if text.is_empty() && value.is_string() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| self.wrong(key, "a whole number", &value))
    }

    /// A number that is not negative.
    ///
    /// # Errors
    /// It is negative or no whole number.
    pub(super) fn count(&mut self, key: &str) -> Result<Option<u64>, ImportRefusal> {
        let Some(number) = self.whole(key)? else { return Ok(None) };
        let path = self.path(key);
        u64::try_from(number).map(Some).map_err(|_| ImportRefusal::new(&path, format!("it is {number}")))
    }

    /// A truth; the texts `true` and `false` count.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, ImportRefusal> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match scalar(&value).as_deref() {
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some("") => Ok(None),
            _ => Err(self.wrong(key, "true or false", &value)),
        }
    }

    /// A table; empty where it is absent.
    ///
    /// # Errors
    /// It is no table.
    pub(super) fn table(&mut self, key: &str) -> Result<Self, ImportRefusal> {
        Self::of(&self.path(key), self.take(key).unwrap_or_default())
    }

    /// A list; empty where it is absent.
    ///
    /// # Errors
    /// It is no list.
    pub(super) fn list(&mut self, key: &str) -> Result<Vec<Value>, ImportRefusal> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(self.wrong(key, "a list", &other)),
        }
    }

    /// A list of texts; empty where it is absent.
    ///
    /// # Errors
    /// It is no list of texts.
    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, ImportRefusal> {
        let list = self.list(key)?;
        let texts = list.iter().map(|value| scalar(value).ok_or_else(|| self.wrong(key, "texts", value)));
        texts.collect()
    }

    /// Texts by name; empty where they are absent.
    ///
    /// # Errors
    /// It is no table of texts.
    pub(super) fn pairs(&mut self, key: &str) -> Result<Vec<(String, String)>, ImportRefusal> {
        let table = self.table(key)?;
        let pairs = table.map.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
            let text = scalar(value).ok_or_else(|| table.wrong(name, "a text", value))?;
            Ok((name.clone(), text))
        });
        pairs.collect()
    }

    /// The names of the keys that are left.
    pub(super) fn names(&self) -> Vec<String> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone()).collect()
    }

    /// Reports every key that is left as lost, with what is said of it in `remarks`.
    pub(super) fn lost(self, notes: &mut ImportNotes, remarks: &[(&str, &str)]) {
        for name in self.names() {
            let said = remarks.iter().find(|(key, _)| *key == name).map(|(_, said)| *said);
            notes.lost(&self.path(&name), said.unwrap_or("it has no equivalent"));
        }
    }

    /// The same keys with names such as `sharding-total-count` in the form `shardingTotalCount`.
    pub(super) fn camel_case(self) -> Self {
        let map = self.map.into_iter().map(|(key, value)| (camel(&key), value)).collect();
        Self { at: self.at, map }
    }

    /// The keys as a value.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.map)
    }

    fn wrong(&self, key: &str, wanted: &str, found: &Value) -> ImportRefusal {
        ImportRefusal::new(&self.path(key), format!("it takes {wanted}, not {}", kind(found)))
    }
}

/// `sharding-total-count` as `shardingTotalCount`.
pub(super) fn camel(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| {
        let mut letters = word.chars();
        all + &letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    })
}

/// The text of a value that is neither a list nor a table.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    }
}
