//! Parts that sections of the page are made of: tables and folded sections.

use maud::{Markup, html};

use super::plot::{Picture, distinct};

/// Renders a table with sortable columns; `conditions` follow its caption. On a narrow screen each
/// row becomes a card.
pub(crate) fn table(caption: &str, conditions: &str, heads: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.sortable {
                caption { (caption) @if !conditions.is_empty() { " " span { "(" (conditions) ")" } } }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { (row) } } }
            }
        }
    }
}

/// Renders a section that is folded until the reader opens it.
pub(crate) fn fold(title: &str, body: Markup) -> Markup {
    html! { details.fold { summary { (title) } div.body { (body) } } }
}

/// Renders plots side by side; a flat plot becomes a sentence.
pub(crate) fn pictures(pictures: Vec<Picture>) -> Markup {
    let (pictures, flat) = distinct(pictures);
    html! {
        @if !pictures.is_empty() {
            div.plots { @for picture in &pictures { (picture.figure()) } }
        }
        @if !flat.is_empty() { p.note { "Without change: " (flat.join("; ")) "." } }
    }
}
