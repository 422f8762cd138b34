//! Checks that concern several settings at once.

use crate::member::{Generation, Metadata, NodeId, WireRange};
use crate::protocol::ConfigError;

use super::error::{Place, SettingsError};
use super::given::{Given, Value};
use super::{HttpWrites, Settings, keys};

/// Checks the sum of all sources, and blames the value that spoilt it.
pub(super) fn sum(settings: &Settings, given: &Given) -> Result<(), SettingsError> {
    protocol(settings, given)?;
    metadata(settings, given)?;
    writes(settings, given)
}

fn protocol(settings: &Settings, given: &Given) -> Result<(), SettingsError> {
    let Err(error) = settings.protocol.check() else {
        return Ok(());
    };
    let problem = error.to_string();
    if let Some(value) = given.last(error.key) {
        return Err(SettingsError::at(&value.place, problem));
    }
    // The profile stands first in the table, so that a single key is blamed rather than it.
    let culprit = keys::all()
        .filter(|key| is_cause(key.name, &error, given))
        .last()
        .and_then(|key| Some((key, given.last(key.name)?)));
    Err(match culprit {
        Some((key, value)) => SettingsError::value(&value.place, key, &value.text, &problem),
        None => SettingsError::at(&Place::Flag(error.key.into()), problem),
    })
}

/// Whether `error` goes away, or changes, without the key named `name`.
fn is_cause(name: &str, error: &ConfigError, given: &Given) -> bool {
    given.last(name).is_some()
        && given
            .apply_except(Some(name))
            .is_ok_and(|without| without.protocol.check().as_ref() != Err(error))
}

fn metadata(settings: &Settings, given: &Given) -> Result<(), SettingsError> {
    let metadata = Metadata {
        generation: Generation(1),
        node_id: NodeId(1),
        version: 0,
        // The real address is detected later, and checked then.
        address: ([127, 0, 0, 1], 1).into(),
        tags: settings.tags.clone(),
        services: settings.services.clone(),
        wire: WireRange { min: 1, max: 1 },
        maintenance: None,
    };
    let error = |error| blame(given, ["tag", "service"], format!("{error}"));
    metadata.check().map_err(error)
}

/// There is no authentication yet, so writes stay on this host.
fn writes(settings: &Settings, given: &Given) -> Result<(), SettingsError> {
    match settings.http {
        Some(http) if settings.http_writes == HttpWrites::On && !http.ip().is_loopback() => {
            let problem = format!(
                "http_writes = on would let everybody who reaches {http} write; bind http to a \
                 loopback address or leave http_writes on auto"
            );
            Err(blame(given, ["http_writes", "http"], problem))
        }
        _ => Ok(()),
    }
}

/// Blames whichever of `names` was given by the stronger source: it overrode what fitted.
fn blame(given: &Given, names: [&'static str; 2], problem: String) -> SettingsError {
    let places = names
        .iter()
        .filter_map(|name| given.last(name))
        .map(|Value { place, .. }| place);
    let culprit = places.max().cloned();
    SettingsError::at(&culprit.unwrap_or(Place::Flag(names[0].into())), problem)
}
