//! The task of the process that attacks in a drill: it refuses every server outside of the lab.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use engine::clock;
use record::{AttackKind, AttackOutcome, AttackRequest, TrialRequest};
use streams::http::{ALPN_H2, ALPN_H3};
use streams::strangers::{Crowd, HALF_HELLO, Habit, client_hello, send_initials};
use streams::tls::{ALPN_DOQ, ALPN_DOT};
use tester::Setup;
use udp::sys;
use wire::{Name, Qtype, QueryTemplate};

use crate::failure::Failure;
use crate::process::interruption;

/// Number of queries of a connection that reads no answers.
const UNREAD_QUERIES: u16 = 32;
/// Octets of a query that never ends: its length, then zeros.
const ENDLESS_QUERY: [u8; 2] = [0xff, 0xff];
/// Time between two octets of a slow query.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause between two groups of first packets, and between two readings of the clock.
const GROUP_PAUSE: Duration = Duration::from_millis(20);
/// Part of a second whose packets are a group at the most: a twentieth.
const GROUPS_PER_S: u64 = 20;
/// Port of DNS over HTTPS and HTTP/3.
const HTTPS_PORT: u16 = 443;

/// Runs an attack for the lab; returns its outcome.
pub(super) fn run(mut request: AttackRequest) -> Result<AttackOutcome, Failure> {
    lab::attackable(request.target).map_err(|why| Failure::input(anyhow!(why)))?;
    if request.yields {
        // If the kernel refuses this, the Tester may be late, which the trial reports.
        sys::take_core_last();
    }
    // If this fails, there are at most 1,024 connections.
    sys::raise_open_files();
    let stop = interruption()?;
    let begins = start_instant(&request).map_err(Failure::input)?;
    let end = begins + Duration::from(request.duration);
    if let Some(trial) = request.flood.take() {
        if trial.target != request.target || !trial.also.is_empty() {
            return Err(Failure::input(anyhow!("the flood is not to {}", request.target)));
        }
        return flood(*trial, end, &stop);
    }
    let plan = Plan::new(&request).map_err(Failure::input)?;
    let stopped = || stop.load(Ordering::Relaxed);
    while Instant::now() < begins && !stopped() {
        std::thread::sleep(begins.saturating_duration_since(Instant::now()).min(GROUP_PAUSE));
    }
    Ok(plan.run(&request, || stopped() || Instant::now() >= end))
}

/// Sends a flood of queries until `end`; returns what was sent, and the octets.
fn flood(
    trial: TrialRequest,
    end: Instant,
    stop: &Arc<AtomicBool>,
) -> Result<AttackOutcome, Failure> {
    let setup = Setup::new(trial, String::new()).map_err(Failure::input)?;
    // Packets that an attacker cannot send in time, for lack of CPU, are left out.
    let ending = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        ending.store(true, Ordering::Relaxed);
    });
    let trial = setup.run(&Arc::default(), stop).map_err(Failure::run)?.trial;
    let (query_octets, reply_octets) = (trial.octets.queries, trial.octets.replies);
    Ok(AttackOutcome { sent: trial.sent, closed: 0, query_octets, reply_octets })
}

/// Returns the instant of the start on this process's clock; one that is past is now.
fn start_instant(request: &AttackRequest) -> Result<Instant, anyhow::Error> {
    let at = request.start_at.unix(None);
    let at = at.ok_or_else(|| anyhow!("{}: give the start in UTC", request.start_at))?;
    Ok(Instant::now() + Duration::from(at.since(clock::realtime())))
}

enum Plan {
    /// The attacker keeps connections over TCP.
    Connections(Habit),
    /// The attacker sends first packets of QUIC with this application protocol.
    Initials(&'static [u8]),
}

impl Plan {
    /// Returns the attack that a request describes.
    fn new(request: &AttackRequest) -> Result<Self, anyhow::Error> {
        let http = request.target.port() == HTTPS_PORT;
        let habit = Habit::default();
        Ok(Plan::Connections(match request.kind {
            AttackKind::Idle => habit,
            AttackKind::Slow => {
                Habit { first: ENDLESS_QUERY.to_vec(), drip: vec![0], every: PERIOD, ..habit }
            }
            AttackKind::HalfHandshakes => Habit { first: HALF_HELLO.to_vec(), ..habit },
            AttackKind::Handshakes => {
                let alpn = if http { ALPN_H2 } else { ALPN_DOT };
                Habit { first: client_hello(alpn), leaves: true, ..habit }
            }
            AttackKind::Unread => {
                let name: Name = request.name.parse()?;
                let queries = QueryTemplate::new(&name, Qtype::TXT, true, false, None);
                Habit { first: queries.framed(0..UNREAD_QUERIES), ..habit }
            }
            AttackKind::Initials => {
                return Ok(Plan::Initials(if http { ALPN_H3 } else { ALPN_DOQ }));
            }
            AttackKind::RandomNames
            | AttackKind::Delegations
            | AttackKind::Signatures
            | AttackKind::Amplification => {
                return Err(anyhow!(
                    "`{}` is a flood of queries: its queries are missing",
                    request.kind
                ));
            }
        }))
    }

    fn run(self, request: &AttackRequest, over: impl Fn() -> bool) -> AttackOutcome {
        let from: Vec<IpAddr> =
            (0..request.addresses.max(1)).map(|n| nth(request.from, n)).collect();
        match self {
            Plan::Connections(habit) => {
                let connections = request.connections as usize;
                let crowd =
                    Crowd { server: request.target, from, connections, rate: request.rate, habit };
                let counts = crowd.run(|_| over());
                AttackOutcome { sent: counts.opened, closed: counts.closed, ..Default::default() }
            }
            Plan::Initials(alpn) => {
                let (start, mut begun, mut sent) = (Instant::now(), 0, 0);
                while !over() {
                    let due = (start.elapsed().as_secs_f64() * f64::from(request.rate)) as u64;
                    // Groups are small, so that a slow attacker ends in time; it skips packets that
                    // are overdue.
                    let group = u64::from(request.rate).div_ceil(GROUPS_PER_S);
                    let first = due.saturating_sub(group).max(begun);
                    let from = from[first as usize % from.len()];
                    send_initials(from, request.target, alpn, first..due);
                    sent += due - first;
                    begun = due;
                    std::thread::sleep(GROUP_PAUSE);
                }
                AttackOutcome { sent, ..AttackOutcome::default() }
            }
        }
    }
}

/// Returns the address `n` after the first.
fn nth(first: IpAddr, n: u32) -> IpAddr {
    match first {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4).wrapping_add(n)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6).wrapping_add(n.into())).into(),
    }
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

    use super::*;

    fn request(kind: AttackKind, port: u16) -> AttackRequest {
        AttackRequest {
            kind,
            target: ([127, 0, 0, 1], port).into(),
            flood: None,
            from: [127, 0, 0, 2].into(),
            addresses: 2,
            connections: 3,
            rate: 100,
            name: "large.dns64perf.test.".to_owned(),
            start_at: "@1795408200".parse().expect("an instant"),
            duration: Nanos::from_secs(1),
            yields: false,
        }
    }

    #[test]
    fn each_attack_that_is_no_flood_has_a_plan() {
        for kind in AttackKind::ALL {
            let plan = Plan::new(&request(kind, 53));
            assert_eq!(plan.is_err(), kind.is_flood(), "{kind}");
            if let Ok(plan) = plan {
                assert_eq!(matches!(plan, Plan::Connections(_)), kind.connects(), "{kind}");
            }
        }
        for (port, alpn) in [(443, ALPN_H3), (853, ALPN_DOQ)] {
            let plan = Plan::new(&request(AttackKind::Initials, port)).expect("a plan");
            assert!(matches!(plan, Plan::Initials(found) if found == alpn), "{port}");
        }
    }

    #[test]
    fn addresses_follow_the_first() {
        assert_eq!(nth("10.9.192.255".parse().expect("one"), 2).to_string(), "10.9.193.1");
        assert_eq!(nth("fd00::ffff".parse().expect("one"), 1).to_string(), "fd00::1:0");
    }

    #[test]
    fn a_start_that_is_past_is_now() {
        let past = AttackRequest {
            start_at: "@1000".parse().expect("an instant"),
            ..request(AttackKind::Idle, 53)
        };
        assert!(start_instant(&past).expect("UTC") <= Instant::now());
        let later = request(AttackKind::Idle, 53);
        let tai =
            AttackRequest { start_at: "2026-11-23T04:30:37TAI".parse().expect("one"), ..later };
        assert!(start_instant(&tai).is_err());
    }
}
