//! Replaces QUIC without the feature `quic`: listening returns an error that says so.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;

use super::{Answer, StreamLimits};
use crate::tls::ServerTls;

/// Returns the error.
///
/// # Errors
/// Always.
pub fn listen(_address: SocketAddr) -> io::Result<UdpSocket> {
    Err(crate::no_quic())
}

/// Returns the error.
///
/// # Errors
/// Always.
pub async fn quic<A: Answer + 'static>(
    _socket: UdpSocket,
    _tls: ServerTls,
    _limits: StreamLimits,
    _answer: Rc<A>,
) -> io::Result<()> {
    Err(crate::no_quic())
}
