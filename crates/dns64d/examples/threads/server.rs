//! The server: its arguments, its threads, and a query from client to answer.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use measure::Nanos;
use measure::any_address;
use wire::message::{HEADER, Record, flag, question_end};
use wire::{Header, Owner, Pref64, Qclass, Qtype, Query, QueryTemplate, Rcode, ReplyWriter};

/// Largest size of a message over UDP that it handles, in octets.
pub(crate) const MESSAGE: usize = 4_096;
/// Largest number of threads with a query each; further queries are dropped.
const MOST_THREADS: usize = 4_096;
/// Number of queries that may wait for each thread of a pool; further queries are dropped.
const WAITING: usize = 64;

/// A DNS64 server with a thread for each query, or a pool of threads.
#[derive(Clone, Debug, Parser)]
#[command(name = "threads", version)]
pub(crate) struct Args {
    /// Address and port to listen on; may be repeated
    #[arg(long, required = true)]
    pub(crate) listen: Vec<SocketAddr>,
    /// An upstream server; may be repeated
    #[arg(long, required = true)]
    upstream: Vec<SocketAddr>,
    /// Prefix of synthesised addresses
    #[arg(long)]
    prefix: Pref64,
    /// Number of threads in a pool [default: a new thread for each query]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub(crate) pool: Option<u16>,
    /// Which upstream server gets a query
    #[arg(long, value_enum, default_value = "random")]
    choose: Choose,
    /// Time to wait for an upstream server, each time
    #[arg(long, default_value = "1s")]
    timeout: Nanos,
    /// How often a query is sent again without a reply
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100))]
    resend: u32,
    /// Print each step to the standard error
    #[arg(long)]
    debug: bool,
}

/// Policy by which an upstream server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choose {
    /// A random one, for each message
    Random,
    /// The last one that answered; the next one after a silence
    RoundRobin,
}

/// The server's settings, and what its threads have in common.
pub(crate) struct Server {
    pub(crate) args: Args,
    /// Number of queries in progress.
    busy: AtomicUsize,
    /// Place in the list of the upstream server that is used now, for [`Choose::RoundRobin`].
    current: AtomicUsize,
    /// Number of random choices until now, and the key that makes them unpredictable.
    choices: AtomicU64,
    key: RandomState,
}

/// A query of a client, and where its reply goes.
pub(crate) struct Job {
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    message: Vec<u8>,
}

impl Server {
    pub(crate) fn new(args: Args) -> Arc<Self> {
        let (busy, current) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (choices, key) = (AtomicU64::new(0), RandomState::new());
        Arc::new(Server { args, busy, current, choices, key })
    }

    fn random(&self) -> u64 {
        self.key.hash_one(self.choices.fetch_add(1, Ordering::Relaxed))
    }

    fn debug(&self, step: impl FnOnce() -> String) {
        if self.args.debug {
            eprintln!("{}", step());
        }
    }

    /// Receives queries on `socket` without end; each goes to a new thread, or to `pool`.
    pub(crate) fn serve(
        self: &Arc<Self>,
        socket: UdpSocket,
        pool: Option<&SyncSender<Job>>,
    ) -> io::Error {
        let socket = Arc::new(socket);
        let mut buffer = [0; MESSAGE];
        loop {
            let (len, client) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                // A client that is gone is no error of this socket.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(e) => return e,
            };
            let job = Job { socket: socket.clone(), client, message: buffer[..len].to_vec() };
            let taken = match pool {
                Some(pool) => pool.try_send(job).is_ok(),
                None => self.start_thread(job),
            };
            if !taken {
                self.debug(|| format!("{client}: dropped, too many queries are in progress"));
            }
        }
    }

    /// Starts a thread for a query; returns false if there are too many.
    fn start_thread(self: &Arc<Self>, job: Job) -> bool {
        if self.busy.fetch_add(1, Ordering::Relaxed) >= MOST_THREADS {
            self.busy.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let server = self.clone();
        let started = std::thread::Builder::new().spawn(move || {
            server.answer(&job);
            server.busy.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        started.is_ok()
    }

    /// Starts the threads of a pool; returns where queries for them go.
    pub(crate) fn start_pool(self: &Arc<Self>, threads: u16) -> SyncSender<Job> {
        let (sender, receiver) = sync_channel(usize::from(threads) * WAITING);
        let receiver: Arc<Mutex<Receiver<Job>>> = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let (server, receiver) = (self.clone(), receiver.clone());
            std::thread::spawn(move || {
                loop {
                    // The lock is held only while this thread waits for its query.
                    let job = receiver.lock().map(|receiver| receiver.recv());
                    let Ok(Ok(job)) = job else { return };
                    server.answer(&job);
                }
            });
        }
        sender
    }

    fn answer(&self, job: &Job) {
        let mut out = [0; MESSAGE];
        let written = match Query::parse(&job.message) {
            Err(error) => error.reply(&mut out),
            Ok(query) => self.resolve(&query, &mut out),
        };
        if let Some(len) = written {
            // A client that is gone needs no reply.
            let _ = job.socket.send_to(&out[..len], job.client);
        }
    }

    /// Writes the reply to `query` and returns its length; `None` if it does not fit.
    fn resolve(&self, query: &Query<'_>, out: &mut [u8]) -> Option<usize> {
        let Some(first) = self.ask(query, query.qtype) else {
            return failure(query, out);
        };
        let synthesise = query.qtype == Qtype::AAAA
            && query.qclass == Qclass::IN
            && addresses(&first, Qtype::AAAA).is_empty()
            && Header::read(&first)?.rcode() != Rcode::NXDOMAIN.0 as u8;
        if !synthesise {
            return pass_on(query, &first, out);
        }
        let Some(second) = self.ask(query, Qtype::A) else {
            return failure(query, out);
        };
        let found = addresses(&second, Qtype::A);
        if found.is_empty() {
            return pass_on(query, &first, out);
        }
        let mut reply = ReplyWriter::new(out, query.udp_limit(), query)?;
        reply.flag(flag::RA, true);
        for (ttl, data) in found {
            let octets: [u8; 4] = data.try_into().ok()?;
            let address: Ipv6Addr = self.args.prefix.embed(Ipv4Addr::from(octets));
            self.debug(|| format!("synthesised {address}"));
            reply.answer(Owner::Question, Qtype::AAAA, ttl, &address.octets());
        }
        Some(reply.finish())
    }

    /// Asks the upstream servers for the name of `query`; `None` without a reply to any attempt.
    fn ask(&self, query: &Query<'_>, qtype: Qtype) -> Option<Vec<u8>> {
        let name = wire::message::name_at(query.question, 0)?;
        let template = QueryTemplate::new(&name, qtype, true, false, None);
        for attempt in 0..=self.args.resend {
            let (place, server) = self.choose();
            self.debug(|| format!("{name} {qtype} to {server}, attempt {attempt}"));
            match self.exchange(server, &template) {
                Ok(reply) => return Some(reply),
                Err(e) => self.debug(|| format!("{name} {qtype} from {server}: {e}")),
            }
            // Several threads may see the same silence: only the first moves on.
            let next = (place + 1) % self.args.upstream.len();
            let _ =
                self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        None
    }

    /// Returns the upstream server for the next message, and its place in the list.
    fn choose(&self) -> (usize, SocketAddr) {
        let count = self.args.upstream.len();
        let place = match self.args.choose {
            Choose::Random => (self.random() % count as u64) as usize,
            Choose::RoundRobin => self.current.load(Ordering::Relaxed),
        };
        (place, self.args.upstream[place])
    }

    /// Sends a query once, from a socket of its own, and returns the reply to it.
    fn exchange(&self, server: SocketAddr, query: &QueryTemplate) -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind((any_address(server.ip()), 0))?;
        // A connected socket receives only from its server.
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_nanos(self.args.timeout.0)))?;
        let id = self.random() as u16;
        let mut buffer = [0; MESSAGE];
        let len = query.write(id, &mut buffer);
        socket.send(&buffer[..len])?;
        // Each reply that is not to this query starts the wait anew, a few times at most.
        for _ in 0..8 {
            let len = socket.recv(&mut buffer)?;
            let reply = &buffer[..len];
            let matches = Header::read(reply).is_some_and(|h| h.id == id && h.is_response());
            let end = question_end(reply).unwrap_or(0);
            let question = &query.bytes()[query.question_range()];
            if matches && end >= HEADER && reply[HEADER..end].eq_ignore_ascii_case(question) {
                return Ok(reply.to_vec());
            }
        }
        Err(io::Error::other("only replies to other queries"))
    }
}

/// Returns TTL and data of the answers of a type.
pub(crate) fn addresses(reply: &[u8], rtype: Qtype) -> Vec<(u32, &[u8])> {
    let count = Header::read(reply).map_or(0, |header| header.counts[1]);
    let mut found = Vec::new();
    let mut at = question_end(reply).unwrap_or(reply.len());
    for _ in 0..count {
        let Some((record, end)) = Record::read(reply, at) else { break };
        if record.rtype == rtype && record.class == Qclass::IN {
            found.push((record.ttl, record.rdata));
        }
        at = end;
    }
    found
}

/// Writes an upstream reply with the id of the client's query; one that is too long gets TC and no records.
fn pass_on(query: &Query<'_>, reply: &[u8], out: &mut [u8]) -> Option<usize> {
    if reply.len() <= query.udp_limit() {
        let out = out.get_mut(..reply.len())?;
        out.copy_from_slice(reply);
        out[..2].copy_from_slice(&query.id.to_be_bytes());
        out[HEADER..HEADER + query.question.len()].copy_from_slice(query.question);
        return Some(reply.len());
    }
    let mut short = ReplyWriter::new(out, query.udp_limit(), query)?;
    short.flag(flag::TC | flag::RA, true);
    Some(short.finish())
}

fn failure(query: &Query<'_>, out: &mut [u8]) -> Option<usize> {
    let mut reply = ReplyWriter::new(out, query.udp_limit(), query)?;
    reply.flag(flag::RA, true);
    reply.rcode(Rcode::SERVFAIL);
    Some(reply.finish())
}
