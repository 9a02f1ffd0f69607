//! Messages over streams, for both sides: TCP, TLS, HTTP/2, QUIC and HTTP/3. Knows no DNS.
//!
//! ```text
//!   client    a StreamRole's connections: dialed, written, read, each failure named
//!   tcp       a server on a thread of its own: TCP and TLS, and what `serve` has
//!   serve     a server's side of HTTP/2, QUIC and HTTP/3
//!   tls       what a client believes and a server shows; a lab's own authority (feature `authority`)
//!   http      messages in requests and responses (RFC 8484)
//!   scrape    pages for Prometheus
//! ```
//!
//! QUIC and HTTP/3 are the feature `quic`, which is on by default; without it they are errors that say so.
//! `unsafe` is in `client::alarm` (a timer's registration), `tcp` (a socket option) and `scrape` (a socket that comes
//! over exec).

pub mod client;
pub mod http;
pub mod scrape;
pub mod serve;
pub mod tcp;
pub mod tls;

pub use client::StreamEngine;

/// The error of everything that needs QUIC, in a build without it.
#[cfg(not(feature = "quic"))]
fn no_quic() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "this program was built without QUIC and HTTP/3: build it with the feature `quic`",
    )
}
