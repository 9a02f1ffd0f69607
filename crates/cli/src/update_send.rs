//! Updates on their way: paced, signed, sent, acknowledged.
//!
//! ```text
//!   stream ──> next update, when it is due ──> worker: sign, send, wait ──> tally, outcomes
//!                (one lock)                     (one socket each)
//! ```
//!
//! A worker has one update under way, so that as many workers are as many at once; one worker keeps the order of the
//! stream. A primary commits tens to thousands of updates a second (RFC 2136 section 3.5 wants each on disk before its
//! answer), which plain blocking sockets do not hold up.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::Nanos;
use update::outcome::rcode_name;
use update::{Key, Outcome, Tally, TsigError, Update, UpdateReader};

/// How often a worker that waits looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// So many updates in a row without a reply, and the primary is taken to be gone.
const SILENCE: u32 = 5;
/// RCODEs that every further update would get too.
const HOPELESS: [(u8, &str); 4] = [
    (4, "it does not do dynamic updates"),
    (5, "it refuses updates from here: is the key, or this address, allowed to update the zone?"),
    (9, "it is not authoritative for the zone, or does not let this key update it"),
    (10, "a name of the stream is not in the zone"),
];

/// How updates are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) server: SocketAddr,
    pub(crate) tcp: bool,
    pub(crate) key: Option<Key>,
    pub(crate) timeout: Duration,
    /// Updates a second; none for as fast as they are acknowledged.
    pub(crate) rate: Option<f64>,
    /// Updates under way at once.
    pub(crate) window: u32,
    /// Kills the primary after so many acknowledgements.
    pub(crate) kill: Option<(i32, u64)>,
    /// Who wants to know of acknowledged updates, as far as he keeps up.
    pub(crate) watch: Vec<SyncSender<(Update, Instant)>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) tally: Tally,
    pub(crate) seconds: f64,
    pub(crate) ended_by: Option<String>,
    /// The stream itself was bad.
    pub(crate) bad_input: bool,
    /// Whether the primary was killed.
    pub(crate) killed: bool,
    /// Whether it was ended from outside.
    pub(crate) interrupted: bool,
}

/// What the workers share.
struct Shared<'a, R> {
    sender: &'a Sender,
    stop: &'a AtomicBool,
    source: Mutex<Source<R>>,
    outcomes: Mutex<&'a mut (dyn Write + Send)>,
    ended: Mutex<Option<(String, bool)>>,
    over: AtomicBool,
    acknowledged: AtomicU64,
    killed: AtomicBool,
    began: Instant,
}

struct Source<R> {
    updates: UpdateReader<R>,
    next: u64,
}

impl Sender {
    /// Sends a stream to its end, or to where no further update can succeed. A line for each update goes to
    /// `outcomes`: its number from 0, what became of it, and the time to that in microseconds.
    pub(crate) fn run<R: BufRead + Send>(
        &self,
        updates: UpdateReader<R>,
        outcomes: &mut (dyn Write + Send),
        stop: &AtomicBool,
    ) -> Sent {
        let shared = Shared {
            sender: self,
            stop,
            source: Mutex::new(Source { updates, next: 0 }),
            outcomes: Mutex::new(outcomes),
            ended: Mutex::new(None),
            over: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            began: Instant::now(),
        };
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let work = || Worker::new(&shared).work();
            let workers: Vec<_> = (0..self.window.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        let mut sent = Sent { seconds: shared.began.elapsed().as_secs_f64(), ..Sent::default() };
        tallies.iter().for_each(|tally| sent.tally.merge(tally));
        sent.killed = shared.killed.load(Ordering::Relaxed);
        if let Some((why, bad_input)) = lock(&shared.ended).take() {
            (sent.ended_by, sent.bad_input) = (Some(why), bad_input);
        } else if stop.load(Ordering::Relaxed) {
            sent.interrupted = true;
            sent.ended_by = Some("it was interrupted".to_owned());
        }
        sent
    }
}

/// A lock whose holder may have panicked: what it guards is counters and files.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: BufRead> Shared<'_, R> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    /// Ends the sending, for the first reason given.
    fn end(&self, why: String, bad_input: bool) {
        lock(&self.ended).get_or_insert((why, bad_input));
        self.over.store(true, Ordering::Relaxed);
    }

    /// The next update and its number.
    fn next(&self) -> Option<(u64, Update)> {
        let mut source = lock(&self.source);
        match source.updates.next_update() {
            Ok(Some(update)) => {
                let number = source.next;
                source.next += 1;
                Some((number, update))
            }
            Ok(None) => None,
            Err(error) => {
                self.end(error.to_string(), true);
                None
            }
        }
    }

    /// Waits until an update is due; false when all is over before.
    fn wait(&self, due: Instant) -> bool {
        while !self.is_over() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK));
        }
        false
    }

    /// Kills the primary when its time has come.
    fn acknowledged(&self) {
        let count = self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1;
        let Some((pid, _)) = self.sender.kill.filter(|&(_, after)| after == count) else { return };
        match lab::durability::kill_at_once(pid) {
            Ok(()) => {
                self.killed.store(true, Ordering::Relaxed);
                self.end(format!("the primary was killed after {count} acknowledgements"), false);
            }
            Err(e) => self.end(format!("the process {pid} cannot be killed: {e}"), false),
        }
    }
}

/// One update at a time.
struct Worker<'a, R> {
    shared: &'a Shared<'a, R>,
    connection: Option<Connection>,
    tally: Tally,
    silent: u32,
}

impl<'a, R: BufRead> Worker<'a, R> {
    fn new(shared: &'a Shared<'a, R>) -> Self {
        Worker { shared, connection: None, tally: Tally::default(), silent: 0 }
    }

    fn work(mut self) -> Tally {
        while !self.shared.is_over() {
            let Some((number, update)) = self.shared.next() else { break };
            let sender = self.shared.sender;
            let due = sender.rate.map_or_else(Instant::now, |rate| {
                self.shared.began + Duration::from_secs_f64(number as f64 / rate)
            });
            if !self.shared.wait(due) {
                break;
            }
            // An id is only told from the last of the same socket.
            let outcome = self.exchange(number as u16, &update);
            if matches!(outcome, Ok(update::outcome::NOERROR)) {
                let now = Instant::now();
                for watcher in &sender.watch {
                    // It still looks for the one before.
                    let _ = watcher.try_send((update.clone(), now));
                }
            }
            self.account(number, outcome, due.elapsed());
        }
        self.tally
    }

    /// Sends an update and gives its RCODE.
    fn exchange(&mut self, id: u16, update: &Update) -> Result<u8, SendError> {
        let sender = self.shared.sender;
        let (request, signed) = match &sender.key {
            Some(key) => {
                let (request, signed) = key.sign(update, id, unix_time());
                (request, Some(signed))
            }
            None => (update.to_wire(id), None),
        };
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(sender)?),
        };
        let reply = connection.ask(&request, sender.timeout);
        if reply.is_err() {
            // What comes late must not be taken for the next reply.
            self.connection = None;
        }
        let reply = reply?;
        match signed {
            Some(signed) => Ok(signed.check(&reply, unix_time())?),
            None => Ok(reply[3] & 0x0f),
        }
    }

    fn account(&mut self, number: u64, outcome: Result<u8, SendError>, took: Duration) {
        let latency = Nanos::from(took);
        let (outcome, word) = match outcome {
            Ok(rcode) => (Outcome::Reply(rcode), rcode_name(rcode)),
            Err(SendError::Tsig(error)) => {
                self.shared.end(error.to_string(), false);
                (Outcome::Reply(9), "NOTAUTH".to_owned())
            }
            Err(SendError::Io(error)) => {
                self.silent += 1;
                if self.silent >= SILENCE {
                    let why = format!("no reply to {SILENCE} updates in a row: {error}");
                    self.shared.end(why, false);
                }
                (Outcome::Lost, "LOST".to_owned())
            }
        };
        self.tally.count(outcome, latency);
        let line = format!("{number} {word} {}\n", took.as_micros());
        if let Err(e) = lock(&self.shared.outcomes).write_all(line.as_bytes()) {
            self.shared.end(format!("the outcomes cannot be written: {e}"), false);
        }
        let Outcome::Reply(rcode) = outcome else { return };
        self.silent = 0;
        if rcode == update::outcome::NOERROR {
            self.shared.acknowledged();
        }
        if let Some((_, why)) = HOPELESS.into_iter().find(|(hopeless, _)| *hopeless == rcode) {
            self.shared.end(format!("{}: {why}", rcode_name(rcode)), false);
        }
    }
}

/// Seconds since 1970, for signatures.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Why there is no RCODE.
#[derive(Debug)]
enum SendError {
    Tsig(TsigError),
    Io(io::Error),
}

impl From<TsigError> for SendError {
    fn from(error: TsigError) -> Self {
        SendError::Tsig(error)
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        SendError::Io(error)
    }
}

/// A socket to a server.
pub(crate) enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Connection {
    fn open(sender: &Sender) -> io::Result<Self> {
        Self::to(sender.server, sender.tcp, sender.timeout)
    }

    /// A new socket.
    pub(crate) fn to(server: SocketAddr, tcp: bool, timeout: Duration) -> io::Result<Self> {
        if tcp {
            let stream = TcpStream::connect_timeout(&server, timeout)?;
            stream.set_nodelay(true)?;
            return Ok(Connection::Tcp(stream));
        }
        let any: SocketAddr = if server.is_ipv4() {
            (std::net::Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        Ok(Connection::Udp(socket))
    }

    /// Sends a message and waits for the reply with its id.
    pub(crate) fn ask(&mut self, request: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + timeout;
        let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let is_reply =
            |reply: &[u8]| reply.len() >= 12 && reply[..2] == request[..2] && reply[2] & 0x80 != 0;
        match self {
            Connection::Udp(socket) => {
                socket.send(request)?;
                let mut buffer = vec![0; 65_535];
                while Instant::now() < until {
                    socket.set_read_timeout(Some(left()))?;
                    let length = match socket.recv(&mut buffer) {
                        Ok(length) => length,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                        Err(e) => return Err(e),
                    };
                    if is_reply(&buffer[..length]) {
                        buffer.truncate(length);
                        return Ok(buffer);
                    }
                }
            }
            Connection::Tcp(stream) => {
                let length = u16::try_from(request.len()).map_err(io::Error::other)?;
                stream.set_write_timeout(Some(left()))?;
                stream.write_all(&[&length.to_be_bytes(), request].concat())?;
                while Instant::now() < until {
                    stream.set_read_timeout(Some(left()))?;
                    let mut length = [0; 2];
                    stream.read_exact(&mut length)?;
                    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut reply)?;
                    if is_reply(&reply) {
                        return Ok(reply);
                    }
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no reply within {timeout:?}")))
    }
}
