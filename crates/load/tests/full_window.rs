//! A closed loop keeps its window full: a free place stands empty for no time while a connection may carry its query.

use std::cell::Cell;

use load::{ClientPlan, Plan, Population};
use measure::{Nanos, Pacing, Rng};
use proptest::prelude::*;

use crate::common::net::Net;
use crate::common::{MS, US, answer, begun, client_plan, plan, run};

/// When a server answers the queries of a window.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// Each query after this time.
    After(Nanos),
    /// Each after a random time up to this one.
    Within(Nanos),
    /// All queries of this time together at its end.
    Together(Nanos),
    /// One after the other, each after this time.
    InTurn(Nanos),
}

impl Server {
    /// Returns the time that each query takes, which arrives at the given time.
    fn delays(self) -> impl FnMut(Nanos) -> Nanos {
        let (mut rng, mut free_at) = (Rng::part(5, 7), Nanos::ZERO);
        move |now| match self {
            Server::After(time) => time,
            Server::Within(time) => Nanos(1 + rng.next_u64() % time.0),
            Server::Together(time) => Nanos(time.0 - now.0 % time.0),
            Server::InTurn(time) => {
                free_at = free_at.max(now) + time;
                free_at.since(now)
            }
        }
    }
}

fn servers() -> impl Strategy<Value = Server> {
    let time = |least: u64, most: u64| (least..most).prop_map(US);
    prop_oneof![
        time(1, 10_000).prop_map(Server::After),
        time(2, 20_000).prop_map(Server::Within),
        time(100, 5_000).prop_map(Server::Together),
        time(1, 50).prop_map(Server::InTurn),
    ]
}

/// Returns the share of a window of `size` that belongs to `worker`.
fn share(size: u32, worker: u32, workers: u32) -> u64 {
    u64::from(size / workers + u32::from(worker < size % workers))
}

/// Returns the number of places of a window that are open after so many replies: all of a stream's. Those of
/// datagrams open with the replies, since a server's receive queue would overflow.
fn open_places(size: u64, datagrams: bool, replies: u64) -> u64 {
    if datagrams { size.min(64 + replies / 2) } else { size }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn clients_keep_their_window_full(
        size in 1u32..1_200,
        count in 1u32..100,
        (workers, worker) in (1u32..4).prop_flat_map(|n| (Just(n), 0..n)),
        datagrams: bool,
        random_order: bool,
        per_connection in prop_oneof![Just(None), (1u64..200).prop_map(Some)],
        handshake in 0u64..3_000,
        server in servers(),
    ) {
        let (duration, own) = (MS(30), share(size, worker, workers));
        let pacing = Pacing::Window { outstanding: size };
        // Else a place may be free again before its late reply.
        let keep_places = true;
        let p = Plan { worker, workers, adaptive_window: datagrams, keep_places, ..plan(pacing, duration, 1) };
        let room = own.div_ceil(count.into()).max(1);
        let mut delays = server.delays();
        let clients = begun(ClientPlan {
            queries_per_connection: per_connection,
            population: Population { random_order, ..Population::default() },
            ..client_plan(p, count, room as u32)
        });
        let mut net = Net::new(clients, US(handshake), |now, _| Some(delays(now)));
        net.drive(|now, net| {
            let open = open_places(own, datagrams, net.replies);
            // What a connection that is being opened waits to send is on its way too.
            let empty = open.saturating_sub(net.outstanding() + net.waiting());
            let may_carry = net.seen.iter().any(|seen| {
                let left = per_connection.is_none_or(|most| seen.on_connection < most);
                seen.is_open && seen.outstanding < room && left
            });
            assert!(
                now >= duration || empty == 0 || !may_carry,
                "at {now} {empty} of {open} places stand empty"
            );
        });
        let result = net.clients.into_result();
        prop_assert_eq!(result.tally.lost, 0);
        prop_assert!(own == 0 || result.tally.valid > 0);
    }

    #[test]
    fn sockets_keep_their_window_full(
        size in 1u32..1_200,
        (workers, worker) in (1u32..4).prop_flat_map(|n| (Just(n), 0..n)),
        sockets in 1u16..8,
        segmented: bool,
        server in servers(),
    ) {
        let (duration, own) = (MS(30), share(size, worker, workers));
        let pacing = Pacing::Window { outstanding: size };
        // Else a place may be free again before its late reply.
        let keep_places = true;
        let p = Plan { worker, workers, adaptive_window: true, keep_places, segmented, ..plan(pacing, duration, sockets) };
        let mut delays = server.delays();
        let mut replied: Vec<Nanos> = Vec::new();
        let (tally, sent) = run(p, |now, _, q, replies| {
            let after = delays(now);
            replied.push(now + after);
            replies.after(after, answer(q));
        });
        replied.sort();
        // After each instant at which replies arrived.
        for at in replied.chunk_by(|a, b| a == b).map(|same| same[0]) {
            let replies = replied.partition_point(|reply| *reply <= at) as u64;
            let left = sent.partition_point(|query| *query <= at) as u64;
            let open = open_places(own, true, replies);
            prop_assert!(at >= duration || left - replies == open, "at {at}: {} of {open}", left - replies);
        }
        prop_assert_eq!(tally.valid, tally.sent);
    }
}

/// By Little's law a server of a fixed delay answers a window of W at W / delay a second.
#[test]
fn a_window_over_connections_is_as_large_as_it_was_given() {
    for (size, count, datagrams) in
        [(300, 8, false), (300, 8, true), (100, 1, false), (100, 8, true), (1_000, 100, false)]
    {
        let pacing = Pacing::Window { outstanding: size };
        let p = Plan { adaptive_window: datagrams, ..plan(pacing, MS(1_000), 1) };
        let clients = begun(client_plan(p, count, size.div_ceil(count)));
        let most = Cell::new(0);
        let mut net = Net::new(clients, Nanos::ZERO, |_, _| Some(MS(10)));
        net.drive(|_, net| most.set(most.get().max(net.outstanding())));
        let tally = net.clients.into_result().tally;
        assert_eq!(most.get(), u64::from(size), "{count} clients");
        // Datagrams lose some round trips while the window opens.
        let least = if datagrams { 95 } else { 100 } * u64::from(size);
        assert!((least..=100 * u64::from(size)).contains(&tally.valid), "{}", tally.valid);
    }
}
