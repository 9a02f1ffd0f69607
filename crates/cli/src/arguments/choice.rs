//! Arguments that take one of several words, each with its help and its value.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word of an argument, its help, and its value.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Returns a parser of the words of `choices`.
pub(crate) fn choice<T: Clone + Send + Sync + 'static>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(words).map(|word| {
        let found = choices.iter().find(|(known, ..)| *known == word);
        found.expect("one of the possible words").2.clone()
    })
}
