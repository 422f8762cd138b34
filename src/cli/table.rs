//! Aligned columns, and the member table in them.

use std::collections::BTreeMap;

use super::api::{Member, Table};
use super::output::visible;

/// Characters of tags in one row; what is beyond is counted.
const TAGS_WIDTH_MAX: usize = 120;

/// Lines of `rows`, each column as wide as its widest cell; the last one is left ragged.
pub(super) fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The member table as text, with its heading.
pub(super) fn members(table: &Table) -> String {
    let heading = [
        "NAME",
        "ADDRESS",
        "STATUS",
        "GENERATION",
        "INCARNATION",
        "PHI",
        "RTT",
        "SINCE",
        "TAGS",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(table.members.iter().map(row));
    align(&rows)
}

/// Tags as far as they fit a line of a table; the JSON has all.
fn tags(tags: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (number, (key, value)) in tags.iter().enumerate() {
        let shown = visible(&format!("{key}={value}"));
        let comma = if number > 0 { "," } else { "" };
        if text.chars().count() + shown.chars().count() > TAGS_WIDTH_MAX {
            return format!("{text}{comma}..{} more", tags.len() - number);
        }
        text.push_str(comma);
        text.push_str(&shown);
    }
    if text.is_empty() { "-".into() } else { text }
}

fn row(member: &Member) -> [String; 9] {
    [
        visible(&member.name),
        member.address.as_deref().map_or("-".into(), visible),
        visible(&member.status),
        member.generation.to_string(),
        member.incarnation.to_string(),
        format!("{:.1}", member.phi),
        member
            .rtt_ms
            .map_or("-".into(), |rtt| format!("{rtt:.1}ms")),
        visible(&member.since),
        tags(&member.tags),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_tags_are_cut_and_counted() {
        let pair = |n: usize| (format!("k{n}"), "v".repeat(40));
        let many: BTreeMap<_, _> = (0..9).map(pair).collect();
        let text = tags(&many);
        assert!(
            text.starts_with("k0=vvv") && text.ends_with(",..7 more"),
            "{text}"
        );
        let large = BTreeMap::from([("k".to_owned(), "v".repeat(65_000))]);
        assert_eq!(tags(&large), "..1 more");
        assert_eq!(tags(&BTreeMap::new()), "-");
    }

    #[test]
    fn columns_are_aligned_and_gaps_are_dashes() {
        let table: Table = serde_json::from_value(json!({
            "index": 1, "counts": {"alive": 2, "suspect": 0, "dead": 0, "left": 0},
            "members": [
                {"name": "a", "address": "127.0.0.1:7480", "status": "alive", "generation": 7,
                 "incarnation": 0, "phi": 0.04, "rtt_ms": null,
                 "since": "2026-01-01T00:00:00.000Z", "tags": {"rack": "1", "zone": "a"}},
                {"name": "long-name", "address": null, "status": "suspect", "generation": 7,
                 "incarnation": 2, "phi": 5.25, "rtt_ms": 0.31,
                 "since": "2026-01-01T00:00:00.000Z", "tags": {}},
            ],
        }))
        .expect("a table");
        let text = members(&table);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("NAME       ADDRESS         STATUS   GENERATION"),
            "{text}"
        );
        assert!(
            lines[1].ends_with("0.0  -      2026-01-01T00:00:00.000Z  rack=1,zone=a"),
            "{text}"
        );
        assert!(
            lines[2].starts_with("long-name  -               suspect  7"),
            "{text}"
        );
        assert!(
            lines[2].ends_with("5.2  0.3ms  2026-01-01T00:00:00.000Z  -"),
            "{text}"
        );
    }
}
