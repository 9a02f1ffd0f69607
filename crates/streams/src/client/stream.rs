//! A connection over TCP, TLS or UDP.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::clock;
use engine::stream::Opened;
use measure::Nanos;
use rustls::HandshakeKind;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::datagrams::Datagrams;
use super::meter::Metered;

/// How a connection was established, once its handshake is done, also while a library owns it.
pub(super) type WhenOpened = Rc<Cell<Option<Opened>>>;

/// A connection that is established, or whose first messages may be sent with the handshake.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp { tcp: Metered, connect: Nanos },
    Tls { tls: Box<TlsStream<Metered>>, began: Nanos, connect: Nanos, seen: WhenOpened },
    Udp(Datagrams),
}

impl Stream {
    /// Returns how it was established, once the handshake is done.
    pub(super) fn opened(&self) -> Option<Opened> {
        match *self {
            Stream::Tcp { connect, .. } => {
                Some(Opened { connect, handshake: connect, ..Opened::default() })
            }
            Stream::Tls { ref tls, began, connect, ref seen } => {
                let session = tls.get_ref().1;
                if seen.get().is_none() && !session.is_handshaking() {
                    seen.set(Some(Opened {
                        connect,
                        handshake: clock::monotonic().since(began),
                        resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
                        early_data: session.is_early_data_accepted(),
                    }));
                }
                seen.get()
            }
            Stream::Udp(_) => Some(Opened::default()),
        }
    }

    /// Returns where reading and writing note that the handshake is done.
    pub(super) fn watch(&self) -> WhenOpened {
        let opened = self.opened();
        match self {
            Stream::Tls { seen, .. } => seen.clone(),
            Stream::Tcp { .. } | Stream::Udp(_) => Rc::new(Cell::new(opened)),
        }
    }

    /// Closes the connection properly, waiting at most `grace` for the peer.
    pub(super) async fn close(mut self, grace: Duration) {
        // A peer that does not accept the closing in time is not waited for.
        let _ = timeout(grace, self.shutdown()).await;
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = match this {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_read(cx, buf),
            Stream::Udp(datagrams) => datagrams.poll_read(cx, buf),
        };
        this.opened();
        done
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = match this {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_write(cx, buf),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_write(cx, buf),
            Stream::Udp(datagrams) => datagrams.poll_write(cx, buf),
        };
        this.opened();
        done
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_flush(cx),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_flush(cx),
            Stream::Udp(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_shutdown(cx),
            Stream::Udp(_) => Poll::Ready(Ok(())),
        }
    }
}
