//! The words of enums: one list of values and words generates all code that reads or writes them.

/// Gives each value of an enum its word in arguments, files and records: `ALL`, `word`, [`Display`](std::fmt::Display) and
/// [`FromStr`](std::str::FromStr).
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Speed {
///     Slow,
///     Fast,
/// }
/// measure::words! { Speed { Slow = "slow", Fast = "fast" } }
///
/// assert_eq!("fast".parse(), Ok(Speed::Fast));
/// assert_eq!("fats".parse::<Speed>().unwrap_err().to_string(), "`fats` is none of slow, fast");
/// assert_eq!(Speed::ALL.map(Speed::word), ["slow", "fast"]);
/// ```
#[macro_export]
macro_rules! words {
    ($name:ident { $($value:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// All values, in the order in which the macro names them.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$value),+];

            /// Returns the word of the value.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> ::std::result::Result<Self, $crate::UnknownWord> {
                let found = $name::ALL.into_iter().find(|value| value.word() == text);
                found.ok_or_else(|| $crate::UnknownWord::new(text, &[$($word),+]))
            }
        }
    };
}

/// Error for a word that an enum does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is none of {known}")]
pub struct UnknownWord {
    found: String,
    known: String,
}

impl UnknownWord {
    /// Makes the error for `found`, where the words `known` are accepted.
    pub fn new(found: &str, known: &[&str]) -> Self {
        UnknownWord { found: found.to_owned(), known: known.join(", ") }
    }
}
