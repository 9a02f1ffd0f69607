//! The frame of every page: head, title, theme, foot.

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Content security policy: the page may use only its own content.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Parts of a page that differ between pages.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// Links to other pages of the same site, with their texts.
    pub(crate) navigation: &'a [(String, String)],
    pub(crate) body: &'a Markup,
    /// Lines at the foot, below the one that all pages have.
    pub(crate) foot: &'a Markup,
    /// Script in addition to the common one.
    pub(crate) script: &'a str,
}

/// Renders a whole HTML page, which needs no other file.
pub(crate) fn frame(parts: &Frame<'_>) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (parts.title) " – dnsdyno" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (parts.title) }
                    button #theme type="button" hidden { "Light or dark" }
                }
                @if !parts.navigation.is_empty() {
                    nav aria-label="Site" { @for (href, text) in parts.navigation { a href=(href) { (text) } } }
                }
                main { (parts.body) }
                footer {
                    p { "Made by dnsdyno " (env!("CARGO_PKG_VERSION")) ". Every number says what limited it." }
                    (parts.foot)
                }
                script { (PreEscaped(SCRIPT)) (PreEscaped(parts.script)) }
            }
        }
    }
    .into_string()
}
