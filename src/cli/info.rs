//! `rumord info`: this node.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::client::Target;
use super::output::visible;
use super::table::align;
use super::{Failure, print};

/// Arguments of `rumord info`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// One line for each fact
    Text,
    /// The API's JSON
    Json,
}

/// Prints what the daemon says of itself.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let body: Value = arguments.target.client()?.get("/v1/self")?;
    match arguments.format {
        Format::Json => print(&format!("{body:#}\n")),
        Format::Text => print(&text(&body)),
    }
}

fn text(body: &Value) -> String {
    let mut rows = Vec::new();
    flatten("", body, &mut rows);
    align(&rows)
}

/// Nested objects become dotted keys.
fn flatten(path: &str, value: &Value, rows: &mut Vec<[String; 2]>) {
    if let Value::Object(fields) = value {
        for (key, value) in fields {
            let dot = if path.is_empty() { "" } else { "." };
            flatten(&format!("{path}{dot}{key}"), value, rows);
        }
        return;
    }
    let shown = match value {
        Value::Null => "-".into(),
        Value::String(text) => visible(text),
        other => visible(&other.to_string()),
    };
    rows.push([visible(path), shown]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_counters_become_dotted_lines() {
        let body = json!({
            "name": "n1", "advertised": null,
            "counters": {"bytes": {"sent": {"datagram": 9}}},
        });
        let mut lines: Vec<String> = text(&body).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "advertised                    -",
                "counters.bytes.sent.datagram  9",
                "name                          n1",
            ]
        );
    }
}
