//! Messages over streams, for clients and servers: TCP, TLS, HTTP/2, QUIC and HTTP/3. This crate knows no
//! DNS.
//!
//! ```text
//!   client    the connections of a StreamRole: dialing, writing, reading, failures by reason
//!   tcp       a server on its own thread: TCP, TLS and the transports of `serve`
//!   serve     the server side of HTTP/2, QUIC and HTTP/3
//!   tls       verification by clients, certificates of servers; a lab's own authority (feature `authority`)
//!   http      messages in HTTP requests and responses (RFC 8484)
//!   scrape    pages for Prometheus
//!   strangers clients that want a server's places and nothing else, to test a server with
//! ```
//!
//! QUIC and HTTP/3 need the feature `quic`, which is on by default; without it they return an error that says
//! so. `unsafe` is in `alarm` (registration of a timer), `client::tcp_info` and
//! `tcp` (socket options) and `scrape` (a socket inherited over exec).

mod alarm;
pub mod client;
pub mod http;
pub mod scrape;
pub mod serve;
pub mod strangers;
pub mod tcp;
pub mod tls;

pub use client::StreamEngine;

/// Returns the error for everything that needs QUIC, in a build without it.
#[cfg(not(feature = "quic"))]
fn no_quic() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "this program was built without QUIC and HTTP/3: build it with the feature `quic`",
    )
}
