//! Queries go round the clients in every pacing: the server counts the same number of queries on each connection.

use engine::stream::ConnId;
use load::Plan;
use measure::{Nanos, Pacing};

use crate::common::net::Net;
use crate::common::{MS, US, begun, client_plan, plan, qps};

/// Runs a second of load by `clients`; returns the queries on each connection, in the order of the clients.
fn counts(
    pacing: Pacing,
    clients: u32,
    delay: impl FnMut(Nanos, ConnId) -> Option<Nanos>,
) -> Vec<u64> {
    let outstanding = pacing.outstanding().map_or(100, |window| window.div_ceil(clients));
    let plan = Plan { timeout: MS(500), ..plan(pacing, MS(1_000), 1) };
    let mut net = Net::new(begun(client_plan(plan, clients, outstanding)), US(100), delay);
    net.drive(|_, _| ());
    net.seen.iter().map(|seen| seen.queries).collect()
}

#[test]
fn every_pacing_goes_round_the_clients() {
    let pacings = [
        Pacing::Constant { rate: qps(100.0) },
        Pacing::Constant { rate: qps(20_000.0) },
        Pacing::Poisson { rate: qps(2_000.0) },
        Pacing::Ramp { from: qps(1.0), to: qps(5_000.0) },
        // `dnsperf -m tcp -c 50 -Q 100`, and with more than the connections have at a time.
        Pacing::CappedWindow { outstanding: 100, rate: qps(100.0) },
        Pacing::CappedWindow { outstanding: 100, rate: qps(2_000.0) },
        Pacing::Window { outstanding: 1 },
        Pacing::Window { outstanding: 50 },
        Pacing::Window { outstanding: 130 },
    ];
    for pacing in pacings {
        for clients in [1, 8, 50] {
            let all = counts(pacing, clients, |_, _| Some(MS(1)));
            let (least, most) = (all.iter().min(), all.iter().max());
            // At its end a window is where its last replies came.
            let differ = match pacing {
                Pacing::Window { outstanding } => outstanding.div_ceil(clients).into(),
                _ => 1,
            };
            let even = least.zip(most).is_some_and(|(least, most)| most - least <= differ);
            assert!(even && all[0] > 0, "{pacing:?}, {clients} clients: {all:?}");
        }
    }
}

#[test]
fn a_client_whose_server_is_slow_gets_less_and_the_others_the_same() {
    // The first connection has its share of the window outstanding nearly all the time.
    let slow = |_, conn| Some(if conn == 0 { MS(400) } else { MS(1) });
    let all = counts(Pacing::Window { outstanding: 80 }, 8, slow);
    assert!(all[0] < 50 && all[1..].iter().all(|n| (9_000..=10_100).contains(n)), "{all:?}");
}
