//! The table of everything that can be set.

mod agent;
mod tuning;

use super::{Profile, Settings};

/// One setting: what it is called, what it means, and how it is stored.
#[derive(Debug)]
pub struct Key {
    /// Its name, in `snake_case`; flag and variable are spelt after it.
    pub name: &'static str,
    /// Stands for the value in help texts.
    pub value_name: &'static str,
    /// The group that it is listed under.
    pub heading: &'static str,
    /// What it means, in one line.
    pub help: &'static str,
    /// How its value is written.
    pub kind: Kind,
    /// A value to show where there is no default.
    pub example: &'static str,
    /// The default, as found in settings made from a profile; none where absence means something.
    pub(super) default: fn(&Settings) -> Option<String>,
    /// Stores a value, or adds one to a list. The error says what is wrong and the remedy.
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
}

/// How the value of a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, in quotes in a file.
    Text,
    /// A path; not accepted in a file, which cannot name another.
    OutsideFiles,
    /// A number, without quotes in a file.
    Number,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any number of texts: a repeated flag, a variable with commas, an array of this name in a
    /// file.
    List(&'static str),
}

impl Key {
    /// The flag, such as `--probe-period`.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.long())
    }

    /// The flag without its dashes.
    pub(super) fn long(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable, such as `RUMORD_PROBE_PERIOD`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("RUMORD_{}", self.name.to_ascii_uppercase())
    }

    /// The key in a file, such as `probe_period`; lists have a plural here.
    #[must_use]
    pub fn file_key(&self) -> &'static str {
        match self.kind {
            Kind::List(plural) => plural,
            _ => self.name,
        }
    }

    /// The default under `profile`, as text.
    #[must_use]
    pub fn default_text(&self, profile: Profile) -> Option<String> {
        (self.default)(&Settings::preset(profile))
    }

    /// The profiles whose default differs from that of `lan`, such as `local: 2s, wan: 10s`; none
    /// for the profile itself.
    pub(super) fn other_defaults(&self) -> Option<String> {
        let usual = self.default_text(Profile::Lan)?;
        let differing = [Profile::Local, Profile::Wan]
            .into_iter()
            .filter_map(|profile| {
                let default = self.default_text(profile).filter(|text| *text != usual)?;
                Some(format!("{}: {default}", profile.as_str()))
            });
        let text = differing.collect::<Vec<_>>().join(", ");
        (!text.is_empty() && self.name != "profile").then_some(text)
    }

    /// Whether the key accepts `text` by itself.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        (self.set)(&mut Settings::preset(Profile::Lan), text)
    }
}

/// Every key, in the order of listings. The profile stands before the keys that it presets.
pub fn all() -> impl Iterator<Item = &'static Key> {
    agent::KEYS.iter().chain(tuning::KEYS)
}
