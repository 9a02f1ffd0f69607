//! Servers, AuthDNS and Testers on other hosts: agents there over ssh, jobs of several Testers, and
//! the state of these on this host. All of them use the same messages ([`message`]).

pub mod agent;
mod connection;
pub(crate) mod error;
mod handover;
pub(crate) mod hosts;
pub mod job;
pub mod lines;
pub mod message;
pub(crate) mod parts;
pub(crate) mod server_host;
