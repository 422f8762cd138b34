//! Settings from environment variables.

use std::ffi::OsString;

use super::error::{Place, SettingsError};
use super::given::{Given, Value};
use super::keys::{self, Key, Kind};

/// Looks every key's variable up. An empty variable counts as absent: that is what a deployment
/// leaves behind for an option that was not filled in.
pub(super) fn read(env: impl Fn(&str) -> Option<OsString>) -> Result<Given, SettingsError> {
    let mut given = Given::default();
    for key in keys::all() {
        match env(&key.variable()) {
            Some(text) if !text.is_empty() => add(&mut given, key, text)?,
            _ => {}
        }
    }
    Ok(given)
}

fn add(given: &mut Given, key: &'static Key, text: OsString) -> Result<(), SettingsError> {
    let place = Place::Variable(key.variable());
    let text = text.into_string().map_err(|text| {
        SettingsError::at(&place, format!("{text:?} is not UTF-8; write it in UTF-8"))
    })?;
    if !matches!(key.kind, Kind::List(_)) {
        return given.add(key, Value { text, place });
    }
    for item in text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let value = Value {
            text: item.into(),
            place: place.clone(),
        };
        given.add(key, value)?;
    }
    Ok(())
}
