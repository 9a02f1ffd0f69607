//! A server's log has each query once, and once more for each time that it counts as sent again.

use engine::Next;
use engine::stream::{ConnId, End, Failure, Opened, Orders, StreamRole, first_message};
use load::{ClientPlan, Clients, ClientsResult, Plan, Population};
use measure::Nanos;
use proptest::prelude::*;

use crate::common::{MS, US, answer, begun, client_plan, constant, plan};

/// The only connection at a time.
const CONN: ConnId = 0;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The server does not accept it.
    Refused,
    /// It answers this many queries and closes it.
    Answers(u64),
    /// It reads queries and resets it.
    Resets,
    /// It goes away without having processed the queries.
    GoesAway,
    /// It closes it before a query is written, or while one is.
    Closes,
    Breaks,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    use Fate::{Answers, Breaks, Closes, GoesAway, Refused, Resets};
    let answers = (1u64..20).prop_map(Answers);
    let ends = prop_oneof![Just(Refused), Just(Resets), Just(GoesAway), Just(Closes), Just(Breaks)];
    prop::collection::vec(prop_oneof![answers, ends], 0..20)
}

/// Runs half a second of load over connections of these fates, and then good ones; returns the length of the server's log.
fn log(fates: &[Fate]) -> (u64, ClientsResult) {
    let plan = Plan { timeout: MS(60_000), ..plan(constant(200.0), MS(500), 1) };
    let population = Population { resends: u32::MAX, ..Population::default() };
    let mut clients = begun(ClientPlan { population, ..client_plan(plan, 1, 5) });
    let (mut orders, mut now, mut log) = (Orders::new(1), Nanos::ZERO, 0);
    let (mut fates, mut open) = (fates.iter().copied(), None);
    loop {
        let next = clients.orders(now, &mut orders);
        let mut opens = false;
        orders.hand_out(None, |_| opens = true);
        if opens {
            now += US(100);
            open = fates.next().or(Some(Fate::Answers(u64::MAX)));
            if matches!(open, Some(Fate::Refused)) {
                clients.closed(now, CONN, End::Failed(Failure::Refused));
                open = None;
            } else {
                clients.opened(now, CONN, Opened::default());
            }
            continue;
        }
        if let Some(fate) = &mut open
            && let output = std::mem::take(&mut orders.slot(CONN).output)
            && !output.is_empty()
            && let Some(end) = carry_out(fate, &output, now, &mut clients, &mut log)
        {
            clients.closed(now, CONN, end);
            open = None;
            continue;
        }
        match next {
            Next::Done => return (log, clients.into_result()),
            Next::At(at) => now = at.max(now),
            Next::Now | Next::Idle => {}
        }
    }
}

/// Writes an output to a connection; returns how that ends it, if it does.
fn carry_out(
    fate: &mut Fate,
    mut output: &[u8],
    now: Nanos,
    clients: &mut Clients,
    log: &mut u64,
) -> Option<End> {
    if !matches!(fate, Fate::Closes) {
        clients.sent(now, CONN);
    }
    while let Some(message) = first_message(output) {
        output = &output[2 + message.len()..];
        match fate {
            Fate::Answers(0) | Fate::Refused | Fate::Resets => *log += 1,
            Fate::Answers(left) => {
                (*left, *log) = (*left - 1, *log + 1);
                clients.message(now, CONN, &answer(message));
            }
            Fate::GoesAway | Fate::Closes => clients.turned_away(now, CONN, message),
            Fate::Breaks => clients.never_left(now, CONN, [message[0], message[1]]),
        }
    }
    match fate {
        Fate::Answers(0) | Fate::Closes => Some(End::ByPeer),
        Fate::Answers(_) => None,
        Fate::GoesAway => Some(End::GoingAway),
        Fate::Refused | Fate::Resets | Fate::Breaks => Some(End::Failed(Failure::Reset)),
    }
}

proptest! {
    #[test]
    fn a_servers_log_has_what_was_sent_and_sent_again(fates in fates()) {
        let (log, result) = log(&fates);
        let tally = &result.tally;
        prop_assert_eq!((tally.sent, tally.valid), (100, 100));
        prop_assert_eq!(result.connections[0].resent, log - 100);
    }
}

#[test]
fn a_query_whose_next_connections_are_refused_is_sent_again_once() {
    let refused = [Fate::Resets, Fate::Refused, Fate::Refused, Fate::Closes, Fate::Breaks];
    let (log, result) = log(&refused);
    assert_eq!((log, result.connections[0].resent), (101, 1));
}
