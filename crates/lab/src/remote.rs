//! Servers, AuthDNS and Testers on other hosts: agents there over ssh, jobs of several Testers, and what this host knows of
//! them.

pub mod agent;
mod handover;
pub(crate) mod hosts;
pub mod job;
pub(crate) mod server_host;
