//! A worker under test, and messages for it.

use std::net::SocketAddr;
use std::sync::Arc;

use dns64::{Config, Dns64, Settings};
use engine::{Destination, Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;
use wire::message::{HEADER, Header, flag, question_end};
use wire::query::QueryTemplate;
use wire::{Edns, Name, Qtype, Rcode};

pub(crate) const LISTENING: SocketId = SocketId(0);

/// A worker under test: the test supplies all datagrams and the time.
pub(crate) struct Bench {
    pub(crate) role: Dns64,
    pub(crate) now: Nanos,
    pub(crate) sockets: u16,
}

/// A datagram that the worker has sent upstream.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) socket: SocketId,
    pub(crate) bytes: Vec<u8>,
}

impl Sent {
    pub(crate) fn question(&self) -> &[u8] {
        &self.bytes[HEADER..question_end(&self.bytes).expect("a question")]
    }

    pub(crate) fn qtype(&self) -> Qtype {
        let question = self.question();
        let &[t1, t0] = question[question.len() - 4..].first_chunk().expect("a type");
        Qtype(u16::from_be_bytes([t1, t0]))
    }

    pub(crate) fn name(&self) -> String {
        let question = self.question();
        Name::from_wire(&question[..question.len() - 4]).expect("a name").to_string()
    }
}

/// Datagrams that the worker sent in one step.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) upstream: Vec<Sent>,
    pub(crate) clients: Vec<(SocketAddr, Vec<u8>)>,
}

impl Bench {
    pub(crate) fn new(file: &str) -> Self {
        let servers = if file.contains("servers =") { "" } else { "upstream.source-ports = 4\n" };
        let mut config = Config::parse(&format!("{servers}{file}")).expect(file);
        // Queries look alike unless cookies are what is tested.
        config.upstream.cookies = file.contains("cookies");
        let now = Nanos::from_secs(100);
        let role = Dns64::new(Arc::new(Settings::new(config, 1, [7; 16])), [7; 32], now);
        let mut bench = Bench { role, now, sockets: 1 };
        bench.open_sockets();
        bench
    }

    /// Opens the requested sockets, as the caller of the engine does.
    pub(crate) fn open_sockets(&mut self) {
        while let Some(change) = self.role.next_socket_change(self.now) {
            let socket = change.socket.unwrap_or_else(|| {
                self.sockets += 1;
                SocketId(self.sockets - 1)
            });
            self.role.socket_changed(change, socket);
        }
    }

    /// Gives the worker some datagrams: socket, sender, octets.
    pub(crate) fn step(&mut self, datagrams: &[(SocketId, SocketAddr, &[u8])]) -> Out {
        let mut rx = RxBatch::new(datagrams.len().max(1), 65_535);
        for (socket, peer, bytes) in datagrams {
            assert!(rx.put(*socket, *peer, self.now, bytes));
        }
        let mut tx = TxBatch::new(1_000, 1 << 20, 64);
        self.role.handle(self.now, &rx, &mut tx);
        let mut out = Out::default();
        for (to, bytes) in tx.iter() {
            let bytes = bytes.to_vec();
            match to {
                Destination::Connected(socket) => out.upstream.push(Sent { socket, bytes }),
                Destination::Peer { peer, .. } => out.clients.push((peer, bytes)),
            }
        }
        out
    }

    pub(crate) fn ask(&mut self, port: u16, query: &[u8]) -> Out {
        self.step(&[(LISTENING, client(port), query)])
    }

    /// Sends a reply to a query of the worker.
    pub(crate) fn reply(&mut self, sent: &Sent, reply: &[u8]) -> Out {
        let server = "127.0.0.1:5353".parse().expect("an address");
        self.step(&[(sent.socket, server, reply)])
    }

    /// Calls the worker every millisecond; returns what it sends, with the times.
    pub(crate) fn wait(&mut self, milliseconds: u64) -> Vec<(u64, Out)> {
        let mut all = Vec::new();
        for ms in 1..=milliseconds {
            self.now += Nanos::from_millis(1);
            let out = self.step(&[]);
            if !out.upstream.is_empty() || !out.clients.is_empty() {
                all.push((ms, out));
            }
        }
        all
    }
}

pub(crate) fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Composes a query with this id.
pub(crate) fn query(name: &str, qtype: Qtype, id: u16) -> Vec<u8> {
    let name: Name = name.parse().expect("a name");
    let template = QueryTemplate::new(&name, qtype, true, false, Some(&Edns::default()));
    let mut message = template.bytes().to_vec();
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

/// Composes a reply to a query with these answers, whose owner is a pointer to the question.
pub(crate) fn reply(query: &[u8], rcode: Rcode, answers: &[(Qtype, &[u8])]) -> Vec<u8> {
    let end = question_end(query).expect("a question");
    let mut message = query[..end].to_vec();
    let counts = [1, answers.len() as u16, u16::from(answers.is_empty()), 0];
    let id = u16::from_be_bytes([query[0], query[1]]);
    let header = Header { id, flags: flag::QR | flag::RA | rcode.0, counts };
    message[..HEADER].copy_from_slice(&header.to_bytes());
    for (rtype, data) in answers {
        message.extend_from_slice(&[0xc0, 12]);
        message.extend_from_slice(&rtype.0.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 1, 0]);
        message.extend_from_slice(&(data.len() as u16).to_be_bytes());
        message.extend_from_slice(data);
    }
    if answers.is_empty() {
        // An SOA: 200 s, minimum 100 s.
        message.extend_from_slice(
            b"\0\0\x06\0\x01\0\0\0\xc8\0\x16\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x64",
        );
    }
    message
}

pub(crate) fn rcode(message: &[u8]) -> u8 {
    Header::read(message).expect("a header").rcode()
}

/// Returns the address and the TTL of the only answer.
pub(crate) fn address(message: &[u8]) -> (String, u32) {
    let at = question_end(message).expect("a question");
    let (record, _) = wire::message::Record::read(message, at).expect("a record");
    assert_eq!(record.rtype, Qtype::AAAA);
    let octets: [u8; 16] = record.rdata.try_into().expect("an address");
    (std::net::Ipv6Addr::from(octets).to_string(), record.ttl)
}
