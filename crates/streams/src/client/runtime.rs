//! The engine of streams: one thread, a runtime, one task per connection, and one for timing.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use engine::stream::{ConnId, End, Mix, Orders, StreamRole};
use engine::{AUTO_SPIN, Next, WaitMode, clock};
use measure::{Nanos, WriteMode};
use tokio::task::LocalSet;

use super::dial::{DialedConnection, Dialer};
use super::exchange::Task;
use super::framed::Framed;
use super::meter::{Bytes, Meter, StreamCounts};
use super::quic::Endpoints;
use super::shared::{Caller, Shared, Spawn};
use crate::alarm::Alarm;

/// Highest number of bytes of one read: two of the longest messages with their lengths.
const READ_SIZE: usize = 2 * (2 + 65_535);
/// Longest time between two checks of the stop flag.
const STOP_LATENCY: Nanos = Nanos::from_millis(50);
/// Longest time of a poll of a spinning worker without work: in a longer one a connection worked.
const EMPTY_LOOK: Nanos = Nanos::from_micros(5);
/// Longest wait for a peer when a connection is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(200);

/// Dialers of the kinds of connections.
struct Dialers {
    /// Each dialer with its QUIC endpoints.
    dialers: Vec<(Dialer, Option<Endpoints>)>,
    mix: Mix,
    /// Counts the bytes of all connections.
    meter: Meter,
}

impl Dialers {
    /// Returns the dialer of a connection.
    fn of(&self, conn: ConnId) -> &(Dialer, Option<Endpoints>) {
        &self.dialers[self.mix.kind(conn)]
    }
}

/// Runs a connection from dialing to its end.
async fn connection<R: StreamRole + 'static>(
    shared: Rc<Shared<R>>,
    dialers: Rc<Dialers>,
    conn: ConnId,
) {
    let (dialer, endpoints) = dialers.of(conn);
    let end = match dialer.dial(conn, dialers.meter.clone(), endpoints.as_ref()).await {
        Err(failure) => End::Failed(failure),
        Ok(DialedConnection::Exchange(exchange)) => {
            // QUIC forms its packets by itself.
            let write = if dialer.carriage.is_quic() { WriteMode::Together } else { dialer.write };
            let mut exchanged =
                Task::new(conn, exchange, dialer.query_timeout, write, dialers.meter.clone());
            let end = std::future::poll_fn(|cx| exchanged.poll(&shared, cx)).await;
            match end {
                End::Ordered => exchanged.close().await,
                End::GoingAway => {
                    tokio::task::spawn_local(going_away(shared.clone(), exchanged));
                }
                End::ByPeer | End::Failed(_) => {}
            }
            end
        }
        Ok(DialedConnection::Framed(stream)) => {
            let mut framed = Framed::new(conn, stream, dialer.max_message, dialer.write);
            let end = std::future::poll_fn(|cx| framed.poll(&shared, cx)).await;
            framed.end_unwritten(&shared, end);
            if end == End::Ordered {
                framed.into_stream().close(CLOSE_GRACE).await;
            }
            end
        }
    };
    shared.role.borrow_mut().closed(clock::monotonic(), conn, end);
    shared.pump(Caller::Connection(conn));
}

/// Receives the last replies of a connection whose number is free again.
async fn going_away<R: StreamRole + 'static>(shared: Rc<Shared<R>>, mut exchanged: Task) {
    std::future::poll_fn(|cx| exchanged.poll_going_away(&shared, cx)).await;
    exchanged.close().await;
}

/// Carries out the orders of a role.
pub struct StreamEngine<R> {
    // Declared before the runtime, since tasks use this field when they are dropped.
    local: LocalSet,
    runtime: tokio::runtime::Runtime,
    shared: Rc<Shared<R>>,
    dialers: Rc<Dialers>,
}

impl<R: StreamRole + 'static> StreamEngine<R> {
    /// Makes an engine of at most `connections` connections for `role`; `mix` assigns each connection to one
    /// of the `dialers`.
    ///
    /// # Errors
    /// When the runtime cannot be made.
    ///
    /// # Panics
    /// When the mix has kinds for which there is no dialer.
    pub fn new(dialers: Vec<Dialer>, mix: Mix, connections: usize, role: R) -> io::Result<Self> {
        assert!(mix.kinds() <= dialers.len(), "there is a dialer for each kind");
        let dialers = dialers
            .into_iter()
            .map(|dialer| dialer.endpoints(connections).map(|endpoints| (dialer, endpoints)))
            .collect::<io::Result<_>>()?;
        let dialers = Rc::new(Dialers { dialers, mix, meter: Meter::default() });
        let dialers_of_tasks = dialers.clone();
        let spawn: Spawn<R> = Box::new(move |shared, conn| {
            let task = connection(shared.clone(), dialers_of_tasks.clone(), conn);
            tokio::task::spawn_local(task);
        });
        let shared = Rc::new(Shared {
            role: RefCell::new(role),
            orders: RefCell::new(Orders::new(connections)),
            scratch: RefCell::new(vec![0; READ_SIZE].into()),
            spawn,
            next: Cell::new(Next::Now),
            last_work: Cell::default(),
            keeper: RefCell::new(None),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(StreamEngine { local: LocalSet::new(), runtime, shared, dialers })
    }

    /// Gives access to the role between two drives.
    pub fn role<T>(&mut self, with: impl FnOnce(&mut R) -> T) -> T {
        with(&mut self.shared.role.borrow_mut())
    }

    /// Returns the byte counts of all connections so far.
    pub fn bytes(&self) -> Bytes {
        self.dialers.meter.get()
    }

    /// Returns the counts of streams that peers did not permit at once.
    pub fn streams(&self) -> StreamCounts {
        self.dialers.meter.streams()
    }

    /// Works until the role is done or `stop` is set. Connections stay open, without being served,
    /// until the next call. Returns the time in which it spun without work.
    ///
    /// # Errors
    /// When the kernel has no timer.
    pub fn drive(&mut self, mode: WaitMode, stop: &AtomicBool) -> io::Result<Nanos> {
        self.local.block_on(&self.runtime, keep_time(&self.shared, mode, stop))
    }

    /// Closes all connections and returns the role.
    pub fn into_role(self) -> R {
        let StreamEngine { local, runtime, shared, dialers } = self;
        drop(local);
        for endpoints in dialers.dialers.iter().filter_map(|(_, endpoints)| endpoints.as_ref()) {
            runtime.block_on(endpoints.close());
        }
        drop(runtime);
        Rc::into_inner(shared).expect("the tasks have ended").role.into_inner()
    }
}

/// Calls the role whenever it is due.
async fn keep_time<R: StreamRole + 'static>(
    shared: &Rc<Shared<R>>,
    mode: WaitMode,
    stop: &AtomicBool,
) -> io::Result<Nanos> {
    let alarm = Alarm::new()?;
    shared.next.set(Next::Now);
    // Time that was spun, and time of the last poll.
    let (mut idle, mut looked) = (Nanos::ZERO, None);
    while !stop.load(Ordering::Relaxed) {
        let now = clock::monotonic();
        let due = match shared.next.get() {
            Next::Done => break,
            Next::Now => now,
            Next::At(due) => due,
            Next::Idle => Nanos::MAX,
        };
        if due <= now {
            shared.pump(Caller::Keeper);
            looked = None;
            // Let the connections work.
            tokio::task::yield_now().await;
            continue;
        }
        let spin = match mode {
            WaitMode::Spin | WaitMode::Yield => true,
            WaitMode::Auto => due < now + AUTO_SPIN || now < shared.last_work.get() + AUTO_SPIN,
            WaitMode::Sleep => false,
        };
        let before = looked.filter(|before| spin && shared.last_work.get() < *before);
        let look = before.map_or(Nanos::ZERO, |before| now.since(before));
        idle += if look <= EMPTY_LOOK { look } else { Nanos::ZERO };
        looked = spin.then_some(now);
        if spin {
            tokio::task::yield_now().await;
            continue;
        }
        let ahead = if mode == WaitMode::Auto { AUTO_SPIN } else { Nanos::ZERO };
        alarm.set(due.since(ahead).min(now + STOP_LATENCY).since(now))?;
        let seen = (shared.next.get(), shared.last_work.get());
        std::future::poll_fn(|cx| {
            let worked = mode == WaitMode::Auto && shared.last_work.get() != seen.1;
            if worked || shared.next.get() != seen.0 {
                return Poll::Ready(Ok(()));
            }
            shared.keeper.borrow_mut().get_or_insert_with(|| cx.waker().clone());
            alarm.poll(cx)
        })
        .await?;
    }
    shared.keeper.take();
    Ok(idle)
}
