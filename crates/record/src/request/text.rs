//! Serialisation of values as their texts.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer, T: Display>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// Serialisation of optional values as their texts.
pub(super) mod option {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer, de};

    pub(in super::super) fn serialize<S: Serializer, T: Display>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

/// Serialisation of optional rates, whose texts are exact.
pub(super) mod rate {
    use measure::Qps;

    use super::{Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        rate: &Option<Qps>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::option::serialize(&rate.map(Qps::exact), serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Qps>, D::Error> {
        super::option::deserialize(deserializer)
    }
}
