//! Sending updates: paced, signed, acknowledged.
//!
//! ```text
//!   stream ──> next update, when it is due ──> worker: sign, send, wait ──> tally, outcomes
//!                (one lock)                     (one socket each)
//! ```
//!
//! Each worker has one outstanding update at a time; one worker keeps the order of the stream. A
//! primary commits tens to thousands of updates a second (RFC 2136 section 3.5 wants each on disk
//! before its answer), which plain blocking sockets do not hold up.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::Nanos;
use serde::{Deserialize, Serialize};
use wire::Name;

use crate::check::{LOOK_ALL, Lag, MAX_PENDING, watch};
use crate::connection::Connection;
use crate::hopeless::SeenZones;
use crate::outcome::{NOERROR, rcode_name};
use crate::{Key, Outcome, Tally, TsigError, Update, UpdateReader};

/// Number of successive updates without a reply after which the primary counts as ended.
const MAX_SILENT: u32 = 5;

/// Settings of the sending of updates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sender {
    /// Address and port of the primary.
    pub server: SocketAddr,
    /// Whether updates travel over TCP.
    pub tcp: bool,
    /// Key that updates are signed with.
    pub key: Option<Key>,
    /// Time within which a reply counts.
    pub timeout: Duration,
    /// Rate, updates per second; `None` for as fast as they are acknowledged.
    pub rate: Option<f64>,
    /// Updates outstanding at the same time.
    pub window: u32,
    /// Number of updates of the stream that are skipped at its beginning.
    pub skip: u64,
    /// Largest number of updates to send; all if absent.
    pub count: Option<u64>,
    /// Kills the primary while updates are sent.
    pub kill: Option<Kill>,
    /// Secondaries whose lag is measured.
    pub watch: Vec<SocketAddr>,
}

/// A primary to be killed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Kill {
    /// Process id (PID) of the primary.
    pub pid: i32,
    /// Number of acknowledged updates after which the primary is killed.
    pub after: u64,
}

/// System calls that a sender needs.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// Kills the process with this id (SIGKILL).
    pub kill: fn(i32) -> io::Result<()>,
    /// Returns the time for which the calling thread was ready to run but had no core so far.
    pub run_delay: fn() -> Option<Nanos>,
}

/// Result of sending a stream.
#[derive(Debug, Default)]
pub struct Sent {
    /// Counts of the outcomes of all updates.
    pub tally: Tally,
    /// Time from the first due update to the last reply, in seconds; zero without an update.
    pub seconds: f64,
    /// Longest time that one of the workers was ready to run but had no core, from its first update
    /// on; `None` if the kernel does not count it.
    pub run_delay: Option<Nanos>,
    /// Reason why the sending ended before the stream.
    pub ended_by: Option<String>,
    /// Reason why a zone could not be updated; the same as `ended_by` if that ended the sending.
    pub hopeless: Option<String>,
    /// The stream itself was bad.
    pub bad_input: bool,
    /// Whether the primary was killed.
    pub killed: bool,
    /// Whether the caller ended the sending.
    pub interrupted: bool,
    /// Lag of each watched secondary.
    pub lags: Vec<Lag>,
}

/// State that the workers share.
struct SharedSend<'a, R> {
    sender: &'a Sender,
    system: System,
    stop: &'a AtomicBool,
    source: Mutex<Source<R>>,
    outcomes: Mutex<&'a mut (dyn Write + Send)>,
    end_reason: Mutex<Option<(String, bool)>>,
    seen: Mutex<SeenZones>,
    is_ended: AtomicBool,
    acknowledged: AtomicU64,
    killed: AtomicBool,
    /// When the first update was due.
    began: OnceLock<Instant>,
}

struct Source<R> {
    updates: UpdateReader<R>,
    // Number of the next update, and the number before which the sending ends.
    next: u64,
    end: u64,
}

impl Sender {
    /// Sends a stream to its end, or until no further update can succeed. A line for each update
    /// goes to `outcomes`: its number from 0, its outcome, and its time in microseconds.
    pub fn run<R: BufRead + Send>(
        &self,
        updates: UpdateReader<R>,
        outcomes: &mut (dyn Write + Send),
        system: System,
        stop: &AtomicBool,
    ) -> Sent {
        let shared = SharedSend {
            sender: self,
            system,
            stop,
            source: Mutex::new(Source { updates, next: 0, end: self.end() }),
            outcomes: Mutex::new(outcomes),
            end_reason: Mutex::new(None),
            seen: Mutex::new(SeenZones::default()),
            is_ended: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            began: OnceLock::new(),
        };
        let mut sent = self.work(&shared);
        sent.killed = shared.killed.load(Ordering::Relaxed);
        if let Some((why, bad_input)) = lock(&shared.end_reason).take() {
            (sent.ended_by, sent.bad_input) = (Some(why), bad_input);
        } else if stop.load(Ordering::Relaxed) {
            sent.interrupted = true;
            sent.ended_by = Some("it was interrupted".to_owned());
        }
        sent.hopeless = lock(&shared.seen).why();
        sent
    }

    /// Runs the workers, and watches the secondaries until they have all acknowledged updates.
    fn work<'a, R: BufRead + Send>(&self, shared: &'a SharedSend<'a, R>) -> Sent {
        std::thread::scope(|scope| {
            let (watched, seen): (Vec<_>, Vec<_>) =
                self.watch.iter().map(|_| sync_channel(MAX_PENDING)).unzip();
            let look = LOOK_ALL * self.watch.len() as u32;
            let watchers =
                self.watch.iter().zip(seen).map(|(server, seen)| {
                    scope.spawn(move || watch(*server, seen, look, shared.stop))
                });
            let watchers: Vec<_> = watchers.collect();
            let workers = self.connections().into_iter().map(|connection| {
                let watched = watched.clone();
                scope.spawn(move || Worker::new(shared, watched, connection).work())
            });
            let workers: Vec<_> = workers.collect();
            // The watchers end with the last worker.
            drop(watched);
            let mut sent = Sent::default();
            for (tally, run_delay) in workers.into_iter().filter_map(|worker| worker.join().ok()) {
                sent.tally.merge(&tally);
                sent.run_delay = sent.run_delay.max(run_delay);
            }
            sent.seconds = shared.began.get().map_or(0.0, |began| began.elapsed().as_secs_f64());
            let lags = watchers.into_iter().map(|watcher| watcher.join().unwrap_or_default());
            sent.lags = lags.collect();
            sent
        })
    }

    /// Opens a connection for each worker, one after the other and before the first update is due: a server whose queue of new
    /// connections is short would drop some that come at once, which then take a second. Once one fails, the others are `None`.
    fn connections(&self) -> Vec<Option<Connection>> {
        let mut reachable = true;
        let opened = (0..self.window.max(1)).map(|_| {
            let open = || Connection::to(self.server, self.tcp, self.timeout).ok();
            let connection = if reachable { open() } else { None };
            reachable = connection.is_some();
            connection
        });
        opened.collect()
    }

    /// Returns the number of the update before which the sending ends.
    fn end(&self) -> u64 {
        self.count.map_or(u64::MAX, |count| self.skip.saturating_add(count))
    }
}

/// Locks a mutex also after a panic of its holder: it guards only counters and files.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: BufRead> SharedSend<'_, R> {
    fn is_over(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    /// Ends the sending, with the first reason.
    fn end(&self, why: String, bad_input: bool) {
        lock(&self.end_reason).get_or_insert((why, bad_input));
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Returns the next update and its number; updates of hopeless zones only get an outcome.
    fn next(&self) -> Option<(u64, Update)> {
        let mut source = lock(&self.source);
        while source.next < source.end && !self.is_over() {
            match source.updates.next_update() {
                Ok(Some(update)) => {
                    let number = source.next;
                    source.next += 1;
                    if number < self.sender.skip {
                        continue;
                    }
                    let mut seen = lock(&self.seen);
                    let Some(rcode) = seen.next(update.zone()) else {
                        return Some((number, update));
                    };
                    self.write_outcome(number, &rcode_name(rcode), Duration::ZERO);
                    if seen.is_over() {
                        self.end(seen.why().unwrap_or_default(), false);
                    }
                }
                Ok(None) => return None,
                Err(error) => {
                    self.end(error.to_string(), error.is_bad_input());
                    return None;
                }
            }
        }
        None
    }

    fn write_outcome(&self, number: u64, word: &str, took: Duration) {
        let line = format!("{number} {word} {}\n", took.as_micros());
        if let Err(e) = lock(&self.outcomes).write_all(line.as_bytes()) {
            self.end(format!("the outcomes cannot be written: {e}"), false);
        }
    }

    /// Waits until an update is due; false when all is over before.
    fn wait(&self, due: Instant) -> bool {
        zone::wait_until(due, || self.is_over())
    }

    /// Counts an acknowledgement, and kills the primary after the planned number.
    fn acknowledged(&self) {
        let count = self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(Kill { pid, .. }) = self.sender.kill.filter(|kill| kill.after == count) else {
            return;
        };
        match (self.system.kill)(pid) {
            Ok(()) => {
                self.killed.store(true, Ordering::Relaxed);
                self.end(format!("the primary was killed after {count} acknowledgements"), false);
            }
            Err(e) => self.end(format!("the process {pid} cannot be killed: {e}"), false),
        }
    }
}

/// A worker, which sends one update at a time.
struct Worker<'a, R> {
    shared: &'a SharedSend<'a, R>,
    /// Senders of acknowledged updates, one to the watcher of each secondary.
    watched: Vec<SyncSender<(Update, Instant)>>,
    connection: Option<Connection>,
    tally: Tally,
    silent: u32,
}

impl<'a, R: BufRead> Worker<'a, R> {
    fn new(
        shared: &'a SharedSend<'a, R>,
        watched: Vec<SyncSender<(Update, Instant)>>,
        connection: Option<Connection>,
    ) -> Self {
        Worker { shared, watched, connection, tally: Tally::default(), silent: 0 }
    }

    /// Sends due updates until the end; returns the outcomes, and the time for which it was ready
    /// but had no core from its first update on.
    fn work(mut self) -> (Tally, Option<Nanos>) {
        let run_delay = self.shared.system.run_delay;
        let mut before = None;
        while !self.shared.is_over() {
            let Some((number, update)) = self.shared.next() else { break };
            let began = *self.shared.began.get_or_init(Instant::now);
            before.get_or_insert_with(run_delay);
            let sender = self.shared.sender;
            let due = sender.rate.map_or_else(Instant::now, |rate| {
                began + Duration::from_secs_f64((number - sender.skip) as f64 / rate)
            });
            if !self.shared.wait(due) {
                break;
            }
            // An id must differ only from the last one on the same socket.
            let outcome = self.exchange(number as u16, &update);
            if matches!(outcome, Ok(NOERROR)) {
                let now = Instant::now();
                for watcher in &self.watched {
                    // If the queue is full, the secondary lacks so many updates that further ones
                    // are not watched.
                    let _ = watcher.try_send((update.clone(), now));
                }
            }
            self.account(number, update.zone(), outcome, due.elapsed());
        }
        let waited = before.flatten().and_then(|before| Some(run_delay()?.since(before)));
        (self.tally, waited)
    }

    /// Sends an update and returns the RCODE of its reply.
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
            Some(connection) if !connection.is_closed() => connection,
            place => place.insert(Connection::to(sender.server, sender.tcp, sender.timeout)?),
        };
        let reply = connection.ask(&request, sender.timeout);
        if reply.is_err() {
            // A late reply must not be taken for the next one.
            self.connection = None;
        }
        let reply = reply?;
        match signed {
            Some(signed) => Ok(signed.check(&reply, unix_time())?),
            None => Ok(reply[3] & 0x0f),
        }
    }

    fn account(
        &mut self,
        number: u64,
        zone: &Name,
        outcome: Result<u8, SendError>,
        took: Duration,
    ) {
        let latency = Nanos::from(took);
        let (outcome, word) = match outcome {
            Ok(rcode) => (Outcome::Reply(rcode), rcode_name(rcode)),
            Err(SendError::Tsig(error)) => {
                self.shared.end(error.to_string(), false);
                (Outcome::Reply(9), "NOTAUTH".to_owned())
            }
            Err(SendError::Io(error)) => {
                self.silent += 1;
                if self.silent >= MAX_SILENT {
                    let why = format!("no reply to {MAX_SILENT} updates in a row: {error}");
                    self.shared.end(why, false);
                }
                (Outcome::Lost, "LOST".to_owned())
            }
        };
        self.tally.count(outcome, latency);
        self.shared.write_outcome(number, &word, took);
        let Outcome::Reply(rcode) = outcome else { return };
        self.silent = 0;
        if rcode == NOERROR {
            self.shared.acknowledged();
        }
        lock(&self.shared.seen).reply(zone, rcode);
    }
}

/// Seconds since 1970, for signatures.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Reason why there is no RCODE.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read as _;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};
    use std::path::Path;

    use super::*;
    use crate::{Operation, stream};

    /// A stream of updates of the zone test.
    fn updates(count: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream::begin(&mut bytes).expect("writes");
        let zone: Name = "test".parse().expect("a name");
        for _ in 0..count {
            let mut update = Update::new(zone);
            update.push(zone.as_wire(), Operation::DeleteName).expect("fits");
            stream::write(&mut bytes, &update).expect("writes");
        }
        bytes
    }

    /// A primary that answers updates as `answer` does, `count` of them; its address.
    fn answering(count: usize, answer: fn(&mut [u8])) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let address = socket.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut message = [0; 512];
            for _ in 0..count {
                let Ok((length, from)) = socket.recv_from(&mut message) else { return };
                answer(&mut message[..length]);
                let _ = socket.send_to(&message[..length], from);
            }
        });
        address
    }

    /// A primary that answers `count` updates with NOERROR; its address.
    fn primary(count: u32) -> SocketAddr {
        answering(count as usize, |message| message[2] |= 0x80)
    }

    /// Threads that have asked for their wait.
    static THREADS: AtomicU64 = AtomicU64::new(0);

    /// A count of waits: the thread that asks first waits 5 ms from one look to the next, each further one 5 ms more.
    fn run_delay() -> Option<Nanos> {
        thread_local! {
            static EACH: u64 = 1 + THREADS.fetch_add(1, Ordering::Relaxed);
            static LOOKS: Cell<u64> = const { Cell::new(0) };
        }
        let looks = LOOKS.get();
        LOOKS.set(looks + 1);
        EACH.with(|each| Some(Nanos::from_millis(100 + each * looks * 5)))
    }

    fn send(count: u32, run_delay: fn() -> Option<Nanos>) -> Sent {
        send_to(primary(count), false, count, run_delay)
    }

    fn send_to(
        server: SocketAddr,
        tcp: bool,
        count: u32,
        run_delay: fn() -> Option<Nanos>,
    ) -> Sent {
        let system = System { run_delay, ..SYSTEM };
        let bytes = updates(count);
        let reader = UpdateReader::new(&bytes[..], Path::new("updates")).expect("a stream");
        sender(server, tcp, 3).run(reader, &mut Vec::new(), system, &AtomicBool::new(false))
    }

    const SYSTEM: System = System { kill: |_| Ok(()), run_delay: || None };

    fn sender(server: SocketAddr, tcp: bool, window: u32) -> Sender {
        Sender {
            server,
            tcp,
            key: None,
            timeout: Duration::from_secs(5),
            rate: Some(200.0),
            window,
            skip: 0,
            count: None,
            kill: None,
            watch: Vec::new(),
        }
    }

    #[test]
    fn connections_are_open_before_the_first_update() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let server = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let streams: Vec<_> = listener.incoming().take(3).map_while(Result::ok).collect();
            for mut stream in streams {
                std::thread::spawn(move || {
                    let mut length = [0; 2];
                    stream.read_exact(&mut length).expect("a length");
                    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut message).expect("an update");
                    message[2] |= 0x80;
                    stream.write_all(&[&length[..], &message].concat()).expect("sends");
                });
            }
        });
        let sent = send_to(server, true, 1, || None);
        assert_eq!((sent.tally.acknowledged(), sent.tally.lost), (1, 0));
    }

    /// A zone that is not the server's is given up; all updates of another are sent.
    #[test]
    fn a_zone_that_cannot_be_updated_stops_no_other() {
        let server = answering(usize::MAX, |message| {
            let is_foreign = message.windows(8).any(|part| part == b"\x07foreign");
            message[2..4].copy_from_slice(&[0xa8, if is_foreign { 9 } else { 0 }]);
        });
        let send = |zones: &[&str], count| {
            let add = |zone: &&str| format!("zone {zone}\nadd a.{zone} 60 A 192.0.2.1\nsend\n");
            let script: String = zones.iter().map(add).collect();
            let reader = UpdateReader::new(script.as_bytes(), Path::new("s")).expect("a script");
            let stop = AtomicBool::new(false);
            let sender = Sender { count, ..sender(server, false, 1) };
            let mut outcomes = Vec::new();
            let sent = sender.run(reader, &mut outcomes, SYSTEM, &stop);
            (sent, String::from_utf8(outcomes).expect("text"))
        };
        for (zones, count, sent, acknowledged) in [
            (&["foreign", "own", "own"][..], None, 3, 2),
            (&["own", "foreign", "foreign", "own"], None, 3, 2),
            (&["foreign", "foreign", "own"], None, 2, 1),
            (&["own", "foreign", "own"], Some(2), 2, 1),
        ] {
            let (found, outcomes) = send(zones, count);
            assert_eq!((found.tally.sent, found.tally.acknowledged()), (sent, acknowledged));
            assert_eq!(found.ended_by, None);
            let why = found.hopeless.expect("a reason");
            assert!(why.contains("the server is not authoritative for the zone"), "{why}");
            let words = outcomes.lines().filter_map(|line| line.split(' ').nth(1));
            let all = zones.iter().take(count.map_or(zones.len(), |count| count as usize));
            let expected = all.map(|zone| if *zone == "own" { "NOERROR" } else { "NOTAUTH" });
            assert!(words.eq(expected), "{outcomes}");
        }
    }

    #[test]
    fn a_connection_that_the_server_has_closed_is_not_used() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let server = listener.local_addr().expect("an address");
        let connection = Connection::to(server, true, Duration::from_secs(5)).expect("listens");
        let (mut stream, _) = listener.accept().expect("a client");
        assert!(!connection.is_closed());
        stream.write_all(b"x").expect("open");
        assert!(!connection.is_closed());
        drop(stream);
        let mut connection = Connection::to(server, true, Duration::from_secs(5)).expect("listens");
        drop(listener.accept().expect("a client"));
        while !connection.is_closed() {
            std::thread::yield_now();
        }
        assert!(connection.ask(&[0; 12], Duration::from_secs(5)).is_err());
    }

    #[test]
    fn the_longest_wait_of_a_worker_counts() {
        let sent = send(12, run_delay);
        assert_eq!((sent.tally.sent, sent.tally.acknowledged()), (12, 12), "{sent:?}");
        let threads = THREADS.load(Ordering::Relaxed);
        assert!((1..=3).contains(&threads));
        assert_eq!(sent.run_delay, Some(Nanos::from_millis(5 * threads)));
        // Eleven steps of 5 ms after the first update.
        assert!(sent.seconds >= 0.055, "{sent:?}");
    }

    #[test]
    fn without_an_update_or_a_count_there_is_no_wait() {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        let looked = || Some(Nanos(LOOKS.fetch_add(1, Ordering::Relaxed)));
        let sent = send(0, looked);
        assert_eq!((sent.seconds, sent.run_delay), (0.0, None));
        assert_eq!(LOOKS.load(Ordering::Relaxed), 0);
        let sent = send(2, || None);
        assert_eq!((sent.tally.acknowledged(), sent.run_delay), (2, None));
    }
}
