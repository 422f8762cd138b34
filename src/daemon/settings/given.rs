//! The values that one or more sources give, each with its place.

use std::collections::BTreeMap;

use super::error::{Place, SettingsError};
use super::keys::{self, Key};
use super::{Profile, Settings, Target};

/// One value as it was written.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// The text.
    pub text: String,
    /// Where it stands.
    pub place: Place,
}

/// Values by the name of their key; each has passed its key's own check.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    values: BTreeMap<&'static str, Vec<Value>>,
    /// Who is told of events; only a file says so.
    pub(super) targets: Vec<Target>,
}

impl Given {
    /// Adds a value of `key`.
    ///
    /// # Errors
    /// The key does not accept it.
    pub fn add(&mut self, key: &'static Key, value: Value) -> Result<(), SettingsError> {
        key.check(&value.text)
            .map_err(|reason| SettingsError::value(&value.place, key, &value.text, &reason))?;
        self.values.entry(key.name).or_default().push(value);
        Ok(())
    }

    /// Notes that `key` was given without any value: an empty list.
    pub fn add_empty(&mut self, key: &'static Key) {
        self.values.entry(key.name).or_default();
    }

    /// These values, except where `stronger` has the key.
    pub fn overridden_by(mut self, stronger: Given) -> Given {
        self.values.extend(stronger.values);
        self
    }

    /// The first value of the key named `name`.
    pub fn first(&self, name: &str) -> Option<&Value> {
        self.values.get(name)?.first()
    }

    /// The last value of the key named `name`.
    pub fn last(&self, name: &str) -> Option<&Value> {
        self.values.get(name)?.last()
    }

    /// Settings with these values. The table's order puts the profile before what it presets.
    ///
    /// # Errors
    /// A value that clashes with an earlier one of the same key.
    pub fn apply(&self) -> Result<Settings, SettingsError> {
        self.apply_except(None)
    }

    /// As [`Given::apply`], leaving out the key named `skipped`.
    pub fn apply_except(&self, skipped: Option<&str>) -> Result<Settings, SettingsError> {
        let mut settings = Settings::preset(Profile::Lan);
        for key in keys::all().filter(|key| Some(key.name) != skipped) {
            for Value { text, place } in self.values.get(key.name).into_iter().flatten() {
                (key.set)(&mut settings, text)
                    .map_err(|reason| SettingsError::value(place, key, text, &reason))?;
            }
        }
        settings.targets.clone_from(&self.targets);
        Ok(settings)
    }
}
