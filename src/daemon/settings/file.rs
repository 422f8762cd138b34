//! Settings from a TOML file, each with its line.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::{Place, SettingsError};
use super::given::{Given, Value};
use super::keys::{self, Key, Kind};
use super::suggest;
use super::targets;

/// Reads the file at `path`. Its values are checked one by one, in the order of their lines.
pub(super) fn read(path: &Path) -> Result<Given, SettingsError> {
    let text = fs::read_to_string(path).map_err(|error| {
        let problem = format!("cannot be read ({error}); check the path and its permissions");
        SettingsError::file(path.into(), &problem)
    })?;
    parse(path, &text)
}

/// As [`read`], of a text that would stand at `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Given, SettingsError> {
    let file = File { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        let place = file.place(error.span().unwrap_or_default());
        let remedy = "write each setting as key = value";
        SettingsError::at(
            &place,
            format!("is no TOML ({}); {remedy}", error.message()),
        )
    })?;
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut given = Given::default();
    for (name, value) in entries {
        let place = file.place(name.span());
        if targets::describes(name.get_ref()) {
            let source = targets::Source {
                kind: name.get_ref(),
                place: |span| file.place(span),
            };
            source.read(value, &mut given.targets)?;
            continue;
        }
        let key = find(name.get_ref()).map_err(|problem| SettingsError::at(&place, problem))?;
        file.add(&mut given, key, value)?;
    }
    Ok(given)
}

/// The key called `name` in a file.
fn find(name: &str) -> Result<&'static Key, String> {
    let key = keys::all().find(|key| key.file_key() == name);
    match key {
        Some(key) if key.kind != Kind::OutsideFiles => Ok(key),
        Some(_) => Err(format!(
            "{name} is for flags and variables; remove it from the file"
        )),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let singular = keys::all().find(|key| key.name == name).map(Key::file_key);
    let in_files = keys::all()
        .filter(|key| key.kind != Kind::OutsideFiles)
        .map(Key::file_key);
    match singular.or_else(|| suggest::nearest(name, in_files)) {
        Some(near) => format!("unknown key {name:?}; did you mean {near}?"),
        None => format!("unknown key {name:?}; `rumord config default` lists all keys"),
    }
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn place(&self, span: Range<usize>) -> Place {
        let before = self
            .text
            .as_bytes()
            .get(..span.start)
            .unwrap_or(self.text.as_bytes());
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        Place::Line(PathBuf::from(self.path), line)
    }

    fn add(
        &self,
        given: &mut Given,
        key: &'static Key,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), SettingsError> {
        match (key.kind, value.get_ref()) {
            (Kind::List(_), DeValue::Array(items)) => self.add_items(given, key, items),
            (Kind::List(_), _) => Err(self.wrong_type(key, value)),
            _ => self.add_one(given, key, value),
        }
    }

    fn add_items(
        &self,
        given: &mut Given,
        key: &'static Key,
        items: &DeArray<'_>,
    ) -> Result<(), SettingsError> {
        given.add_empty(key);
        items
            .iter()
            .try_for_each(|item| self.add_one(given, key, item))
    }

    fn add_one(
        &self,
        given: &mut Given,
        key: &'static Key,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), SettingsError> {
        let text = text_of(key, value.get_ref()).ok_or_else(|| self.wrong_type(key, value))?;
        given.add(
            key,
            Value {
                text,
                place: self.place(value.span()),
            },
        )
    }

    fn wrong_type(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> SettingsError {
        let name = key.file_key();
        let kind = value.get_ref().type_str();
        let sample = sample(key);
        let problem = format!("{name} cannot be of type {kind}; write it like {name} = {sample}");
        SettingsError::at(&self.place(value.span()), problem)
    }
}

/// The value as a flag would give it; none if its type does not suit the key.
fn text_of(key: &Key, value: &DeValue<'_>) -> Option<String> {
    match (value, key.kind) {
        (DeValue::String(text), _) => Some(text.to_string()),
        (DeValue::Integer(number), Kind::Number) => Some(decimal(number)),
        (DeValue::Float(number), Kind::Number) => Some(number.as_str().into()),
        (DeValue::Boolean(yes), Kind::Choice(words)) => {
            let word = if *yes { "on" } else { "off" };
            words.contains(&word).then(|| word.into())
        }
        _ => None,
    }
}

/// TOML also has hexadecimal, octal and binary numbers.
fn decimal(number: &toml::de::DeInteger<'_>) -> String {
    i128::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.to_string(), |value| value.to_string())
}

/// A right value of `key`, as written in a file.
fn sample(key: &Key) -> String {
    let default = key.default_text(super::Profile::Lan);
    in_toml(key, default.as_deref().unwrap_or(key.example))
}

/// Writes `text`, a value of `key`, as TOML.
pub(super) fn in_toml(key: &Key, text: &str) -> String {
    let quoted = || toml::Value::from(text).to_string();
    match key.kind {
        Kind::Number => text.into(),
        Kind::List(_) => format!("[{}]", quoted()),
        _ => quoted(),
    }
}
