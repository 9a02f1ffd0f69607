//! Counts the bytes of TCP connections: messages as TLS encrypts them, with handshakes.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Byte counts of stream payload, without headers of TCP and IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes that were written to streams.
    pub sent: u64,
    /// Bytes that were read from streams.
    pub received: u64,
    /// Number of write calls that wrote something.
    pub writes: u64,
    /// Read calls that returned data.
    pub reads: u64,
}

impl Bytes {
    /// Adds the counts of another worker.
    #[inline]
    pub fn merge(&mut self, other: &Bytes) {
        measure::add!(self, other; sent, received, writes, reads);
    }
}

/// Counts of streams that the peer did not permit at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Streams that the peer refused and that were opened again after a pause.
    pub refused: u64,
    /// Queries that waited because the peer permits no further streams at a time.
    pub waited: u64,
}

impl StreamCounts {
    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &StreamCounts) {
        self.refused += other.refused;
        self.waited += other.waited;
    }
}

/// Counts shared by the connections of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    bytes: Rc<Cell<Bytes>>,
    streams: Rc<Cell<StreamCounts>>,
}

impl Meter {
    /// Returns the byte counts so far.
    pub(super) fn get(&self) -> Bytes {
        self.bytes.get()
    }

    /// Adds to the byte counts.
    pub(super) fn add(&self, more: Bytes) {
        let mut bytes = self.bytes.get();
        bytes.merge(&more);
        self.bytes.set(bytes);
    }

    /// Counts a read of this number of bytes.
    #[inline]
    pub(super) fn count_read(&self, bytes: usize) {
        self.add(Bytes { received: bytes as u64, reads: 1, ..Bytes::default() });
    }

    /// Counts a write of this number of bytes.
    #[inline]
    pub(super) fn count_write(&self, bytes: usize) {
        self.add(Bytes { sent: bytes as u64, writes: 1, ..Bytes::default() });
    }

    /// Returns the stream counts so far.
    pub(super) fn streams(&self) -> StreamCounts {
        self.streams.get()
    }

    /// Waits until the peer permits a stream; counts the query if there is none at once.
    pub(super) async fn count_wait<T>(&self, opening: impl Future<Output = T>) -> T {
        let mut opening = std::pin::pin!(opening);
        match opening.as_mut().now_or_never() {
            Some(opened) => opened,
            None => {
                self.count_streams(|streams| streams.waited += 1);
                opening.await
            }
        }
    }

    /// Changes the stream counts with `add`.
    pub(super) fn count_streams(&self, add: impl FnOnce(&mut StreamCounts)) {
        let mut streams = self.streams.get();
        add(&mut streams);
        self.streams.set(streams);
    }
}

/// A TCP connection with byte counts.
#[derive(Debug)]
pub(super) struct Metered {
    pub(super) inner: TcpStream,
    pub(super) meter: Meter,
}

impl AsyncRead for Metered {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.meter.count_read(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.meter.count_write(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, bufs))?;
        self.meter.count_write(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
