//! The figures of a run's page, each as an SVG file for documents.

use record::Run;

use crate::html::drawings;

/// Longest name of a file, in characters.
const MAX_FILE_NAME: usize = 70;

/// A figure as a file.
pub struct Drawing {
    /// Name of the file: its number on the page and its title.
    pub name: String,
    /// The SVG document, to be written as a file.
    pub text: String,
}

/// Returns the figures of a run in the order of its page.
pub fn svg(run: &Run) -> Vec<Drawing> {
    let drawing = |((title, text), n): ((String, String), usize)| Drawing {
        name: format!("{n:02}-{}.svg", plain(&title)),
        text,
    };
    drawings(run).into_iter().zip(1..).map(drawing).collect()
}

/// Returns a title with letters, digits and single hyphens only.
fn plain(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-").to_lowercase();
    name.chars().take(MAX_FILE_NAME).collect::<String>().trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_names_of_files() {
        let table = [
            ("Latency against rate: nsd cores=2", "latency-against-rate-nsd-cores-2"),
            ("../x", "x"),
            ("…", ""),
        ];
        for (title, name) in table {
            assert_eq!(plain(title), name);
        }
    }
}
