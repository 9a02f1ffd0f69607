//! Messages over TCP, each behind a 16-bit length (RFC 1035 section 4.2.2, RFC 7766), served on a
//! runtime of one thread.
//!
//! Knows no DNS: bytes of a message in, bytes of a message out. Connections, idle time and the size
//! of a message are bounded.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Bounds of a TCP service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpLimits {
    /// Connections at once; over it new ones are closed at once.
    pub connections: usize,
    /// A connection that sends no whole message for so long is closed.
    pub idle: Duration,
}

impl Default for TcpLimits {
    /// 1,000 connections, 10 s (RFC 7766 section 6.2.3 wants some seconds).
    fn default() -> Self {
        TcpLimits { connections: 1_000, idle: Duration::from_secs(10) }
    }
}

/// Listens on `address`.
///
/// # Errors
/// An address that cannot be bound, named.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let named =
        |e: io::Error| io::Error::new(e.kind(), format!("cannot listen on TCP {address}: {e}"));
    let socket =
        socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into()).map_err(named)?;
    socket.listen(1_024).map_err(named)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Serves `listeners` until `stop` returns true (it is asked every 50 ms). `answer` gets a message and
/// writes the reply into the (cleared) vector; an empty reply closes the connection.
///
/// # Errors
/// When the runtime cannot be made.
pub fn serve(
    listeners: Vec<std::net::TcpListener>,
    limits: TcpLimits,
    answer: impl FnMut(&[u8], &mut Vec<u8>) + 'static,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = Rc::new(RefCell::new(answer));
    let open = Rc::new(Cell::new(0usize));
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        for listener in listeners {
            let listener = TcpListener::from_std(listener)?;
            let (answer, open) = (answer.clone(), open.clone());
            tokio::task::spawn_local(async move {
                loop {
                    // A failed accept (a connection reset meanwhile, no descriptor left) passes.
                    let Ok((stream, _)) = listener.accept().await else {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        continue;
                    };
                    if open.get() >= limits.connections {
                        continue;
                    }
                    open.set(open.get() + 1);
                    let (answer, open) = (answer.clone(), open.clone());
                    tokio::task::spawn_local(async move {
                        // The end of a connection, whatever its reason, is nobody else's business.
                        let _ = connection(stream, limits.idle, &answer).await;
                        open.set(open.get() - 1);
                    });
                }
            });
        }
        while !stop() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    })
}

/// One connection, message after message.
async fn connection<F: FnMut(&[u8], &mut Vec<u8>)>(
    mut stream: TcpStream,
    idle: Duration,
    answer: &RefCell<F>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut message, mut reply) = (Vec::new(), Vec::new());
    loop {
        let read = async {
            let len = stream.read_u16().await?;
            message.resize(usize::from(len), 0);
            stream.read_exact(&mut message).await.map(|_| ())
        };
        timeout(idle, read).await.map_err(io::Error::from)??;
        reply.clear();
        reply.extend_from_slice(&[0, 0]);
        let mut body = Vec::new();
        answer.borrow_mut()(&message, &mut body);
        if body.is_empty() {
            return Ok(());
        }
        let len = u16::try_from(body.len())
            .map_err(|_| io::Error::other("a reply longer than 65535 bytes"))?;
        reply[..2].copy_from_slice(&len.to_be_bytes());
        reply.append(&mut body);
        timeout(idle, stream.write_all(&reply)).await.map_err(io::Error::from)??;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn frames_go_both_ways_and_the_bounds_hold() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let limits = TcpLimits { connections: 1, idle: Duration::from_millis(300) };
        let server = {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let reverse =
                    |message: &[u8], reply: &mut Vec<u8>| reply.extend(message.iter().rev());
                serve(vec![listener], limits, reverse, || stop.load(Ordering::Relaxed))
            })
        };
        let mut client = std::net::TcpStream::connect(address).expect("connects");
        client.write_all(b"\0\x03abc\0\x02de").expect("writes");
        let mut got = [0; 9];
        client.read_exact(&mut got).expect("reads");
        assert_eq!(&got, b"\0\x03cba\0\x02ed");
        // The second connection is over the bound, the first is closed when idle.
        let mut second = std::net::TcpStream::connect(address).expect("connects");
        assert_eq!(second.read(&mut got).expect("closed"), 0);
        assert_eq!(client.read(&mut got).expect("closed"), 0);
        stop.store(true, Ordering::Relaxed);
        server.join().expect("no panic").expect("serves");
    }
}
