//! A DNS64 server (RFC 6147).

pub mod config;
