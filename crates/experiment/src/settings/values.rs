//! Values that are written as text in a file, such as `"5s"` and `"10k"`.

use std::fmt;
use std::str::FromStr;

use measure::{Nanos, Qps};
use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error as _};

/// Returns the timeout of RFC 8219.
pub(super) fn one_second() -> Nanos {
    Nanos::from_secs(1)
}

/// Reads a value written as text, such as `"5s"`.
pub(crate) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Writes a time as the text that [`text`] reads.
pub(crate) fn time_text<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

/// Writes a rate as the text that [`text`] reads.
pub(super) fn rate_text<S: Serializer>(rate: &Qps, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rate.exact())
}

/// Reads an optional value written as text.
pub(super) fn some_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    text(deserializer).map(Some)
}

/// Reads a list of values written as text.
pub(super) fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}
