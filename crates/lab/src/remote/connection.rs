//! This program's end of the pipes to a process on another host: for orders and replies.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::error::{Peer, RemoteError};
use super::handover::Pipes;
use super::message::{Greeting, Order, Reply, SHOWN, each, encode};

/// Time within which a simple order must be replied to. Longer waits end by an interrupt.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between keep-alive messages; a process that misses them ends.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time between two checks for an interruption; a reply ends the wait at once.
const WAIT_STEP: Duration = Duration::from_millis(100);
/// Number of orders and of replies that wait.
const MAX_WAITING: usize = 64;

/// A connection to a process on another host, whose input ends when this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Peer,
    orders: SyncSender<Vec<u8>>,
    replies: Receiver<Result<Reply, String>>,
    /// Set at the end of the process's replies.
    ended: Arc<AtomicBool>,
    /// Set when the user interrupts this program.
    pub(super) interrupted: Arc<AtomicBool>,
    /// Whether replies may no longer match orders, after a timeout, an interrupt or a strange reply.
    is_lost: bool,
}

impl Connection {
    pub(super) fn new(
        peer: Peer,
        mut input: impl Write + Send + 'static,
        output: impl Read + Send + 'static,
    ) -> Self {
        let (orders, waiting) = mpsc::sync_channel::<Vec<u8>>(MAX_WAITING);
        std::thread::spawn(move || {
            loop {
                let line = match waiting.recv_timeout(ALIVE_INTERVAL) {
                    Ok(line) => line,
                    Err(RecvTimeoutError::Timeout) => encode(&Order::Alive),
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if input.write_all(&line).is_err() {
                    return;
                }
            }
        });
        let (heard, replies) = mpsc::sync_channel(MAX_WAITING);
        let ended = Arc::new(AtomicBool::new(false));
        let at_end = ended.clone();
        std::thread::spawn(move || {
            each(output, |reply| {
                // The output is read to its end even without a receiver: the process may still
                // write.
                let _ = heard.send(reply);
                true
            });
            at_end.store(true, Ordering::Relaxed);
        });
        Connection { peer, orders, replies, ended, interrupted: Arc::default(), is_lost: false }
    }

    /// Makes the connection from pipes that this process has inherited; the flag `interrupted` ends
    /// long waits.
    pub(super) fn inherited(
        peer: Peer,
        pipes: Pipes,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Self, RemoteError> {
        let Ok((input, output)) = pipes.take() else { return Err(RemoteError::Gone(peer)) };
        let interrupted = Arc::clone(interrupted);
        Ok(Connection { interrupted, ..Self::new(peer, input, output) })
    }

    /// Checks that the process is still there, as far as that shows without an order.
    pub(super) fn check(&self) -> Result<(), RemoteError> {
        if self.ended.load(Ordering::Relaxed) { Err(self.gone_error()) } else { Ok(()) }
    }

    /// Sends an order without waiting for a reply.
    pub(super) fn send(&self, order: &Order) -> Result<(), RemoteError> {
        if self.is_lost {
            return Err(RemoteError::Lost(self.peer.clone()));
        }
        self.orders.try_send(encode(order)).map_err(|_| self.gone_error())
    }

    /// Sends an order, and returns its reply, which must come within `limit`.
    pub(super) fn ask(&mut self, order: &Order, limit: Duration) -> Result<Reply, RemoteError> {
        self.send(order)?;
        self.wait(limit)
    }

    /// Waits for the greeting of a process, which must be of the version `version`.
    pub(super) fn greeted(&mut self, version: &str, limit: Duration) -> Result<(), RemoteError> {
        let reply = self.wait(limit)?;
        greeting(&self.peer, reply, version).map(drop)
    }

    /// Waits for the next reply.
    fn wait(&mut self, limit: Duration) -> Result<Reply, RemoteError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(reply) = self.receive(left.min(WAIT_STEP))? {
                return Ok(reply);
            }
            if limit > REPLY_TIMEOUT && self.interrupted.load(Ordering::Relaxed) {
                self.is_lost = true;
                return Err(RemoteError::Interrupted { peer: self.peer.clone() });
            }
            if left.is_zero() {
                return Err(self.silent(limit));
            }
        }
    }

    /// Returns the next reply, if one comes within `limit`.
    pub(super) fn receive(&mut self, limit: Duration) -> Result<Option<Reply>, RemoteError> {
        let reply = match self.replies.recv_timeout(limit) {
            Ok(reply) => understood(&self.peer, reply),
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone_error()),
        };
        self.is_lost |= matches!(reply, Err(RemoteError::Strange(..)));
        reply.map(Some)
    }

    /// Returns the error of an order without a reply in time; there are no more orders.
    pub(super) fn silent(&mut self, limit: Duration) -> RemoteError {
        self.is_lost = true;
        RemoteError::Silent(self.peer.clone(), limit)
    }

    /// Returns the error for a reply to no order, and refuses further orders.
    pub(super) fn unexpected_reply(&mut self, reply: &Reply) -> RemoteError {
        self.is_lost = true;
        unexpected_reply(&self.peer, reply)
    }

    fn gone_error(&self) -> RemoteError {
        RemoteError::Gone(self.peer.clone())
    }
}

/// Returns a reply that is neither a refusal nor unreadable.
pub(super) fn understood(peer: &Peer, reply: Result<Reply, String>) -> Result<Reply, RemoteError> {
    let peer = || peer.clone();
    match reply {
        Ok(Reply::Refused(why)) => Err(RemoteError::Refused { peer: peer(), why }),
        Ok(reply) => Ok(reply),
        Err(found) => Err(RemoteError::Strange(peer(), found)),
    }
}

/// Returns the greeting in a first reply, of the version `version`.
pub(super) fn greeting(
    peer: &Peer,
    reply: Reply,
    version: &str,
) -> Result<Box<Greeting>, RemoteError> {
    match reply {
        Reply::Ready(greeting) if greeting.version == version => Ok(greeting),
        Reply::Ready(greeting) => {
            let (found, wanted) = (greeting.version, version.to_owned());
            Err(RemoteError::Version { peer: peer.clone(), found, wanted })
        }
        other => Err(unexpected_reply(peer, &other)),
    }
}

fn unexpected_reply(peer: &Peer, reply: &Reply) -> RemoteError {
    let found = format!("{reply:?}").chars().take(SHOWN).collect();
    RemoteError::Strange(peer.clone(), found)
}
