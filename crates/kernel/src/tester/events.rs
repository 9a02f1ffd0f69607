//! Single events of a generator or checker: replies that it does not judge, losses, late
//! departures, stalls.

use measure::Nanos;
use measure::counted::SentQuery;
use measure::stall::LateSpan;

use crate::records::{LoadEvent, Record};

/// Something that happened, at a time of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A reply in time with another layout or content than the plainest one.
    Reply(HandedReply<'a>),
    /// A query without a reply in time.
    Lost(SentQuery),
    /// Queries that left late, each less than a millisecond after the last one had left.
    Departures(LateSpan),
    /// A generator did not run for a while.
    Stall {
        /// Last run of the program before the stall.
        from: Nanos,
        /// First run of the program after the stall.
        until: Nanos,
    },
}

/// A reply that is checked in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedReply<'a> {
    /// The replied query: its key is the address in the name, or the number of the question in the
    /// list; its port is one of all workers' ports.
    pub query: SentQuery,
    /// Time at which the reply arrived at the device.
    pub at: Nanos,
    /// The reply without the headers of the frame.
    pub message: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads an event; `None` if the octets are no event.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let LoadEvent { kind, due, sent, at, key, port, id, len, .. } = LoadEvent::read(bytes)?;
        let (due, sent, at) = (Nanos(due), Nanos(sent), Nanos(at));
        let query = SentQuery { due, sent, key, port, id };
        match kind {
            1 => {
                let message = bytes[size_of::<LoadEvent>()..].get(..len as usize)?;
                Some(Event::Reply(HandedReply { query, at, message }))
            }
            2 => Some(Event::Lost(query)),
            3 => {
                let queries = key.into();
                Some(Event::Departures(LateSpan { from: due, until: sent, queries, worst: at }))
            }
            4 => Some(Event::Stall { from: sent, until: at }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes an event as the program does.
    fn event(kind: u64, message: &[u8]) -> Vec<u8> {
        let (len, after_lost) = (message.len() as u32, 0);
        let (due, sent, at, key, port, id) = (100, 200, 300, 7, 8, 9);
        let head = LoadEvent { kind, due, sent, at, key, port, id, len, after_lost };
        [head.octets(), message].concat()
    }

    #[test]
    fn events_are_read_as_the_program_writes_them() {
        let query = SentQuery { due: Nanos(100), sent: Nanos(200), key: 7, port: 8, id: 9 };
        let handed = HandedReply { query, at: Nanos(300), message: b"abc" };
        assert_eq!(Event::read(&event(1, b"abc")), Some(Event::Reply(handed)));
        assert_eq!(Event::read(&event(2, b"")), Some(Event::Lost(query)));
        let (from, until, worst) = (Nanos(100), Nanos(200), Nanos(300));
        let departures = Event::Departures(LateSpan { from, until, queries: 7, worst });
        assert_eq!(Event::read(&event(3, b"")), Some(departures));
        let stall = Event::Stall { from: Nanos(200), until: Nanos(300) };
        assert_eq!(Event::read(&event(4, b"")), Some(stall));
        assert_eq!(Event::read(&event(5, b"")), None);
        let cut = event(1, b"abc");
        assert_eq!(Event::read(&cut[..cut.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(Event::Reply(handed)) = Event::read(&bytes) {
                prop_assert!(handed.message.len() + size_of::<LoadEvent>() <= bytes.len());
            }
        }
    }
}
