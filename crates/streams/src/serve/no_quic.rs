//! Replaces QUIC without the feature `quic`: listening returns an error that reports this.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use super::{Answer, Ending, StreamLimits};
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
pub fn listen_with(
    _address: SocketAddr,
    _prepare: &dyn Fn(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<UdpSocket> {
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

/// A socket for QUIC: there is none.
pub struct QuicServer(Infallible);

impl QuicServer {
    /// Returns the error.
    ///
    /// # Errors
    /// Always.
    pub fn new(_socket: UdpSocket, _tls: ServerTls, _limits: StreamLimits) -> io::Result<Self> {
        Err(crate::no_quic())
    }

    /// Cannot be called: a server of QUIC has no value here.
    pub async fn accept(&mut self) -> Option<Attempt> {
        match self.0 {}
    }
}

/// A client's attempt to connect: there is none.
pub struct Attempt(Infallible);

impl Attempt {
    /// Cannot be called: an attempt has no value here.
    pub fn client(&self) -> SocketAddr {
        match self.0 {}
    }

    /// Cannot be called: an attempt has no value here.
    pub fn is_proven(&self) -> bool {
        match self.0 {}
    }

    /// Cannot be called: an attempt has no value here.
    pub fn retry(self) {}

    /// Cannot be called: an attempt has no value here.
    pub fn refuse(self) {}

    /// Cannot be called: an attempt has no value here.
    pub fn ignore(self) {}

    /// There is no attempt.
    ///
    /// # Errors
    /// Never.
    pub async fn establish(self) -> io::Result<Established> {
        match self.0 {}
    }
}

/// A connection: there is none.
pub struct Established(Infallible);

impl Established {
    /// Cannot be called: a connection has no value here.
    pub fn proven(&mut self) -> impl Future<Output = bool> + use<> {
        std::future::ready(false)
    }

    /// There is no connection.
    ///
    /// # Errors
    /// Never.
    pub async fn serve<A: Answer>(self, _answer: &A) -> io::Result<Ending> {
        match self.0 {}
    }
}
