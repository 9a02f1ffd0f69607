//! Bars made of block characters, for terminals.

/// The first eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Returns the full part of a bar whose whole length is `room` columns, to an eighth of a column; `share` is from 0 to 1.
pub fn full_bar(share: f64, room: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
