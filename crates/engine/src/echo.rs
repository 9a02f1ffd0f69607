//! The plainest role, by which engines are measured and tested.

use measure::Nanos;

use crate::batch::{Destination, RxBatch, TxBatch};
use crate::drive::{Next, Role};

/// Sends every datagram back to its sender.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

impl Role for Echo {
    fn handle(&mut self, _: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        for received in rx.iter() {
            let is_room = tx.push(Destination::reply_to(&received), received.bytes.len(), |room| {
                room.copy_from_slice(received.bytes);
                room.len()
            });
            debug_assert!(is_room, "a batch holds the replies to a batch");
        }
        Next::Idle
    }
}
