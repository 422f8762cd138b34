//! Settings from the command line: the table of keys as clap arguments.

use std::collections::BTreeMap;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::Profile;
use super::error::{Place, SettingsError};
use super::given::{Given, Value};
use super::keys::{self, Key, Kind};

/// The flags that were given, as text that their keys have accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<&'static str, Vec<String>>);

impl Flags {
    pub(super) fn given(&self) -> Result<Given, SettingsError> {
        let mut given = Given::default();
        for key in keys::all() {
            for text in self.0.get(key.name).into_iter().flatten() {
                let value = Value {
                    text: text.clone(),
                    place: Place::Flag(key.flag()),
                };
                given.add(key, value)?;
            }
        }
        Ok(given)
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(keys::all().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Flags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for key in keys::all() {
            if let Some(texts) = matches.get_many::<String>(key.name) {
                self.0.insert(key.name, texts.cloned().collect());
            }
        }
        Ok(())
    }
}

fn arg(key: &'static Key) -> Arg {
    let action = match key.kind {
        Kind::List(_) => ArgAction::Append,
        _ => ArgAction::Set,
    };
    Arg::new(key.name)
        .long(key.long())
        .value_name(key.value_name)
        .help(help(key))
        .help_heading(key.heading)
        .action(action)
        .value_parser(value_parser(key))
        .value_hint(value_hint(key))
}

fn value_parser(key: &'static Key) -> ValueParser {
    match key.kind {
        Kind::Choice(words) => PossibleValuesParser::new(words).into(),
        _ => ValueParser::new(move |text: &str| key.check(text).map(|()| text.to_owned())),
    }
}

fn value_hint(key: &Key) -> ValueHint {
    match key.value_name {
        "FILE" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        _ => ValueHint::Other,
    }
}

fn help(key: &Key) -> String {
    let mut text = key.help.to_owned();
    if let Some(default) = key.default_text(Profile::Lan) {
        let others = key.other_defaults().map(|others| format!("; {others}"));
        text += &format!(" [default: {default}{}]", others.unwrap_or_default());
    }
    text + &format!(" [env: {}]", key.variable())
}
