//! State shared by the tasks of an engine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use engine::stream::{ConnId, Orders, StreamRole};
use engine::{Next, clock};

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
    /// Wakes the timing task.
    pub(super) keeper: RefCell<Option<Waker>>,
}

impl<R: StreamRole + 'static> Shared<R> {
    /// Gets orders from the role and carries them out; the task of `asking` handles its own.
    pub(super) fn pump(self: &Rc<Self>, asking: Option<ConnId>) {
        let mut orders = self.orders.borrow_mut();
        let next = self.role.borrow_mut().orders(clock::monotonic(), &mut orders);
        orders.hand_out(asking, |conn| (self.spawn)(self, conn));
        let before = self.next.replace(next);
        if asking.is_some()
            && next != before
            && let Some(keeper) = &*self.keeper.borrow()
        {
            keeper.wake_by_ref();
        }
    }
}
