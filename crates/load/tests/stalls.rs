//! Stalls of the Measurer and lost queries on the simulated engine: exact to the nanosecond.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::sim::{Replies, SimEngine};
use engine::stream::{ConnId, End, Opened, Orders, StreamRole, first_message};
use engine::{Next, SocketId, WaitMode, drive};
use load::{ClientPlan, Clients, Measurer, Plan, Tally};
use measure::stall::{MAX_LOST_KEPT, Side, Stall};
use measure::{Nanos, Outstanding};

use crate::common::net::Net;
use crate::common::{MS, US, answer, begun, client_plan, constant, plan, qps, run, workload};

/// Answers each query after a millisecond.
fn after_1_ms(_: Nanos, _: SocketId, query: &[u8], replies: &mut Replies) {
    replies.after(MS(1), answer(query));
}

/// A role that is not called for some time after its first call; the reply to its first query is lost.
struct Stalling<'a> {
    role: &'a mut Measurer,
    until: Nanos,
    first: bool,
}

impl engine::Role for Stalling<'_> {
    fn handle(
        &mut self,
        now: Nanos,
        rx: &engine::RxBatch,
        tx: &mut engine::TxBatch,
    ) -> engine::Next {
        if std::mem::take(&mut self.first) || now >= self.until {
            return self.role.handle(now, rx, tx);
        }
        engine::Next::At(self.until)
    }

    fn sent(&mut self, at: Nanos) {
        self.role.sent(at);
    }
}

/// Runs a Measurer that stalls until `until` after its first query; each call of the engine takes `call_cost`.
/// Returns its tally and when each query left.
fn run_stalled(plan: Plan, until: Nanos, call_cost: Nanos) -> (Tally, Vec<Nanos>) {
    let mut engine = SimEngine::new(after_1_ms).recording().call_cost(call_cost);
    let mut role = Measurer::new(plan, Box::new(workload(1 << 24, false)), Arc::default());
    let mut stalling = Stalling { role: &mut role, until, first: true };
    drive(&mut engine, &mut stalling, WaitMode::Sleep, &AtomicBool::new(false))
        .expect("no errors here");
    (role.into_tally(), engine.sent().iter().map(|(at, _, _)| *at).collect())
}

#[test]
fn after_a_stall_overdue_queries_leave_in_bounded_bursts() {
    // The engine stops for 100 ms after the first query: 100,000 queries are due then.
    let p = plan(constant(1e6), MS(120), 64);
    let (tally, mut sent) = run_stalled(p, MS(100), Nanos(100));
    assert_eq!((tally.sent, tally.lost + tally.valid), (120_000, 120_000));
    sent.dedup();
    assert!(sent.len() > 100_000 / 512, "each call sends at most 512 queries");
}

#[test]
fn after_a_stall_the_backlog_leaves_at_twice_the_rate() {
    // 1,000 queries a second; the first leaves at 0, then nothing until 20 ms.
    let (tally, times) = run_stalled(plan(constant(1_000.0), MS(60), 3), MS(20), Nanos(0));
    let expected: Vec<Nanos> = (0..60)
        .map(|k| match k {
            0 => MS(0),
            // Due within 1 ms of the time at which the Measurer was to be called.
            1 | 2 => MS(20),
            // Two in a millisecond, until the schedule is reached at 38 ms.
            3..=38 => Nanos(MS(20).0 + (k - 2) * 500_000),
            k => MS(k),
        })
        .collect();
    assert_eq!(times, expected);
    // The schedule error still counts from the due time, and so does the latency.
    assert!((18_990_000..=19_010_000).contains(&tally.schedule_error.max().0));
    assert_eq!((tally.sent, tally.valid, tally.lost), (60, 59, 1));
    assert!(tally.latency.quantile(0.5) >= MS(2) && tally.latency_from_send.max() < US(1_010));
    let found = &tally.disturbances;
    assert_eq!(found.started, MS(0));
    let [stall] = found.stalls[..] else { panic!("{found:?}") };
    assert_eq!((stall.side, stall.at, stall.length), (Side::Tester, MS(1), MS(19)));
    let [late] = found.late[..] else { panic!("{found:?}") };
    // Query 36 leaves 1 ms late, at 37 ms.
    assert_eq!((late.from, late.until, late.queries, late.worst), (MS(1), MS(37), 36, MS(19)));
}

#[test]
fn the_backlog_of_a_high_rate_is_spread() {
    for segmented in [false, true] {
        let p = Plan { segmented, ..plan(constant(1e6), MS(60), 64) };
        let (tally, times) = run_stalled(p, MS(20), Nanos(0));
        // The first query of a segmented message has not left before the stall.
        let lost = u64::from(!segmented);
        assert_eq!((tally.sent, tally.valid, tally.lost), (60_000, 60_000 - lost, lost));
        let mut counts = [0u64; 61];
        times.iter().for_each(|at| counts[(at.0 / 1_000_000) as usize] += 1);
        // What is due within 1 ms leaves at once, then 2,000 in each millisecond until 39 ms.
        let burst = times.iter().filter(|at| **at == MS(20)).count();
        assert!((950..=1_050).contains(&burst), "{burst}");
        assert!(counts[21..37].iter().all(|count| (1_900..=2_100).contains(count)), "{counts:?}");
        assert!(counts[40..60].iter().all(|count| (900..=1_100).contains(count)), "{counts:?}");
    }
}

#[test]
fn a_short_delay_is_made_up_at_once() {
    // Called 0.9 ms after the second query was due.
    let (tally, times) = run_stalled(plan(constant(10_000.0), MS(5), 3), US(1_000), Nanos(0));
    assert_eq!(times[..12].iter().filter(|at| **at == US(1_000)).count(), 10);
    assert_eq!(times[11], US(1_100));
    assert!(tally.disturbances.is_empty(), "{:?}", tally.disturbances);
}

#[test]
fn the_first_lost_queries_are_kept() {
    // Queries 0, 10, 20 and so on are lost.
    let mut k = 0;
    let mut ids = Vec::new();
    let (tally, _) = run(plan(constant(1_000.0), MS(2_000), 4), |_, socket, q, replies| {
        if k % 10 == 0 {
            ids.push((socket.0, u16::from_be_bytes([q[0], q[1]])));
        } else {
            replies.after(MS(1), answer(q));
        }
        k += 1;
    });
    let found = &tally.disturbances;
    assert_eq!((tally.lost, found.lost.len()), (200, MAX_LOST_KEPT));
    for (k, lost) in (0..).zip(&found.lost) {
        assert_eq!((lost.due, lost.sent), (MS(10 * k), MS(10 * k)));
        assert_eq!((lost.socket, lost.id), ids[k as usize]);
    }
    assert_eq!(found.losses.iter().map(|span| span.queries).sum::<u64>(), 200);
    assert_eq!(found.losses.len(), 200);
    assert!(found.stalls.is_empty() && found.late.is_empty());
}

#[test]
fn a_reply_that_is_too_late_is_a_lost_query() {
    let (tally, _) = run(plan(constant(1_000.0), MS(200), 1), |at, _, q, replies| {
        replies.after(if at == MS(7) { MS(110) } else { MS(1) }, answer(q));
    });
    assert_eq!((tally.lost, tally.late), (1, 1));
    assert_eq!(tally.disturbances.lost.len(), 1);
    assert_eq!(tally.disturbances.lost[0].due, MS(7));
}

#[test]
fn outstanding_queries_tell_an_overload() {
    // The server takes 10,000 queries a second; the timeout never comes.
    for (rate, sustained) in [(9_900.0, true), (10_000.0, true), (10_200.0, false)] {
        let mut free_at = Nanos(0);
        let p = Plan { timeout: MS(1_000), ..plan(constant(rate), MS(1_000), 64) };
        let (tally, _) = run(p, |now, _, q, replies| {
            free_at = free_at.max(now) + US(100);
            replies.after(free_at.since(now), answer(q));
        });
        assert_eq!(tally.lost, 0);
        let numbers = tally.outstanding(MS(1_000), qps(rate)).expect("numbers");
        assert_eq!(numbers.is_sustained(), sustained, "{rate}: {numbers:?}");
    }
}

/// Makes clients that may all open their connections at once.
fn connected(
    plan: Plan,
    clients: ConnId,
    queries_per_connection: Option<u64>,
    outstanding: u32,
) -> Clients {
    let base = client_plan(plan, clients, outstanding);
    let client_plan = ClientPlan { queries_per_connection, ..base };
    Clients::new(client_plan, Box::new(workload(1 << 24, false)), Arc::default(), false)
}

#[test]
fn clients_with_connections_note_when_they_are_called_late() {
    let mut clients = connected(plan(constant(1_000.0), MS(20), 1), 1, None, 64);
    let mut orders = Orders::new(1);
    clients.begin(MS(10));
    assert_eq!(clients.orders(MS(9), &mut orders), Next::At(MS(10)));
    let Next::At(next) = clients.orders(MS(18), &mut orders) else { panic!("queries are due") };
    assert!(next > MS(18));
    // In time, and then by an event before it is due.
    clients.orders(next, &mut orders);
    clients.orders(next + US(10), &mut orders);
    let stalls = clients.into_result().tally.disturbances.stalls;
    assert_eq!(stalls, [Stall { side: Side::Tester, at: MS(10), length: MS(8) }]);
}

/// Returns the outstanding queries of a load over connections of one query each, at a server that takes up 300 connections a
/// second, and answers at once on these.
fn at_a_server_that_accepts_300(clients: ConnId, rate: f64) -> Outstanding {
    let p = Plan { timeout: MS(1_000), ..plan(constant(rate), MS(1_000), 1) };
    let mut role = connected(p, clients, Some(1), 1);
    let mut orders = Orders::new(clients as usize);
    let (mut backlog, mut accepts) = (VecDeque::new(), Nanos::ZERO);
    role.begin(Nanos::ZERO);
    for now in (0..).map(|step| US(100 * step)) {
        if let (true, Some(&conn)) = (accepts <= now, backlog.front()) {
            backlog.pop_front();
            accepts = now.max(accepts + Nanos(1_000_000_000 / 300));
            role.opened(now, conn, Opened::default());
            let output = std::mem::take(&mut orders.slot(conn).output);
            role.sent(now, conn);
            role.message(now, conn, &answer(first_message(&output).expect("a query")));
            role.closed(now, conn, End::Ordered);
        }
        let mut next = Next::Now;
        while next == Next::Now {
            next = role.orders(now, &mut orders);
        }
        orders.hand_out(None, |conn| backlog.push_back(conn));
        if next == Next::Done {
            break;
        }
    }
    let tally = role.into_result().tally;
    assert_eq!(tally.lost, 0, "a queue that grows for a second loses nothing");
    tally.outstanding(MS(1_000), qps(rate)).expect("numbers")
}

#[test]
fn connections_that_wait_for_their_turn_tell_an_overload() {
    for clients in [8, 100, 600] {
        for (rate, sustained) in [(290.0, true), (300.0, true), (320.0, false), (590.0, false)] {
            let numbers = at_a_server_that_accepts_300(clients, rate);
            assert_eq!(numbers.is_sustained(), sustained, "{clients}, {rate}: {numbers:?}");
        }
    }
}

/// Returns the tally of a load whose server answers late, and all at once, so that a backlog leaves: one of a Tester that stands
/// still for so long in the midst of it.
fn tally_of_a_backlog(stall: Nanos) -> Tally {
    const COUNT: ConnId = 600;
    let mut clients = connected(plan(constant(100_000.0), MS(30), 1), COUNT, Some(1), 1);
    let mut orders = Orders::new(COUNT as usize);
    clients.begin(Nanos::ZERO);
    for ms in 0..=6 {
        while clients.orders(MS(ms), &mut orders) == Next::Now {}
    }
    orders.hand_out(None, |_| {});
    // The server answers late, and all at once: the backlog leaves at twice the rate.
    for conn in 0..COUNT {
        clients.opened(MS(16), conn, Opened::default());
        let output = std::mem::take(&mut orders.slot(conn).output);
        clients.sent(MS(16), conn);
        clients.message(MS(16), conn, &answer(first_message(&output).expect("a query")));
        clients.closed(MS(16), conn, End::Ordered);
    }
    let mut next = clients.orders(MS(16), &mut orders);
    let mut stood_still = false;
    while let Next::At(at) = next
        && at < MS(20) + stall
    {
        let late = if at >= MS(17) && !stood_still { stall } else { Nanos::ZERO };
        stood_still |= late > Nanos::ZERO;
        next = clients.orders(at + late, &mut orders);
    }
    clients.into_result().tally
}

#[test]
fn queries_behind_those_that_waited_for_room_are_not_late() {
    let tally = tally_of_a_backlog(Nanos::ZERO);
    // The others wait for their connections to the end.
    assert_eq!((tally.sent, tally.valid, tally.unserved), (600, 600, 600));
    assert!(tally.schedule_error.max() <= MS(1), "{:?}", tally.schedule_error.max());
}

#[test]
fn queries_that_wait_for_room_until_their_timeout_cut_no_load_off() {
    // The only connection never opens; the last query is given up 3 s after the end.
    let plan = Plan { timeout: MS(3_000), ..plan(constant(100.0), MS(1_000), 1) };
    let mut net = Net::new(begun(client_plan(plan, 1, 1)), MS(100_000), |_, _| None);
    net.drive(|_, _| ());
    let tally = net.clients.into_result().tally;
    assert_eq!((tally.planned, tally.wanted(), tally.cut_off), (100, 100, false));
}

#[test]
fn a_tester_that_stands_still_in_a_backlog_is_late() {
    let tally = tally_of_a_backlog(MS(50));
    assert!(tally.schedule_error.max() >= MS(45), "{:?}", tally.schedule_error.max());
}
