//! Replies that leave later than their messages came.
//!
//! ```text
//!   a connection's task   due? ──> Timetable ──alarm──> wakes the tasks whose time has come
//!     Waiting   12.1 ms: a reply   12.1 ms: another   20.0 ms: a third      TCP and TLS: all replies of one connection
//!     until(due).await                                                      HTTP and QUIC: one for each stream
//! ```
//!
//! One kernel timer serves all connections of a runtime: tokio's own timers have a precision of milliseconds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use engine::clock::monotonic;
use measure::Nanos;

use crate::alarm::Alarm;

/// A time, and a number that distinguishes equal times.
type Entry = (Nanos, u64);

/// The times at which tasks of a runtime are woken.
pub(super) struct Timetable {
    alarm: Alarm,
    sleepers: RefCell<BTreeMap<Entry, Waker>>,
    /// Number of sleepers registered so far.
    count: Cell<u64>,
}

impl Timetable {
    /// Makes an empty timetable. Must be called on a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let sleepers = RefCell::default();
        Ok(Timetable { alarm: Alarm::new()?, sleepers, count: Cell::new(0) })
    }

    /// Wakes the sleepers when they are due, until the future is dropped.
    pub(super) async fn run(&self) -> io::Result<()> {
        loop {
            std::future::poll_fn(|cx| self.alarm.poll(cx)).await?;
            let (now, mut sleepers) = (monotonic(), self.sleepers.borrow_mut());
            while let Some(first) = sleepers.first_entry()
                && first.key().0 <= now
            {
                first.remove().wake();
            }
            if let Some(((due, _), _)) = sleepers.first_key_value() {
                self.alarm.set(due.since(now))?;
            }
        }
    }

    /// Returns a future that is ready at `due`.
    pub(super) fn until(&self, due: Nanos) -> WaitUntil<'_> {
        self.count.set(self.count.get() + 1);
        WaitUntil { timetable: self, entry: (due, self.count.get()) }
    }
}

/// A wait until the time of an entry of the timetable.
pub(super) struct WaitUntil<'t> {
    timetable: &'t Timetable,
    entry: Entry,
}

impl WaitUntil<'_> {
    /// Returns the time at which the wait ends.
    pub(super) fn due(&self) -> Nanos {
        self.entry.0
    }
}

impl Future for WaitUntil<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (now, due) = (monotonic(), self.due());
        if due <= now {
            return Poll::Ready(());
        }
        let mut sleepers = self.timetable.sleepers.borrow_mut();
        let is_first = sleepers.first_key_value().is_none_or(|(first, _)| self.entry < *first);
        sleepers.insert(self.entry, cx.waker().clone());
        // Without its timer a runtime cannot continue.
        if is_first && self.timetable.alarm.set(due.since(now)).is_err() {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for WaitUntil<'_> {
    fn drop(&mut self) {
        self.timetable.sleepers.borrow_mut().remove(&self.entry);
    }
}

/// The replies of one connection that leave later, with their lengths in front.
#[derive(Debug, Default)]
pub(super) struct LaterReplies {
    replies: BTreeMap<Entry, Vec<u8>>,
    octets: usize,
    /// Number of replies so far.
    count: u64,
}

impl LaterReplies {
    /// Returns the number of octets that wait.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    /// Returns when the next reply is due; `None` if no reply waits.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.replies.first_key_value().map(|((due, _), _)| *due)
    }

    /// Keeps a reply until `due`.
    pub(super) fn keep(&mut self, due: Nanos, framed: Vec<u8>) {
        self.octets += framed.len();
        self.count += 1;
        self.replies.insert((due, self.count), framed);
    }

    /// Appends the replies that are due to `output`, in the order of their times.
    pub(super) fn release(&mut self, now: Nanos, output: &mut Vec<u8>) {
        while let Some(first) = self.replies.first_entry()
            && first.key().0 <= now
        {
            let framed = first.remove();
            self.octets -= framed.len();
            output.extend_from_slice(&framed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_their_times() {
        let (mut waiting, mut output) = (LaterReplies::default(), Vec::new());
        for (due, reply) in [(30, "c"), (10, "a"), (30, "d"), (20, "b")] {
            waiting.keep(Nanos(due), reply.into());
        }
        let table = [
            (9, "", Some(10), 4),
            (20, "ab", Some(30), 2),
            (29, "", Some(30), 2),
            (99, "cd", None, 0),
        ];
        for (now, leave, due, octets) in table {
            output.clear();
            waiting.release(Nanos(now), &mut output);
            assert_eq!(String::from_utf8_lossy(&output), leave, "at {now}");
            assert_eq!((waiting.due(), waiting.octets()), (due.map(Nanos), octets), "at {now}");
        }
    }

    #[test]
    fn tasks_are_woken_in_the_order_of_their_times_and_not_before() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (local, woken) = (tokio::task::LocalSet::new(), Rc::new(RefCell::new(Vec::new())));
        local.block_on(&runtime, async {
            let timetable = Rc::new(Timetable::new().unwrap());
            let keeper = timetable.clone();
            tokio::task::spawn_local(async move { keeper.run().await });
            // All sleep before the first is due, also on a busy machine.
            let start = monotonic() + Nanos::from_millis(500);
            let sleep = |us: u64| {
                let (timetable, woken) = (timetable.clone(), woken.clone());
                tokio::task::spawn_local(async move {
                    let due = start + Nanos::from_micros(us);
                    timetable.until(due).await;
                    assert!(monotonic() >= due);
                    woken.borrow_mut().push(us);
                })
            };
            let dropped = sleep(300);
            let all = [5_000, 200, 20_000, 0, 700].map(sleep);
            tokio::task::yield_now().await;
            dropped.abort();
            for one in all {
                one.await.unwrap();
            }
            assert!(timetable.sleepers.borrow().is_empty());
        });
        assert_eq!(*woken.borrow(), [0, 200, 700, 5_000, 20_000]);
    }
}
