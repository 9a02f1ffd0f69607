//! State shared by the tasks of an engine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use engine::stream::{ConnId, End, Orders, StreamRole, first_message};
use engine::{Next, clock};
use measure::Nanos;

/// Starts the task of a connection.
pub(super) type Spawn<R> = Box<dyn Fn(&Rc<Shared<R>>, ConnId)>;

/// State shared by the tasks of an engine.
pub(super) struct Shared<R> {
    pub(super) role: RefCell<R>,
    pub(super) orders: RefCell<Orders>,
    /// Read buffer of all connections.
    pub(super) scratch: RefCell<Box<[u8]>>,
    pub(super) spawn: Spawn<R>,
    pub(super) next: Cell<Next>,
    /// Time of the last work of a connection.
    pub(super) last_work: Cell<Nanos>,
    /// Wakes the timing task, for orders that are due earlier.
    pub(super) keeper: RefCell<Option<Waker>>,
}

/// Task that fetches orders from the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The timing task, which sleeps until orders are due.
    Keeper,
    /// The task of a connection, which handles its own orders.
    Connection(ConnId),
    /// A task that only calls the role, and does not execute orders.
    Other,
}

impl<R: StreamRole> Shared<R> {
    /// Reports to the role the messages that were ordered for a connection which has ended with
    /// `end`, but not written (from offset `written` of the output on): if the peer closed it, the
    /// role gets them back, otherwise they count as never sent.
    pub(super) fn end_unwritten(&self, conn: ConnId, written: usize, end: End) {
        let (mut orders, mut role) = (self.orders.borrow_mut(), self.role.borrow_mut());
        let (output, mut at, now) = (&orders.slot(conn).output, 0, clock::monotonic());
        while let Some(message) = output.get(at..).and_then(first_message) {
            match (end, message.first_chunk()) {
                _ if at < written => {}
                (End::Ordered | End::Failed(_), Some(&tag)) => role.never_left(now, conn, tag),
                _ => role.turned_away(now, conn, message),
            }
            at += 2 + message.len();
        }
    }
}

impl<R: StreamRole + 'static> Shared<R> {
    /// Gets orders from the role and carries them out.
    pub(super) fn pump(self: &Rc<Self>, caller: Caller) {
        let mut orders = self.orders.borrow_mut();
        let now = clock::monotonic();
        let next = self.role.borrow_mut().orders(now, &mut orders);
        let asking = match caller {
            Caller::Connection(conn) => Some(conn),
            Caller::Keeper | Caller::Other => None,
        };
        orders.hand_out(asking, |conn| (self.spawn)(self, conn));
        self.next.set(next);
        if caller != Caller::Keeper {
            self.last_work.set(now);
            self.keeper.take().into_iter().for_each(Waker::wake);
        }
    }
}
