//! Programs and HTTP targets that are told of events: tables of their own in a file.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Place, SettingsError};
use super::suggest;
use super::values::Text;
use crate::daemon::outbox::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, Action, Filter, TIMEOUT_DEFAULT, TIMEOUT_MAX, Target,
};
use crate::member::{NodeName, TAG_KEY_BYTES_MAX};
use crate::protocol::EventKind;

/// Most targets of an agent.
const TARGETS_MAX: usize = 64;
/// Headers that every call has anyway.
const OWN_HEADERS: [&str; 4] = ["content-type", "content-length", "host", "idempotency-key"];

/// The kinds of table, each with the key that says how it is told.
const HANDLER: &str = "handler";
const WEBHOOK: &str = "webhook";
const KEYS_OF_ALL: [&str; 6] = ["name", "kinds", "names", "tags", "timeout", "attempts"];

/// What a file must show of them to whoever edits it.
pub(super) const EXAMPLE: &str = "
# --- Handlers and webhooks ---
#
# Who is told of events, at least once each; `rumord outbox list` shows what could not be told.
# Only kinds, names and tags that are given restrict: names are those of members for their changes,
# and of events for those that clients sent; tags are the member's, or those of the member that sent
# the event. A handler has the event as JSON on its standard input, and its fields in
# RUMORD_EVENT_KIND, RUMORD_EVENT_ID and so on. A webhook is posted it, with its id as
# Idempotency-Key.
#
# [[handler]]
# name = \"on-failure\"
# command = [\"/usr/local/bin/on-failure\", \"--verbose\"]
# kinds = [\"member-suspect\", \"member-dead\"]
# tags = { role = \"db\" }
# timeout = \"30s\"
# attempts = 8
#
# [[webhook]]
# name = \"deploys\"
# url = \"http://127.0.0.1:9000/deploys\"
# headers = { Authorization = \"Bearer secret\" }
# kinds = [\"user\"]
# names = [\"deploy\"]
";

/// Whether tables called `name` describe targets.
pub(super) fn describes(name: &str) -> bool {
    [HANDLER, WEBHOOK].contains(&name)
}

/// One table of a file: where it stands, what kind it is, and how to find the places in it.
pub(super) struct Source<'a, F> {
    pub(super) kind: &'a str,
    pub(super) place: F,
}

impl<F: Fn(std::ops::Range<usize>) -> Place> Source<'_, F> {
    /// Reads every `[[handler]]` or `[[webhook]]`, and adds it to `targets`.
    pub(super) fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        targets: &mut Vec<Target>,
    ) -> Result<(), SettingsError> {
        let kind = self.kind;
        let wrong = |span| {
            let problem = format!("{kind} must be a list of tables; begin each with [[{kind}]]");
            SettingsError::at(&(self.place)(span), problem)
        };
        let DeValue::Array(tables) = value.get_ref() else {
            return Err(wrong(value.span()));
        };
        for table in tables {
            let DeValue::Table(fields) = table.get_ref() else {
                return Err(wrong(table.span()));
            };
            let target = self.target(table.span(), fields)?;
            let place = (self.place)(table.span());
            if targets.iter().any(|other| other.name == target.name) {
                let problem = format!("two targets are called {:?}; rename one", target.name);
                return Err(SettingsError::at(&place, problem));
            }
            if targets.len() >= TARGETS_MAX {
                let problem = format!("more than {TARGETS_MAX} handlers and webhooks; join some");
                return Err(SettingsError::at(&place, problem));
            }
            targets.push(target);
        }
        Ok(())
    }

    fn target(
        &self,
        span: std::ops::Range<usize>,
        fields: &DeTable<'_>,
    ) -> Result<Target, SettingsError> {
        let mut target = Target {
            name: String::new(),
            action: match self.kind {
                WEBHOOK => Action::Webhook {
                    url: String::new(),
                    headers: BTreeMap::new(),
                },
                _ => Action::Program {
                    command: Vec::new(),
                },
            },
            filter: Filter::default(),
            timeout: TIMEOUT_DEFAULT,
            attempts: ATTEMPTS_DEFAULT,
        };
        for (key, value) in fields {
            set(&mut target, key.get_ref(), value.get_ref()).map_err(|problem| {
                let text = format!("{} of a {}: {problem}", key.get_ref(), self.kind);
                SettingsError::at(&(self.place)(value.span()), text)
            })?;
        }
        let lacking = match &target.action {
            _ if target.name.is_empty() => Some("name = \"NAME\""),
            Action::Program { command } if command.is_empty() => {
                Some("command = [\"PROGRAM\", \"ARGUMENT\"]")
            }
            Action::Webhook { url, .. } if url.is_empty() => Some("url = \"http://HOST/PATH\""),
            _ => None,
        };
        match lacking {
            Some(example) => {
                let problem = format!("this {} lacks {example}; add it", self.kind);
                Err(SettingsError::at(&(self.place)(span), problem))
            }
            None => Ok(target),
        }
    }
}

fn set(target: &mut Target, key: &str, value: &DeValue<'_>) -> Result<(), String> {
    match (key, &mut target.action) {
        ("name", _) => target.name = NodeName::read(text(value)?)?.to_string(),
        ("kinds", _) => target.filter.kinds = kinds(value)?,
        ("names", _) => target.filter.names = texts(value)?,
        ("tags", _) => target.filter.tags = pairs(value)?,
        ("timeout", _) => target.timeout = timeout(value)?,
        ("attempts", _) => target.attempts = attempts(value)?,
        ("command", Action::Program { command }) => *command = program(value)?,
        ("url", Action::Webhook { url, .. }) => *url = http_url(text(value)?)?,
        ("headers", Action::Webhook { headers, .. }) => *headers = checked_headers(value)?,
        (unknown, action) => return Err(not_a_key(unknown, action)),
    }
    Ok(())
}

fn not_a_key(unknown: &str, action: &Action) -> String {
    let own: &[&str] = match action {
        Action::Program { .. } => &["command"],
        Action::Webhook { .. } => &["url", "headers"],
    };
    let known = || KEYS_OF_ALL.iter().chain(own).copied();
    match suggest::nearest(unknown, known()) {
        Some(near) => format!("unknown key; did you mean {near}?"),
        None => {
            let known: Vec<&str> = known().collect();
            format!("unknown key; it takes {}", known.join(", "))
        }
    }
}

fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    match value {
        DeValue::String(text) => Ok(text),
        other => Err(format!(
            "cannot be of type {}; write a text in quotes",
            other.type_str()
        )),
    }
}

fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let DeValue::Array(items) = value else {
        let kind = value.type_str();
        return Err(format!(
            "cannot be of type {kind}; write a list of texts in quotes"
        ));
    };
    let one = |item: &Spanned<DeValue<'_>>| text(item.get_ref()).map(str::to_owned);
    items.iter().map(one).collect()
}

fn pairs(value: &DeValue<'_>) -> Result<BTreeMap<String, String>, String> {
    let DeValue::Table(fields) = value else {
        let kind = value.type_str();
        return Err(format!(
            "cannot be of type {kind}; write {{ key = \"value\" }}"
        ));
    };
    let mut pairs = BTreeMap::new();
    for (key, value) in fields {
        if key.get_ref().len() > TAG_KEY_BYTES_MAX {
            return Err(format!(
                "a key has at most {TAG_KEY_BYTES_MAX} bytes; shorten it"
            ));
        }
        pairs.insert(key.get_ref().to_string(), text(value.get_ref())?.to_owned());
    }
    Ok(pairs)
}

fn kinds(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let kinds = texts(value)?;
    for kind in &kinds {
        if event_kinds().all(|known| known != kind) {
            let known = event_kinds().collect::<Vec<_>>().join(", ");
            return Err(match suggest::nearest(kind, event_kinds()) {
                Some(near) => format!("{kind:?} is no kind of event; did you mean {near}?"),
                None => format!("{kind:?} is no kind of event; there are {known}"),
            });
        }
    }
    Ok(kinds)
}

/// What the log calls its entries.
fn event_kinds() -> impl Iterator<Item = &'static str> {
    let of_members = EventKind::ALL.iter().map(|kind| kind.as_str());
    of_members.chain(["user"])
}

fn timeout(value: &DeValue<'_>) -> Result<Duration, String> {
    let timeout = Duration::read(text(value)?)?;
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        return Err("must be more than 0 and at most 1h; write it as 30s".into());
    }
    Ok(timeout)
}

fn attempts(value: &DeValue<'_>) -> Result<u32, String> {
    let number = match value {
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    number
        .filter(|number| (1..=ATTEMPTS_MAX).contains(number))
        .ok_or_else(|| format!("must be a number from 1 to {ATTEMPTS_MAX}"))
}

fn program(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let command = texts(value)?;
    if command.first().is_none_or(String::is_empty) {
        return Err("is empty; name the program, then its arguments".into());
    }
    if command.iter().any(|word| word.contains('\0')) {
        return Err("holds a NUL byte; remove it".into());
    }
    Ok(command)
}

fn http_url(text: &str) -> Result<String, String> {
    let uri = text.parse::<ureq::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    match uri.as_ref().and_then(|uri| uri.scheme_str()) {
        Some("http") if !host.is_empty() => Ok(text.to_owned()),
        Some("https") => Err(
            "https is not spoken yet; give an http:// URL, of a local proxy if the target is far"
                .into(),
        ),
        _ => Err("is no URL to post to; write it as http://HOST:PORT/PATH".into()),
    }
}

fn checked_headers(value: &DeValue<'_>) -> Result<BTreeMap<String, String>, String> {
    use ureq::http::{HeaderName, HeaderValue};
    let headers = pairs(value)?;
    for (name, value) in &headers {
        if name.parse::<HeaderName>().is_err() || HeaderValue::from_str(value).is_err() {
            return Err(format!(
                "{name:?} is no header with a valid value; correct it"
            ));
        }
        if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("{name} is set by the agent itself; remove it"));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Settings, assemble, file};
    use super::*;

    fn parsed(text: &str) -> Result<Settings, SettingsError> {
        assemble(&file::parse(Path::new("x.toml"), text)?)
    }

    #[test]
    fn the_example_of_the_default_file_is_right() {
        let lines = EXAMPLE.lines().skip_while(|line| *line != "# [[handler]]");
        let bare: String = lines
            .map(|line| format!("{}\n", line.trim_start_matches('#').trim_start()))
            .collect();
        let targets = parsed(&bare).expect("valid").targets;
        assert_eq!(targets.len(), 2);
        assert_eq!(targets[0].filter.kinds, ["member-suspect", "member-dead"]);
        assert_eq!(targets[0].filter.tags["role"], "db");
        assert_eq!(targets[0].timeout, TIMEOUT_DEFAULT);
        let Action::Webhook { url, headers } = &targets[1].action else {
            panic!("a webhook is one");
        };
        assert_eq!(url, "http://127.0.0.1:9000/deploys");
        assert_eq!(headers["Authorization"], "Bearer secret");
        assert_eq!(targets[1].attempts, ATTEMPTS_DEFAULT);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_a_remedy() {
        let handler = "[[handler]]\nname = \"a\"\ncommand = [\"true\"]\n";
        let webhook = "[[webhook]]\nname = \"a\"\nurl = \"http://h/\"\n";
        let cases = [
            (
                "handler = 3".into(),
                "x.toml:1: handler must be a list of tables",
            ),
            (
                "[[handler]]\ncommand = [\"true\"]".into(),
                "lacks name = \"NAME\"",
            ),
            ("[[handler]]\nname = \"a\"".into(), "lacks command = "),
            ("[[webhook]]\nname = \"a\"".into(), "lacks url = "),
            (
                format!("{handler}url = \"http://h/\""),
                "x.toml:4: url of a handler: unknown key",
            ),
            (
                format!("{handler}kinds = [\"member-ded\"]"),
                "did you mean member-dead?",
            ),
            (
                format!("{handler}kinds = \"user\""),
                "write a list of texts",
            ),
            (format!("{handler}timeout = \"2h\""), "at most 1h"),
            (format!("{handler}attempts = 0"), "a number from 1 to 100"),
            (format!("{handler}atempts = 1"), "did you mean attempts?"),
            (
                format!("{handler}tags = [\"a\"]"),
                "write { key = \"value\" }",
            ),
            (
                format!("{handler}{webhook}"),
                "two targets are called \"a\"",
            ),
            (
                webhook.replace("http://", "https://"),
                "https is not spoken yet",
            ),
            (webhook.replace("http://h/", "h"), "is no URL to post to"),
            (
                format!("{webhook}headers = {{ Host = \"x\" }}"),
                "set by the agent itself",
            ),
            (
                format!("{webhook}headers = {{ \"a b\" = \"x\" }}"),
                "is no header",
            ),
        ];
        for (text, expected) in cases {
            let error = parsed(&text).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{expected} in {error}");
        }
    }
}
