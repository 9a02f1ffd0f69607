//! Replays by clients, driven by hand: when connections open, what is held, in which order queries leave.

use std::sync::Arc;

use engine::Next;
use engine::stream::{ConnId, End, Failure, Opened, Orders, StreamRole, first_message};
use load::{ClientPlan, ClientReplay, Clients, Recorder};
use measure::Nanos;
use wire::{Qtype, QueryTemplate};

use crate::common::{MS, answer, client_plan, constant, plan};

/// Returns the query for a namespace name with this number.
fn query(number: u8) -> Vec<u8> {
    let name = format!("010-000-000-{number:03}.dns64perf.test").parse().expect("a name");
    QueryTemplate::new(&name, Qtype::A, true, false, None).bytes().to_vec()
}

/// Clients with their orders, and the connections that were opened.
struct Driven {
    clients: Clients,
    orders: Orders,
    opened: Vec<ConnId>,
}

impl Driven {
    /// Makes clients for queries: milliseconds and client; each query has its place as its number.
    fn new(queries: &[(u64, u32)], opening: u32, outstanding: u32) -> Self {
        let mut recorder = Recorder::new(MS(100)).expect("a place");
        for (number, &(at_ms, client)) in (0u8..).zip(queries) {
            assert!(recorder.add(MS(at_ms), client, &query(number)).expect("room"));
        }
        let recording = recorder.finish(None).expect("room").expect("queries");
        let connections = recording.clients();
        let plan = plan(constant(1_000.0), recording.span, 1);
        let plan = ClientPlan { opening, ..client_plan(plan, connections, outstanding) };
        let replay = ClientReplay { recording, speed: 1.0, loops: 1 };
        let mut clients = Clients::replaying(plan, replay, Arc::default());
        clients.begin(Nanos::ZERO);
        let orders = Orders::new(connections as usize);
        Driven { clients, orders, opened: Vec::new() }
    }

    /// Calls the clients; returns when they are due again.
    fn call(&mut self, at_ms: u64) -> Next {
        let next = self.clients.orders(MS(at_ms), &mut self.orders);
        self.orders.hand_out(None, |conn| self.opened.push(conn));
        next
    }

    /// Tells the role that a connection is established.
    fn establish(&mut self, at_ms: u64, conn: ConnId) {
        self.clients.opened(MS(at_ms), conn, Opened::default());
    }

    /// Takes the messages ordered for a connection, which leave; returns the numbers in their names.
    fn leave(&mut self, at_ms: u64, conn: ConnId) -> Vec<u8> {
        self.take(at_ms, conn).iter().map(|message| number(message)).collect()
    }

    fn take(&mut self, at_ms: u64, conn: ConnId) -> Vec<Vec<u8>> {
        let output = std::mem::take(&mut self.orders.slot(conn).output);
        let (mut at, mut messages) = (0, Vec::new());
        while let Some(message) = first_message(&output[at..]) {
            messages.push(message.to_vec());
            at += 2 + message.len();
        }
        self.clients.sent(MS(at_ms), conn);
        messages
    }
}

/// Returns the number in the name of a query.
fn number(message: &[u8]) -> u8 {
    std::str::from_utf8(&message[25..28]).expect("ASCII").parse().expect("a number")
}

#[test]
fn connections_open_when_a_query_is_due_and_others_do_not_wait() {
    let mut driven = Driven::new(&[(0, 0), (5, 1), (6, 0), (7, 1), (30, 2)], 9, 64);
    assert!(matches!(driven.call(0), Next::At(at) if at <= MS(5)));
    assert_eq!(driven.opened, [0]);
    driven.call(7);
    assert_eq!(driven.opened, [0, 1]);
    // Queries wait in a connection that is being opened, in their order.
    driven.establish(8, 1);
    assert_eq!(driven.leave(8, 1), [1, 3]);
    assert_eq!(driven.leave(9, 0), [0, 2]);
    driven.call(30);
    assert_eq!(driven.opened, [0, 1, 2]);
    // One still waits for its connection, so that it has not left.
    let tally = driven.clients.into_result().tally;
    assert_eq!((tally.planned, tally.sent, tally.unresolved, tally.unserved), (5, 4, 4, 1));
}

#[test]
fn one_connection_is_opened_after_the_other_when_no_more_are_permitted() {
    let mut driven = Driven::new(&[(0, 0), (0, 1), (0, 2), (1, 1)], 1, 64);
    driven.call(1);
    assert_eq!(driven.opened, [0]);
    for (at_ms, conn) in [(10, 0), (20, 1), (30, 2)] {
        driven.establish(at_ms, conn);
        driven.call(at_ms);
        assert_eq!(driven.opened.len() as u32, (conn + 2).min(3), "{:?}", driven.opened);
    }
    assert_eq!([0, 1, 2].map(|conn| driven.leave(31, conn)), [vec![0], vec![1, 3], vec![2]]);
    // A query whose connection cannot be opened within the timeout never leaves, nor does one that still waits at the end.
    let mut driven = Driven::new(&[(0, 0), (0, 1), (90, 1)], 1, 64);
    driven.call(90);
    driven.call(100);
    driven.establish(150, 0);
    driven.call(150);
    assert_eq!((driven.opened.clone(), driven.leave(151, 1)), (vec![0, 1], vec![2]));
    let result = driven.clients.into_result();
    assert_eq!((result.connections[0].unserved, result.tally.unserved), (2, 2));
    assert_eq!((result.tally.sent, result.tally.lost), (1, 0));
}

#[test]
fn a_client_without_room_holds_its_queries_in_order() {
    // Two at a time, as the plan says; four are due at once.
    let mut driven = Driven::new(&[(0, 0), (0, 0), (0, 0), (0, 0), (0, 1)], 9, 2);
    driven.call(0);
    driven.establish(1, 0);
    driven.establish(1, 1);
    let first = driven.take(1, 0);
    assert_eq!(first.iter().map(|message| number(message)).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(driven.leave(1, 1), [4]);
    driven.clients.message(MS(2), 0, &answer(&first[1]));
    driven.call(2);
    assert_eq!(driven.leave(2, 0), [2]);
    driven.clients.message(MS(3), 0, &answer(&first[0]));
    driven.call(3);
    assert_eq!(driven.leave(3, 0), [3]);
    let tally = driven.clients.into_result().tally;
    assert_eq!((tally.sent, tally.answered, tally.valid, tally.unresolved), (5, 2, 2, 3));
    assert_eq!((tally.schedule_error.count(), tally.schedule_error.max()), (5, Nanos::ZERO));
}

#[test]
fn a_client_whose_connection_failed_rests_and_its_later_queries_wait() {
    let mut driven = Driven::new(&[(0, 0), (10, 0), (20, 0), (20, 1)], 9, 64);
    driven.call(0);
    driven.clients.closed(MS(1), 0, End::Failed(Failure::Refused));
    driven.call(20);
    assert_eq!(driven.opened, [0, 1], "it rests for 100 ms");
    driven.call(101);
    assert_eq!(driven.opened, [0, 1, 0]);
    driven.establish(102, 0);
    assert_eq!(driven.leave(102, 0), [1, 2]);
    let result = driven.clients.into_result();
    assert_eq!((result.tally.sent, result.tally.lost, result.tally.unserved), (2, 0, 2));
    let connections = &result.connections[0];
    assert_eq!((connections.lost_with_connection, connections.unserved), (0, 2));
    assert_eq!(connections.queries_failed.values().sum::<u64>(), 1);
}
