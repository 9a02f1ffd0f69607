//! JSON Schema of values that are words in the JSON.

use measure::{Limiter, Link, Path, Transport};
use schemars::{Schema, SchemaGenerator, json_schema};

/// Returns the schema of a limiter.
pub(crate) fn limiter(_: &mut SchemaGenerator) -> Schema {
    one_of(&Limiter::ALL.map(Limiter::word))
}

/// Returns the schema of a kind of link.
pub(crate) fn link(_: &mut SchemaGenerator) -> Schema {
    one_of(&Link::ALL.map(Link::word))
}

/// Returns the schema of a path of datagrams.
pub(crate) fn path(_: &mut SchemaGenerator) -> Schema {
    one_of(&Path::ALL.map(Path::word))
}

/// Returns the schema of a transport.
pub(crate) fn transport(_: &mut SchemaGenerator) -> Schema {
    one_of(&Transport::ALL.map(Transport::word))
}

fn one_of(words: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": words })
}
