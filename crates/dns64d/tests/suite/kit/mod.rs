//! Helpers for the tests: messages as text, a scripted upstream, servers under test, a client.

pub(crate) mod client;
#[path = "../../../../cli/tests/kit/held.rs"]
pub(crate) mod held;
pub(crate) mod manager;
pub(crate) mod message;
#[path = "../../../../cli/tests/kit/ports.rs"]
pub(crate) mod ports;
pub(crate) mod script;
pub(crate) mod server;
