//! Connections of clients.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use ipnet::IpNet;
use streams::tls::ServerTls;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use super::frames::{self, Frames};
use super::requests::{self, Requests};
use super::shared::{Carrier, Waiting};

/// Longest query in octets; a name, a type and options of any use take less. A client that sends more is
/// disconnected.
pub(super) const MAX_QUERY: usize = 4 << 10;
/// Highest number of octets of replies that are written together.
const MAX_OUTPUT: usize = 64 << 10;

/// Accepts connections for ever.
pub(super) async fn accept(listener: TcpListener, protocol: Protocol, carrier: Rc<Carrier>) {
    loop {
        // A failed accept is temporary (the connection was reset, or no descriptor is free).
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(slot) = ConnectionSlot::take(&carrier, peer.ip()) else { continue };
        let protocol = protocol.clone();
        tokio::task::spawn_local(async move {
            // The end of a connection, for any reason, affects no other connection.
            let _ = begin(stream, protocol, peer, &slot).await;
        });
    }
}

/// Protocol of a connection.
#[derive(Clone)]
pub(super) enum Protocol {
    /// Messages with their lengths in front.
    Frames,
    /// Messages with their lengths in front, in TLS.
    Tls(ServerTls),
    /// HTTP/2 in TLS.
    Http(ServerTls),
}

/// Serves one connection from its handshake on; the handshake may take as long as an idle connection.
async fn begin(
    stream: TcpStream,
    protocol: Protocol,
    client: SocketAddr,
    slot: &ConnectionSlot,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (Protocol::Tls(tls) | Protocol::Http(tls)) = &protocol else {
        let (reader, writer) = stream.into_split();
        return serve(Frames::new(), reader, writer, client.ip(), slot).await;
    };
    let idle = Duration::from(slot.carrier.settings().config.limits.tcp_idle);
    let accepting = TlsAcceptor::from(tls.current()).accept(stream);
    let mut stream = timeout(idle, accepting).await.map_err(io::Error::from)??;
    let mut early = Vec::new();
    if let Some(mut data) = stream.get_mut().1.early_data() {
        data.read_to_end(&mut early)?;
    }
    if matches!(protocol, Protocol::Http(_)) {
        let (carrier, limits) = (slot.carrier.clone(), requests::limits(&slot.carrier));
        return streams::serve::http2(stream, early, client, limits, &Requests(carrier)).await;
    }
    let (reader, writer) = tokio::io::split(stream);
    serve(Frames::after(early), reader, writer, client.ip(), slot).await
}

/// The right to one connection; released when it is dropped.
pub(super) struct ConnectionSlot {
    carrier: Rc<Carrier>,
    number: u64,
    network: IpAddr,
}

impl ConnectionSlot {
    /// Takes a connection slot for a client, if one is free.
    pub(super) fn take(carrier: &Rc<Carrier>, client: IpAddr) -> Option<Self> {
        let settings = carrier.settings();
        let limits = &settings.config.limits;
        let bits = if client.is_ipv4() { limits.client_ipv4_bits } else { limits.client_ipv6_bits };
        let network = IpNet::new(client, bits).map_or(client, |network| network.network());
        let mut networks = carrier.networks.borrow_mut();
        let count = networks.get(&network).copied().unwrap_or(0);
        if networks.values().sum::<usize>() >= limits.tcp_connections
            || count >= limits.tcp_connections_per_client
        {
            return None;
        }
        networks.insert(network, count + 1);
        drop(networks);
        let number = carrier.number();
        Some(ConnectionSlot { carrier: carrier.clone(), number, network })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.carrier.connections.borrow_mut().remove(&self.number);
        let mut networks = self.carrier.networks.borrow_mut();
        if let Some(count) = networks.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                networks.remove(&self.network);
            }
        }
    }
}

/// Serves one connection: reads queries, writes answers as they arrive.
async fn serve(
    mut frames: Frames,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    client: IpAddr,
    slot: &ConnectionSlot,
) -> io::Result<()> {
    let settings = slot.carrier.settings();
    let limits = &settings.config.limits;
    let idle = Duration::from(limits.tcp_idle);
    let (sender, mut answers) = mpsc::unbounded_channel::<Waiting>();
    slot.carrier.connections.borrow_mut().insert(slot.number, sender);
    let (mut output, mut reservations) = (Vec::new(), Vec::new());
    let (mut sent, mut waiting, mut open) = (0u64, 0usize, true);
    let mut deadline = Instant::now() + idle;
    loop {
        while waiting < limits.tcp_pipelined
            && let Some(message) = frames.next()
        {
            if message.len() > MAX_QUERY {
                return Ok(());
            }
            // A query that the worker has no room for gets no answer, as if it was lost.
            let taken = slot.carrier.query(slot.number, Some(sent), client, message.to_vec());
            waiting += usize::from(taken);
            sent += 1;
            deadline = Instant::now() + idle;
        }
        if !open && waiting == 0 {
            break;
        }
        tokio::select! {
            more = frames.read(&mut reader), if open && waiting < limits.tcp_pipelined => {
                open = more?;
            }
            Some(answer) = answers.recv(), if waiting > 0 => {
                let mut next = Some(answer);
                while let Some(answer) = next {
                    waiting -= 1;
                    if !answer.message.is_empty() {
                        frames::push(&mut output, &answer.message);
                    }
                    reservations.extend(answer.reservation);
                    next = if output.len() < MAX_OUTPUT { answers.try_recv().ok() } else { None };
                }
                let written = async {
                    writer.write_all(&output).await?;
                    writer.flush().await
                };
                timeout(idle, written).await.map_err(io::Error::from)??;
                output.clear();
                reservations.clear();
                deadline = Instant::now() + idle;
            }
            () = tokio::time::sleep_until(deadline), if waiting == 0 => break,
        }
    }
    timeout(idle, writer.shutdown()).await.map_err(io::Error::from)?
}
