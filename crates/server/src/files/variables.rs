//! The variables of job files: what a file declares, what the command line gives, and how they are put into texts.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Number, Value};

use crate::bounded;
use crate::exit::CliError;
use crate::text_input::nearest;

/// The size limit of a file of variables.
const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The longest name of a variable.
const NAME_MAX: usize = 64;

/// Values that the command line gives to variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenVariables {
    /// Those of `--var`, which win.
    named: BTreeMap<String, String>,
    /// Those of `--env-file`.
    listed: BTreeMap<String, String>,
}

impl GivenVariables {
    /// The values of `--var` and of the lines of files, of which later ones win.
    ///
    /// # Errors
    /// A file cannot be read, or has a line that gives no variable a value.
    pub(crate) fn read(named: &[(String, String)], files: &[impl AsRef<Path>]) -> Result<Self, CliError> {
        let mut listed = BTreeMap::new();
        for path in files.iter().map(AsRef::as_ref) {
            let shown = path.display();
            let text = bounded::text(path, ENV_FILE_BYTES_MAX)
                .map_err(|e| CliError::unreadable_input(shown.to_string(), &e))?;
            for (index, line) in text.lines().enumerate() {
                let pair =
                    env_line(line).map_err(|e| CliError::invalid(format!("{shown}:{}: {e}", index + 1)))?;
                listed.extend(pair);
            }
        }
        Ok(Self { named: named.iter().cloned().collect(), listed })
    }

    /// Whether `--var` gives no value.
    pub(super) fn names_none(&self) -> bool {
        self.named.is_empty()
    }

    /// The name of a value of `--var` that none of these variables takes, with the variable that was probably meant.
    ///
    /// # Errors
    /// There is such a name.
    pub(super) fn check_known<'a>(&self, known: impl Iterator<Item = &'a str>) -> Result<(), CliError> {
        let known: Vec<&str> = known.collect();
        let Some(unknown) = self.named.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        Err(CliError::invalid(format!("--var {unknown}: there is {}", absent(unknown, &known))))
    }

    fn get(&self, name: &str) -> Option<(&'static str, &str)> {
        let named = self.named.get(name).map(|value| ("--var", value.as_str()));
        named.or_else(|| self.listed.get(name).map(|value| ("--env-file", value.as_str())))
    }
}

/// Parses `NAME=VALUE`.
///
/// # Errors
/// It is no such text.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} gives no variable a value: write NAME=VALUE")),
    }
}

/// The variable and the value of a line: none in an empty one and in a comment. A value may stand in quotes; nothing in it
/// is replaced.
fn env_line(line: &str) -> Result<Option<(String, String)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = pair(line.strip_prefix("export ").unwrap_or(line).trim_start())?;
    let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    Ok(Some((name, quoted.unwrap_or(&value).to_owned())))
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= NAME_MAX && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Says that there is no such variable.
fn absent(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(meant) => format!("no variable {name:?}: did you mean {meant:?}?"),
        None if known.is_empty() => format!("no variable {name:?}: declare it in [variables]"),
        None => format!("no variable {name:?}: the variables are {}", known.join(", ")),
    }
}

/// The values that a variable takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VariableType {
    String,
    Integer,
    Number,
    Boolean,
}

/// A variable whose declaration is a table: one without a default needs a value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableTable {
    r#type: Option<VariableType>,
    default: Option<Value>,
    #[serde(rename = "description")]
    _description: Option<String>,
}

impl VariableType {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(_) => Some(Self::String),
            Value::Bool(_) => Some(Self::Boolean),
            Value::Number(number) if number.is_f64() => Some(Self::Number),
            Value::Number(_) => Some(Self::Integer),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::String => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        }
    }

    fn takes(self, value: &Value) -> bool {
        Self::of(value).is_some_and(|kind| kind == self || (self, kind) == (Self::Number, Self::Integer))
    }

    /// The value that this text stands for.
    fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::String => Some(Value::String(text.to_owned())),
            Self::Integer => text.parse::<i64>().ok().map(Value::from),
            Self::Boolean => text.parse::<bool>().ok().map(Value::from),
            Self::Number => match text.parse::<i64>() {
                Ok(whole) => Some(Value::from(whole)),
                Err(_) => text.parse().ok().and_then(Number::from_f64).map(Value::Number),
            },
        }
    }
}

/// The variables of a file with their values; one that needs a value and has none is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Variables(BTreeMap<String, Option<Value>>);

impl Variables {
    /// Adds declared variables with the values that they are given, else with their defaults.
    ///
    /// # Errors
    /// A declaration or a value is not valid: the name of the variable, and what is wrong.
    pub(super) fn declare(
        &mut self,
        declared: &Map<String, Value>,
        given: &GivenVariables,
    ) -> Result<(), (String, String)> {
        for (name, value) in declared {
            let value = variable(name, value, given).map_err(|what| (name.clone(), what))?;
            self.0.insert(name.clone(), value);
        }
        Ok(())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Puts the values into all texts in a value.
    ///
    /// # Errors
    /// A text names no variable, or one without a value: the key with the text, and what is wrong.
    pub(super) fn fill(&self, value: &mut Value) -> Result<(), (String, String)> {
        let below = |key: &str, (rest, what): (String, String)| match rest.is_empty() {
            true => (key.to_owned(), what),
            false => (format!("{key}.{rest}"), what),
        };
        match value {
            Value::String(text) if text.contains("{{") => {
                *value = self.text(text).map_err(|what| (String::new(), what))?;
                Ok(())
            }
            Value::Array(list) => list.iter_mut().try_for_each(|value| self.fill(value)),
            Value::Object(map) => map
                .iter_mut()
                .try_for_each(|(key, value)| self.fill(value).map_err(|failure| below(key, failure))),
            _ => Ok(()),
        }
    }

    /// A text with the values of the variables in it. One that is nothing but a variable is the value itself.
    fn text(&self, text: &str) -> Result<Value, String> {
        let alone = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        if let Some(name) = alone.map(str::trim).filter(|name| is_name(name)) {
            return self.value(name).cloned();
        }
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            filled += before;
            if let Some(after) = after.strip_prefix("{{") {
                filled += "{{";
                rest = after;
                continue;
            }
            let (name, after) =
                after.split_once("}}").ok_or("{{ has no }}: write {{{{ for two plain braces")?;
            match self.value(name.trim())? {
                Value::String(text) => filled += text,
                value => filled += &value.to_string(),
            }
            rest = after;
        }
        Ok(Value::String(filled + rest))
    }

    fn value(&self, name: &str) -> Result<&Value, String> {
        match self.0.get(name) {
            Some(Some(value)) => Ok(value),
            Some(None) => {
                Err(format!("the variable {name:?} has no value: give it one with --var {name}=VALUE"))
            }
            None if is_name(name) => {
                Err(format!("there is {}", absent(name, &self.names().collect::<Vec<_>>())))
            }
            None => Err(format!("{{{{{name}}}}} names no variable: write {{{{{{{{ for two plain braces")),
        }
    }
}

/// The value of a declared variable, if it has one.
fn variable(name: &str, declared: &Value, given: &GivenVariables) -> Result<Option<Value>, String> {
    if !is_name(name) {
        return Err(format!("a variable is called with 1 to {NAME_MAX} of A-Z a-z 0-9 _, no digit first"));
    }
    let (kind, default) = match declared {
        Value::Object(_) => table(declared)?,
        value => (VariableType::of(value), Some(value.clone())),
    };
    let kind = kind.ok_or(
        "takes a text, a number, true or false, which is the default, or a table as { type = \"integer\" } for one that \
         needs a value",
    )?;
    let Some((source, text)) = given.get(name) else { return Ok(default) };
    let value = kind.parse(text);
    // A line of a file is not shown: files of variables may have secrets for others, too.
    let shown = if source == "--var" { format!("{text:?}") } else { "another value".to_owned() };
    value.map(Some).ok_or_else(|| format!("takes {}, and {source} gives {shown}", kind.word()))
}

fn table(declared: &Value) -> Result<(Option<VariableType>, Option<Value>), String> {
    let read = VariableTable::deserialize(declared);
    let VariableTable { r#type, default, .. } = read.map_err(|e| {
        format!("{e}: it takes the keys type (\"string\", \"integer\", \"number\" or \"boolean\"), default and description")
    })?;
    let kind = r#type.or(default.as_ref().map_or(Some(VariableType::String), VariableType::of));
    match (kind, &default) {
        (Some(kind), Some(default)) if !kind.takes(default) => {
            Err(format!("default takes {}, not {default}", kind.word()))
        }
        _ => Ok((kind, default)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(named: &[&str]) -> GivenVariables {
        let named: Vec<_> = named.iter().map(|text| pair(text).expect("NAME=VALUE")).collect();
        GivenVariables::read(&named, &[] as &[&str]).expect("there is no file")
    }

    fn variables(declared: Value, named: &[&str]) -> Result<Variables, (String, String)> {
        let mut variables = Variables::default();
        let Value::Object(declared) = declared else { panic!("a table") };
        variables.declare(&declared, &given(named)).map(|()| variables)
    }

    #[test]
    fn a_text_that_is_only_a_variable_has_its_type_and_any_other_stays_a_text() {
        let declared = json!({ "n": 3, "big": { "type": "number", "default": 1 }, "on": true, "env": "dev" });
        let variables = variables(declared, &["env=prod", "big=1.5"]).expect("they are valid");
        for (text, expected) in [
            ("{{n}}", json!(3)),
            ("{{ n }}", json!(3)),
            ("{{on}}", json!(true)),
            ("{{big}}", json!(1.5)),
            ("{{env}}", json!("prod")),
            ("x-{{env}}-{{n}}", json!("x-prod-3")),
            ("{{n}}{{n}}", json!("33")),
            ("{{{{.Names}}", json!("{{.Names}}")),
            ("{a} }}", json!("{a} }}")),
        ] {
            let mut value = json!(text);
            variables.fill(&mut value).expect(text);
            assert_eq!(value, expected, "{text}");
        }
        let mut deep = json!({ "environment": { "A": "{{env}}" }, "command": ["x", "{{n}}"], "shards": 4 });
        variables.fill(&mut deep).expect("all are declared");
        assert_eq!(deep, json!({ "environment": { "A": "prod" }, "command": ["x", 3], "shards": 4 }));
    }

    #[test]
    fn what_a_text_names_wrongly_is_refused_with_its_key() {
        let variables = variables(json!({ "region": "eu", "token": {} }), &[]).expect("they are valid");
        let refused = |text: &str| {
            let mut value = json!({ "environment": { "A": text } });
            variables.fill(&mut value).expect_err(text)
        };
        for (text, expected) in [
            ("{{regoin}}", "did you mean \"region\"?"),
            ("{{x}}", "the variables are region, token"),
            ("{{token}}", "--var token=VALUE"),
            ("a {{ b", "has no }}"),
            ("{{.Names}}", "write {{{{"),
        ] {
            let (key, what) = refused(text);
            assert_eq!(key, "environment.A");
            assert!(what.contains(expected), "{what}");
        }
    }

    #[test]
    fn a_declaration_or_a_value_of_another_type_is_refused() {
        for (declared, named, expected) in [
            (json!({ "n": [1] }), vec![], "takes a text, a number"),
            (json!({ "n": { "type": "date" } }), vec![], "it takes the keys type"),
            (json!({ "n": { "typ": "integer" } }), vec![], "it takes the keys type"),
            (
                json!({ "n": { "type": "integer", "default": "3" } }),
                vec![],
                "default takes a whole number, not \"3\"",
            ),
            (json!({ "n": 3 }), vec!["n=three"], "takes a whole number, and --var gives \"three\""),
            (json!({ "n": true }), vec!["n=1"], "takes true or false"),
        ] {
            let (name, what) = variables(declared.clone(), &named).expect_err("it is wrong");
            assert_eq!(name, "n");
            assert!(what.contains(expected), "{declared}: {what}");
        }
        assert!(variables(json!({ "a-b": 1 }), &[]).is_err());
        let unknown = given(&["regoin=us"]).check_known(["region"].into_iter()).expect_err("unknown").message;
        assert!(unknown.contains("did you mean \"region\""), "{unknown}");
    }

    #[test]
    fn lines_of_a_file_give_values_and_the_command_line_wins() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "# a comment\n\nexport A=1\nB='x y'\nC=\"\"\nD=a=b\n").expect("written");
        let named = [pair("A=2").expect("a pair")];
        let given = GivenVariables::read(&named, &[file.path()]).expect("it is valid");
        let get = |name: &str| given.get(name).map(|(_, value)| value.to_owned());
        assert_eq!(
            ["A", "B", "C", "D", "E"].map(get),
            [Some("2".to_owned()), Some("x y".to_owned()), Some(String::new()), Some("a=b".to_owned()), None]
        );
        std::fs::write(file.path(), "A=1\nno value\n").expect("written");
        let refused = GivenVariables::read(&[], &[file.path()]).expect_err("line 2").message;
        assert!(refused.contains(":2: ") && refused.contains("NAME=VALUE"), "{refused}");
    }
}
