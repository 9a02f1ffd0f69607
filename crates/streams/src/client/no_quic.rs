//! Replaces QUIC without the feature `quic`: opening an endpoint returns an error that reports
//! this.

use std::io;
use std::net::{IpAddr, SocketAddr};

use engine::stream::{ConnId, Failure};
use tokio::time::Instant;

use super::Carriage;
use super::dial::TlsDialer;
use super::exchange::Exchange;
use super::meter::Meter;

/// The endpoints of a thread: there are none.
pub(super) enum Endpoints {}

impl Endpoints {
    /// Returns the error that QUIC is not built in.
    pub(super) fn new(
        _target: SocketAddr,
        _sources: &[IpAddr],
        _connections: usize,
        _tls: &TlsDialer,
    ) -> io::Result<Self> {
        Err(crate::no_quic())
    }

    /// Returns the error that QUIC is not built in.
    pub(super) fn on(
        _socket: std::net::UdpSocket,
        _target: SocketAddr,
        _tls: &TlsDialer,
    ) -> io::Result<Self> {
        Err(crate::no_quic())
    }

    /// Cannot be called: this type has no value.
    pub(super) async fn open(
        &self,
        _conn: ConnId,
        _carriage: &Carriage,
        _max_message: usize,
        _tls: &TlsDialer,
        _deadline: Instant,
        _meter: Meter,
    ) -> Result<Box<dyn Exchange>, Failure> {
        match *self {}
    }

    /// Cannot be called: this type has no value.
    pub(super) async fn close(&self) {
        match *self {}
    }
}
