//! Reads two structs from one JSON object that has the fields of both. `flatten` of serde would
//! read the inner one from copies of its values, with a second copy of the readers of all its
//! types: for trials, a twentieth of the program.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};
use serde_json::{Map, Value};

/// Reads the fields `names` of an object as an `O`, and the others as an `I`.
pub(crate) fn read<'de, O: DeserializeOwned, I: Deserialize<'de>, D: Deserializer<'de>>(
    names: &'static [&'static str],
    from: D,
) -> Result<(O, I), D::Error> {
    from.deserialize_map(TwoValues { names, read: PhantomData })
}

/// Visitor of an object with the fields of two values, one flattened into the other.
struct TwoValues<O, I> {
    names: &'static [&'static str],
    read: PhantomData<(O, I)>,
}

impl<'de, O: DeserializeOwned, I: Deserialize<'de>> Visitor<'de> for TwoValues<O, I> {
    type Value = (O, I);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut others = OtherFields { names: self.names, own: Map::new(), map };
        let other = I::deserialize(MapAccessDeserializer::new(&mut others))?;
        let own = serde_json::from_value(Value::Object(others.own)).map_err(A::Error::custom)?;
        Ok((own, other))
    }
}

/// The object without the fields `names`, which are put aside.
struct OtherFields<A> {
    names: &'static [&'static str],
    own: Map<String, Value>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OtherFields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.map.next_key::<String>()? {
            if !self.names.contains(&name.as_str()) {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            let value = self.map.next_value()?;
            self.own.insert(name, value);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
