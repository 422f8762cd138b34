//! The commented default file.

use super::Profile;
use super::file::in_toml;
use super::keys::{self, Key, Kind};
use super::targets;

const HEAD: &str = "\
# Settings of the rumord agent, at their defaults: profile lan, one data centre.
#
# Each key is also a flag (probe_period: --probe-period, tags: --tag) and an environment variable
# (RUMORD_PROBE_PERIOD, RUMORD_TAG). A flag wins over a variable, a variable over this file.
# `rumord config check FILE` checks a file.
";

/// A settings file with every key and its default, each with a comment. Keys that have none are
/// commented out.
#[must_use]
pub fn default_file() -> String {
    let mut text = HEAD.to_owned();
    let mut heading = "";
    for key in keys::all().filter(|key| key.kind != Kind::OutsideFiles) {
        if key.heading != heading {
            heading = key.heading;
            text += &format!("\n# --- {heading} ---\n");
        }
        text += &entry(key);
    }
    text + targets::EXAMPLE
}

fn entry(key: &Key) -> String {
    let others = key
        .other_defaults()
        .map(|others| format!("# Other profiles have {others}.\n"));
    let default = key.default_text(Profile::Lan);
    let mark = if default.is_none() { "# " } else { "" };
    let value = in_toml(key, default.as_deref().unwrap_or(key.example));
    format!(
        "\n# {}.\n{}{note}{mark}{} = {value}\n",
        key.help,
        others.unwrap_or_default(),
        key.file_key(),
        note = note(key),
    )
}

/// What someone who edits the file must know on top of the help.
fn note(key: &Key) -> &'static str {
    match key.name {
        "profile" => {
            "# What this file sets below wins over the profile: with another profile, delete the\n\
             # keys below that you do not want to fix.\n"
        }
        _ => "",
    }
}
