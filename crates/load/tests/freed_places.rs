//! Over UDP the places of a closed loop are freed early, those of clients too: a server that drops queries does not stop it.

use load::{ClientPlan, Plan, Tally};
use measure::{Nanos, Pacing};
use proptest::prelude::*;

use crate::common::net::Net;
use crate::common::{self, MS, US, answer, begun, client_plan, plan};

/// Number of places in the windows of the loops.
const WINDOW: u32 = 32;

/// Runs a closed loop of `count` clients, or of sockets without clients if that is 0, with a timeout of a second; `server` returns after
/// which time a query is answered.
fn run(
    count: u32,
    duration: Nanos,
    keep_places: bool,
    mut server: impl FnMut(Nanos) -> Option<Nanos>,
) -> Tally {
    let pacing = Pacing::Window { outstanding: WINDOW };
    let base = plan(pacing, duration, 2);
    let plan = Plan { adaptive_window: true, keep_places, timeout: MS(1_000), ..base };
    if count == 0 {
        let (tally, _) = common::run(plan, |now, _, query, replies| {
            if let Some(after) = server(now) {
                replies.after(after, answer(query));
            }
        });
        return checked(tally);
    }
    let base = client_plan(plan, count, WINDOW.div_ceil(count));
    let clients = begun(ClientPlan { no_keepalive: vec![true], ..base });
    let mut net = Net::new(clients, Nanos::ZERO, |now, _| server(now));
    net.drive(|_, _| ());
    checked(net.clients.into_result().tally)
}

fn checked(tally: Tally) -> Tally {
    assert_eq!(tally.sent, tally.answered + tally.lost);
    // What is lost has the timeout as its latency.
    assert_eq!(tally.latency.count(), tally.sent);
    tally
}

/// Answers 10,000 queries a second, each after 200 us, and drops all others; counts its answers.
fn limited(answered: &mut u64) -> impl FnMut(Nanos) -> Option<Nanos> {
    let mut next = Nanos(0);
    move |now| {
        (now >= next).then(|| {
            next = next.max(Nanos(now.0.saturating_sub(MS(2).0))) + US(100);
            *answered += 1;
            US(200)
        })
    }
}

#[test]
fn a_server_that_drops_does_not_stop_the_loop() {
    for clients in [0, 1, 8, 32] {
        let mut answered = 0;
        let tally = run(clients, MS(1_000), false, limited(&mut answered));
        assert_eq!((tally.valid, tally.late), (answered, 0), "{clients} clients");
        assert!((9_000..=10_100).contains(&tally.valid), "{clients} clients: {}", tally.valid);
        assert!(tally.lost > 0 && tally.latency.max() >= MS(999));
    }
}

#[test]
fn an_answer_after_its_place_was_freed_counts() {
    // It stands still for 50 ms once, and answers all that came meanwhile.
    let server = |now| {
        let stands = (MS(200)..MS(250)).contains(&now).then(|| MS(250).since(now));
        Some(stands.unwrap_or_default() + US(200))
    };
    for clients in [0, 1, 8, 32] {
        let tally = run(clients, MS(400), false, server);
        assert_eq!((tally.valid, tally.lost, tally.late), (tally.sent, 0, 0));
        // The freed places were used meanwhile.
        assert!(tally.sent > run(clients, MS(400), true, server).sent, "{clients} clients");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// What is asked in the last milliseconds takes hundreds of times as long as all else, and is waited for.
    #[test]
    fn the_end_waits_for_answers_whose_places_were_freed(
        clients in 0u32..40,
        duration in 100u64..400,
        slow in 100u64..900,
    ) {
        let from = MS(duration - 10);
        let server = |now| Some(if now >= from { MS(slow) } else { US(200) });
        let tally = run(clients, MS(duration), false, server);
        prop_assert_eq!((tally.valid, tally.lost, tally.late), (tally.sent, 0, 0));
        prop_assert!(tally.last_reply >= from + MS(slow));
    }
}
