//! Documents of the server as text for an operator: keys with values, lists of objects as tables.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Returns a document as text.
pub(super) fn text(document: &Value) -> String {
    let mut out = String::new();
    show(document, 0, &mut out);
    out
}

fn show(value: &Value, indent: usize, out: &mut String) {
    let Value::Object(entries) = value else {
        let _ = writeln!(out, "{:indent$}{}", "", scalar(value));
        return;
    };
    let width = entries.keys().map(String::len).max().unwrap_or(0) + 1;
    for (key, value) in entries {
        let label = format!("{}:", key.replace('_', " "));
        match value {
            Value::Object(_) => {
                let _ = writeln!(out, "{:indent$}{label}", "");
                show(value, indent + 2, out);
            }
            Value::Array(rows) if rows.iter().any(Value::is_object) => {
                let _ = writeln!(out, "{:indent$}{label}", "");
                table(rows, indent + 2, out);
            }
            value => {
                let _ = writeln!(out, "{:indent$}{label:width$} {}", "", scalar(value));
            }
        }
    }
}

/// Shows a list of objects with the same keys as a table.
fn table(rows: &[Value], indent: usize, out: &mut String) {
    let Some(keys) = rows.first().and_then(Value::as_object).map(Map::keys) else { return };
    let heads: Vec<String> = keys.map(|key| key.replace('_', " ")).collect();
    let cells = |row: &Value| -> Vec<String> {
        row.as_object().map(|row| row.values().map(scalar).collect()).unwrap_or_default()
    };
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(cells)).collect();
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| {
            lines.iter().filter_map(|l| l.get(column)).map(String::len).max().unwrap_or(0)
        })
        .collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{:indent$}{}", "", line.trim_end());
    }
}

/// Returns a value that is no object as text.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(scalar).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_have_a_form_for_readers() {
        let document = json!({
            "state": "ready", "up": 7, "listen": ["a", "b"],
            "cache": {"answers": 1, "on": true},
            "upstream": [{"server": "192.0.2.1:53", "rtt_ms": null}, {"server": "x", "rtt_ms": 2}],
        });
        assert_eq!(
            text(&document),
            "cache:\n  answers: 1\n  on:      yes\nlisten:   a, b\nstate:    ready\nup:       7\n\
             upstream:\n  rtt ms  server\n  -       192.0.2.1:53\n  2       x\n"
        );
    }
}
