//! The engine of streams: one thread, a runtime, a task for each connection, and one that keeps time.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use engine::stream::{ConnId, End, Mix, Orders, StreamRole};
use engine::{Next, WaitMode, clock};
use measure::Nanos;
use tokio::task::LocalSet;

use super::alarm::Alarm;
use super::dial::{Dialed, Dialer};
use super::exchange::Exchanged;
use super::framed::Framed;
use super::meter::{Bytes, Meter};
use super::quic::Endpoints;

/// What one read may bring: two of the longest messages with their lengths.
const SCRATCH: usize = 2 * (2 + 65_535);
/// A worker looks at its stop flag at least so often.
const STOP_LATENCY: Nanos = Nanos::from_millis(50);
/// `Auto` spins through the last of a wait, some wake-ups' worth.
const AUTO_SPIN: Nanos = Nanos::from_micros(60);
/// So long a peer has to take our goodbye.
const GOODBYE: Duration = Duration::from_millis(200);

/// What the tasks of an engine share.
pub(super) struct Shared<R> {
    pub(super) role: RefCell<R>,
    pub(super) orders: RefCell<Orders>,
    /// Where all connections read to.
    pub(super) scratch: RefCell<Box<[u8]>>,
    ways: Ways,
    meter: Meter,
    next: Cell<Next>,
    /// Wakes the task that keeps time.
    keeper: RefCell<Option<Waker>>,
}

/// How the connections come to be.
struct Ways {
    /// Each with the ports that QUIC is spoken from.
    dialers: Vec<(Dialer, Option<Endpoints>)>,
    mix: Mix,
}

impl Ways {
    /// That of a connection.
    fn of(&self, conn: ConnId) -> &(Dialer, Option<Endpoints>) {
        &self.dialers[self.mix.kind(conn)]
    }
}

impl<R> Shared<R> {
    /// How a connection comes to be.
    #[inline]
    pub(super) fn dialer(&self, conn: ConnId) -> &Dialer {
        &self.ways.of(conn).0
    }
}

impl<R: StreamRole + 'static> Shared<R> {
    /// Asks the role for orders and has them carried out; the task of `asking` looks at its own.
    pub(super) fn pump(self: &Rc<Self>, asking: Option<ConnId>) {
        let mut orders = self.orders.borrow_mut();
        let next = self.role.borrow_mut().orders(clock::monotonic(), &mut orders);
        orders.hand_out(asking, |conn| {
            tokio::task::spawn_local(connection(self.clone(), conn));
        });
        let before = self.next.replace(next);
        if asking.is_some()
            && next != before
            && let Some(keeper) = &*self.keeper.borrow()
        {
            keeper.wake_by_ref();
        }
    }
}

/// A connection from its dialing to its end.
async fn connection<R: StreamRole + 'static>(shared: Rc<Shared<R>>, conn: ConnId) {
    let (dialer, endpoints) = shared.ways.of(conn);
    let end = match dialer.dial(conn, shared.meter.clone(), endpoints.as_ref()).await {
        Err(failure) => End::Failed(failure),
        Ok(Dialed::Exchange(exchange)) => {
            let mut exchanged = Exchanged::new(conn, exchange);
            let end = std::future::poll_fn(|cx| exchanged.poll(&shared, cx)).await;
            if end == End::Ordered {
                exchanged.close().await;
            }
            end
        }
        Ok(Dialed::Datagrams(mut datagrams)) => {
            std::future::poll_fn(|cx| datagrams.poll(&shared, cx)).await
        }
        Ok(Dialed::Framed(stream)) => {
            let mut framed = Framed::new(conn, stream);
            let end = std::future::poll_fn(|cx| framed.poll(&shared, cx)).await;
            if end == End::Ordered {
                framed.into_stream().close(GOODBYE).await;
            }
            end
        }
    };
    shared.role.borrow_mut().closed(clock::monotonic(), conn, end);
    shared.pump(Some(conn));
}

/// Carries out the orders of a role.
pub struct StreamEngine<R> {
    // Before the runtime, since its tasks need that when they are dropped.
    local: LocalSet,
    runtime: tokio::runtime::Runtime,
    shared: Rc<Shared<R>>,
}

impl<R: StreamRole + 'static> StreamEngine<R> {
    /// An engine of at most `connections` at once for `role`; which of the `dialers` opens which is the mix's.
    ///
    /// # Errors
    /// When the runtime cannot be made.
    ///
    /// # Panics
    /// When the mix has kinds for which there is no dialer.
    pub fn new(dialers: Vec<Dialer>, mix: Mix, connections: usize, role: R) -> io::Result<Self> {
        assert!(mix.kinds() <= dialers.len(), "a dialer for each kind");
        let dialers = dialers
            .into_iter()
            .map(|dialer| dialer.endpoints(connections).map(|endpoints| (dialer, endpoints)))
            .collect::<io::Result<_>>()?;
        let shared = Rc::new(Shared {
            role: RefCell::new(role),
            orders: RefCell::new(Orders::new(connections)),
            scratch: RefCell::new(vec![0; SCRATCH].into()),
            ways: Ways { dialers, mix },
            meter: Meter::default(),
            next: Cell::new(Next::Now),
            keeper: RefCell::new(None),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(StreamEngine { local: LocalSet::new(), runtime, shared })
    }

    /// Looks at the role, or changes it, between two drives.
    pub fn role<T>(&mut self, with: impl FnOnce(&mut R) -> T) -> T {
        with(&mut self.shared.role.borrow_mut())
    }

    /// Bytes through all connections so far.
    pub fn bytes(&self) -> Bytes {
        self.shared.meter.get()
    }

    /// Works until the role is done or `stop` is set. Connections stay open, and stand still, until
    /// the next time.
    ///
    /// # Errors
    /// When the kernel has no timer.
    pub fn drive(&mut self, mode: WaitMode, stop: &AtomicBool) -> io::Result<()> {
        self.local.block_on(&self.runtime, keep_time(&self.shared, mode, stop))
    }

    /// Closes all connections; the role as it is then.
    pub fn into_role(self) -> R {
        let StreamEngine { local, runtime, shared } = self;
        drop(local);
        for endpoints in shared.ways.dialers.iter().filter_map(|(_, endpoints)| endpoints.as_ref())
        {
            runtime.block_on(endpoints.close());
        }
        drop(runtime);
        Rc::into_inner(shared).expect("the tasks are gone").role.into_inner()
    }
}

/// Calls the role whenever its time has come.
async fn keep_time<R: StreamRole + 'static>(
    shared: &Rc<Shared<R>>,
    mode: WaitMode,
    stop: &AtomicBool,
) -> io::Result<()> {
    let alarm = Alarm::new()?;
    shared.next.set(Next::Now);
    while !stop.load(Ordering::Relaxed) {
        let now = clock::monotonic();
        let due = match shared.next.get() {
            Next::Done => break,
            Next::Now => now,
            Next::At(due) => due,
            Next::Idle => Nanos::MAX,
        };
        if due <= now {
            shared.pump(None);
            // The connections have their turn.
            tokio::task::yield_now().await;
            continue;
        }
        let spin = match mode {
            WaitMode::Spin | WaitMode::Yield => true,
            WaitMode::Auto => due < now + AUTO_SPIN,
            WaitMode::Sleep => false,
        };
        if spin {
            tokio::task::yield_now().await;
            continue;
        }
        let ahead = if mode == WaitMode::Auto { AUTO_SPIN } else { Nanos::ZERO };
        alarm.set(due.since(ahead).min(now + STOP_LATENCY).since(now))?;
        let seen = shared.next.get();
        std::future::poll_fn(|cx| {
            if shared.next.get() != seen {
                return Poll::Ready(Ok(()));
            }
            shared.keeper.borrow_mut().get_or_insert_with(|| cx.waker().clone());
            alarm.poll(cx)
        })
        .await?;
    }
    shared.keeper.borrow_mut().take();
    Ok(())
}
