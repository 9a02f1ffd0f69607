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
use super::{Carrier, Waiting};

/// The longest query: a name, a type and options of any use take less. Who sends more is not served.
pub(super) const MAX_QUERY: usize = 4 << 10;
/// Replies that are written together, octets.
const MAX_OUTPUT: usize = 64 << 10;

/// Takes connections for ever.
pub(super) async fn accept(listener: TcpListener, speaks: Speaks, carrier: Rc<Carrier>) {
    loop {
        // A failed accept (a connection reset meanwhile, no descriptor left) passes.
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(place) = Place::take(&carrier, peer.ip()) else { continue };
        let speaks = speaks.clone();
        tokio::task::spawn_local(async move {
            // The end of a connection, whatever its reason, is nobody else's business.
            let _ = begin(stream, speaks, peer, &place).await;
        });
    }
}

/// What is spoken on a connection.
#[derive(Clone)]
pub(super) enum Speaks {
    /// Messages behind their lengths.
    Frames,
    /// The same in TLS.
    Tls(ServerTls),
    /// HTTP/2 in TLS.
    Http(ServerTls),
}

/// One connection, from its handshake on; that has the time of an idle connection.
async fn begin(
    stream: TcpStream,
    speaks: Speaks,
    client: SocketAddr,
    place: &Place,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (Speaks::Tls(tls) | Speaks::Http(tls)) = &speaks else {
        let (reader, writer) = stream.into_split();
        return serve(Frames::new(), reader, writer, client.ip(), place).await;
    };
    let idle = Duration::from(place.carrier.settings().config.limits.tcp_idle);
    let accepting = TlsAcceptor::from(tls.current()).accept(stream);
    let mut stream = timeout(idle, accepting).await.map_err(io::Error::from)??;
    let mut early = Vec::new();
    if let Some(mut data) = stream.get_mut().1.early_data() {
        data.read_to_end(&mut early)?;
    }
    if matches!(speaks, Speaks::Http(_)) {
        let (carrier, limits) = (place.carrier.clone(), requests::limits(&place.carrier));
        return streams::serve::http2(stream, early, client, limits, &Requests(carrier)).await;
    }
    let (reader, writer) = tokio::io::split(stream);
    serve(Frames::after(early), reader, writer, client.ip(), place).await
}

/// The right to a connection; given back when it is dropped.
pub(super) struct Place {
    carrier: Rc<Carrier>,
    number: u64,
    network: IpAddr,
}

impl Place {
    /// A place for a client, if there is one.
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
        Some(Place { carrier: carrier.clone(), number, network })
    }
}

impl Drop for Place {
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

/// One connection: queries in, answers out as they come.
async fn serve(
    mut frames: Frames,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    client: IpAddr,
    place: &Place,
) -> io::Result<()> {
    let settings = place.carrier.settings();
    let limits = &settings.config.limits;
    let idle = Duration::from(limits.tcp_idle);
    let (sender, mut answers) = mpsc::unbounded_channel::<Waiting>();
    place.carrier.connections.borrow_mut().insert(place.number, sender);
    let (mut output, mut rooms) = (Vec::new(), Vec::new());
    let (mut asked, mut waiting, mut open) = (0u64, 0usize, true);
    let mut deadline = Instant::now() + idle;
    loop {
        while waiting < limits.tcp_pipelined
            && let Some(message) = frames.next()
        {
            if message.len() > MAX_QUERY {
                return Ok(());
            }
            // What the worker has no room for is not answered, as if it was lost.
            let taken = place.carrier.query(place.number, Some(asked), client, message.to_vec());
            waiting += usize::from(taken);
            asked += 1;
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
                    rooms.extend(answer.room);
                    next = if output.len() < MAX_OUTPUT { answers.try_recv().ok() } else { None };
                }
                let written = async {
                    writer.write_all(&output).await?;
                    writer.flush().await
                };
                timeout(idle, written).await.map_err(io::Error::from)??;
                output.clear();
                rooms.clear();
                deadline = Instant::now() + idle;
            }
            () = tokio::time::sleep_until(deadline), if waiting == 0 => break,
        }
    }
    timeout(idle, writer.shutdown()).await.map_err(io::Error::from)?
}
