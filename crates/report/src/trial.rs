//! The report of one trial.

use std::collections::BTreeMap;
use std::fmt::Write;

use measure::Limiter;
use measure::stall::{MAX_SPANS, Side};
use measure::{Outstanding, warning};
use record::{CellRecord, Connections, EngineKind, Times, Trial, TrialRecord};

use crate::auth_hosts;
use crate::merged;
use crate::turned::turned_bad;
use crate::view::goal::missed;
use crate::view::histogram::rows;
use crate::view::limiter::limiter_name;
use crate::view::{rate, thousands, time_us};

/// Formats a trial in some lines.
pub fn trial(t: &Trial) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(out, "{label:<16}{text}");
        }
    };
    queries(t, &mut line);
    if let Some(c) = &t.connections {
        connections(c, &mut line);
        connection_times(c, t.sent, &mut line);
    }
    line("schedule error", times(&t.schedule_error_us));
    stalls(t, &mut line);
    line("outstanding", t.outstanding.map_or(String::new(), |numbers| outstanding(t, &numbers)));
    merged::lines(t, &mut line);
    let network = [
        t.conditions
            .engine
            .filter(|engine| *engine == EngineKind::Kernel)
            .map(|e| format!("engine {e}")),
        t.conditions.link.map(|link| format!("link {link}")),
        t.conditions.path.map(|path| format!("path {path}")),
    ];
    let network: Vec<String> = network.into_iter().flatten().collect();
    line("network", network.join(", "));
    line("latency", latency(t));
    let lost = t.latency_us.count.saturating_sub(t.latency_from_send_us.count);
    let histogram = t.latency_us.histogram().ok();
    let rows = histogram.map_or_else(Vec::new, |times| rows(&times, lost, t.conditions.timeout_s));
    rows.into_iter().for_each(|row| line("", row));
    means(t, &mut line);
    resources(t, &mut line);
    verdict(t, &mut line);
    out
}

/// Share (0 to 1) of queries without a valid reply from which on a sustained rate is said to have
/// them, unless the goal allows them.
const UNANSWERED: f64 = 0.01;

/// Returns the numbers of outstanding queries, and unless the trial is void whether its rate was sustained.
fn outstanding(t: &Trial, numbers: &Outstanding) -> String {
    let bad = t.bad() as f64 / t.wanted().max(1) as f64;
    let verdict = match numbers.is_sustained() {
        _ if t.void.is_void() => String::new(),
        true if bad >= UNANSWERED && t.passed != Some(true) => {
            format!(": sustained, but {:.1} % got no valid reply", bad * 100.0)
        }
        true => ": sustained".to_owned(),
        false => ": not sustained".to_owned(),
    };
    format!("{:.0} in the middle, {:.0} at the end{verdict}", numbers.middle, numbers.end)
}

/// Lines on the verdict of the trial: limiter, goal, doubts, and the result.
fn verdict(t: &Trial, line: &mut impl FnMut(&str, String)) {
    line("limiter", limiter(t));
    if let (Some(goal), Some(passed)) = (&t.goal, t.passed) {
        let early = if t.stopped_early { ", ended when the verdict was certain" } else { "" };
        let verdict = if passed { "met".to_owned() } else { format!("missed: {}", missed(t)) };
        line("goal", format!("{goal}: {verdict}{early}"));
    }
    if let Some(why) = &t.void.0 {
        line("VOID", why.to_string());
    }
    for warning in warning::summarise(&t.warnings) {
        let times =
            if warning.count > 1 { format!(" ({} times)", warning.count) } else { String::new() };
        line("warning", warning.text + &times);
    }
    line("result", result(t));
}

/// Returns one sentence on the success of the trial, with the rate.
fn result(t: &Trial) -> String {
    let rate = format!("{} valid replies a second", rate(t.valid_qps()));
    let bad = t.bad();
    match (t.void.is_void(), t.passed) {
        (true, _) => "it says nothing about the server".to_owned(),
        (false, Some(false)) => format!("the goal was missed; {rate}"),
        (false, _) if bad == 0 && t.unresolved == 0 => {
            let answered =
                format!("each of {} queries got a valid reply; {rate}", thousands(t.sent as f64));
            // The server could have answered more: the rate is not its own.
            if t.limiter.is_testers() {
                format!("{answered}, limited by {}, not by the server", limiter_name(t.limiter))
            } else {
                format!("all answered: {answered}")
            }
        }
        _ => format!(
            "{} of {} queries got no valid reply in time; {rate}",
            thousands((bad + t.unresolved) as f64),
            thousands(t.wanted() as f64)
        ),
    }
}

/// Lines on the queries sent and their outcomes.
fn queries(t: &Trial, line: &mut impl FnMut(&str, String)) {
    let c = &t.conditions;
    let names = if c.names.is_empty() { String::new() } else { format!(", {}", c.names) };
    line("target", format!("{} ({}; {}{names})", c.target, c.pacing, c.workload));
    line(
        "sent",
        format!(
            "{} in {:.2} s: {} qps",
            thousands(t.sent as f64),
            t.sending_s(),
            rate(t.offered_qps)
        ),
    );
    line(
        "answered",
        format!(
            "{} ({:.4} %): {} qps",
            thousands(t.answered as f64),
            t.percent_of_sent(t.answered),
            rate(t.replies_qps())
        ),
    );
    line("valid", format!("{} ({:.4} %)", thousands(t.valid as f64), t.percent_of_sent(t.valid)));
    line("invalid", counts(&t.invalid));
    line(
        "lost",
        format!(
            "{} ({:.4} %), {} came late",
            thousands(t.lost_elsewhere() as f64),
            t.percent_of_sent(t.lost_elsewhere()),
            thousands(t.late as f64)
        ),
    );
    if let Some(when) = turned_bad(t) {
        line("turned bad", when);
    }
    if t.dropped_here() > 0 {
        let (count, share) = (t.dropped_here(), t.percent_of_sent(t.dropped_here()));
        let count = thousands(count as f64);
        line(
            "dropped here",
            format!("{count} ({share:.4} %) by the Tester's own host, not counted as lost"),
        );
    }
    let strays =
        [("duplicates", t.duplicates), ("unexpected", t.unexpected), ("unresolved", t.unresolved)];
    line("besides", nonzero_counts(&strays));
    let empty = match t.empty {
        0 => String::new(),
        empty => format!(", {} of them without an answer", thousands(empty as f64)),
    };
    line("return codes", counts(&t.rcodes) + &empty);
}

/// Returns counts with their names.
fn counts(of: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> =
        of.iter().map(|(name, n)| format!("{name} {}", thousands(*n as f64))).collect();
    each.join(", ")
}

/// Returns the counts above 0 with their names.
fn nonzero_counts(of: &[(&str, u64)]) -> String {
    let present = of.iter().filter(|(_, n)| *n > 0);
    present.map(|(what, n)| format!("{what} {n}")).collect::<Vec<_>>().join(", ")
}

/// Returns the percentiles of the latency, with the number of replies that they count.
fn latency(t: &Trial) -> String {
    format!(
        "{} (from due to reply; lost ones count {} s)",
        times(&t.latency_us),
        t.conditions.timeout_s
    )
}

/// A line on the mean latency and the mean sizes of messages, if there were replies.
fn means(t: &Trial, line: &mut impl FnMut(&str, String)) {
    let times = &t.latency_from_send_us;
    if times.count == 0 {
        return;
    }
    let sizes = (t.octets.queries / t.sent.max(1), t.octets.replies / t.answered.max(1));
    // Queries that no connection took have octets too.
    let known = sizes.0 > 0 && t.unserved == 0;
    let sizes = known.then(|| {
        let [queries, replies] = [sizes.0, sizes.1].map(|octets| thousands(octets as f64));
        format!("; queries of {queries} octets, replies of {replies}")
    });
    let (mean, deviation) = (time_us(times.mean), time_us(times.stdev));
    line(
        "mean",
        format!(
            "{mean} +- {deviation} (from sent to reply; standard deviation){}",
            sizes.unwrap_or_default()
        ),
    );
}

/// Returns the limiter of a trial, with its proof.
fn limiter(t: &Trial) -> String {
    match &t.limiter_proof {
        Some(proof) => format!("{}: {proof}", t.limiter),
        None if t.limiter == Limiter::Unknown => "not known".to_owned(),
        None => t.limiter.word().to_owned(),
    }
}

/// A line on the times in which cores stood still, if they did.
fn stalls(t: &Trial, line: &mut impl FnMut(&str, String)) {
    let of = |side| {
        let stalls = t.disturbances.stalls.iter().filter(|stall| stall.side == side);
        let longest = stalls.clone().map(|stall| stall.length).max()?;
        let (count, longest) = (stalls.count(), longest.as_secs_f64() * 1e3);
        let more = if count >= MAX_SPANS { " or more" } else { "" };
        Some(format!("{side} {count}{more}, the longest {longest:.1} ms"))
    };
    let sides = [Side::Tester, Side::AuthDns, Side::Dut];
    let told: Vec<String> = sides.into_iter().filter_map(of).collect();
    line("stalls of cores", told.join("; "));
}

/// Lines on drops and the processors.
fn resources(t: &Trial, line: &mut impl FnMut(&str, String)) {
    let drops = [
        ("Tester", t.drops.tester_receive),
        ("AuthDNS", t.drops.authdns_receive),
        ("DUT", t.drops.dut_receive),
        ("links", t.drops.link),
    ];
    line("drops", nonzero_counts(&drops));
    if t.drops.dut_not_taken > 0 {
        let times = t.drops.dut_not_taken;
        line("connections", format!("the DUT's accept queue was full {times} times"));
    }
    for (role, cpu) in &t.cpu {
        let delay = cpu
            .run_delay
            .map(|d| format!(", waited for it {:.1} % of the time", d * 100.0))
            .unwrap_or_default();
        let others = cpu.foreign.filter(|share| *share >= 0.01);
        let others = others.map(|share| format!(", others used {:.1} %", share * 100.0));
        let others = others.unwrap_or_default();
        let spent_s = cpu.spent_s.filter(|_| role == "dut" && t.valid > 0);
        let each = spent_s.map_or(String::new(), |spent_s| {
            format!(", {} for each valid reply", time_us(spent_s * 1e6 / t.valid as f64))
        });
        line(
            &format!("cpu {role}"),
            format!("{:.0} % of its cores{each}{delay}{others}", cpu.busy * 100.0),
        );
    }
    for share in &t.authdns {
        line("AuthDNS", format!("{}: {}", share.host, auth_hosts::one(share)));
    }
}

/// Adds the lines of the connections.
fn connections(c: &Connections, line: &mut impl FnMut(&str, String)) {
    let n = |count: u64| thousands(count as f64);
    let limit = c
        .queries_per_connection
        .map_or(String::new(), |most| format!(", {} queries on each connection", n(most)));
    // Counts of 0 are left out.
    let some = |of: &[(u64, &str)]| {
        let some = of.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{}{what}", n(*count))).collect::<Vec<_>>().join(", ")
    };
    let more =
        some(&[(c.peak, " at once"), (c.resumed, " resumed"), (c.early_data, " with early data")]);
    let more = if more.is_empty() { more } else { format!("; {more}") };
    line(
        "connections",
        format!(
            "{} of {} established, {} clients{limit}{more}",
            n(c.established),
            n(c.attempts),
            n(u64::from(c.clients)),
        ),
    );
    let idle = match c.closed_idle {
        0 => String::new(),
        idle => format!(" ({} of them for being idle)", n(idle)),
    };
    let completed = format!(" completed{idle}");
    let ends = [
        (c.completed, completed.as_str()),
        (c.closed_by_server, " by the server"),
        (c.open_at_end, " open at the end"),
    ];
    line("ended", some(&ends));
    let slow = (c.slow > 0).then(|| format!("slow {}", n(c.slow)));
    let failed = Some(counts(&c.failed)).filter(|failed| !failed.is_empty());
    line("failed", failed.into_iter().chain(slow).collect::<Vec<_>>().join(", "));
    if !c.queries_failed.is_empty() {
        line("failed queries", format!("{} (among the lost)", counts(&c.queries_failed)));
    }
    let streams = [
        (c.turned_away, "queries refused and sent again on another connection"),
        (c.resent, "times a query was sent again: its connection was closed, or no reply came"),
        (c.asked_over_tcp, "queries repeated over TCP after a truncated reply (TC)"),
        (c.streams_refused, "streams refused and opened again"),
        (c.streams_waited, "queries waited for a stream"),
    ];
    let streams = streams.iter().filter(|(count, _)| *count > 0);
    let streams: Vec<String> =
        streams.map(|(count, what)| format!("{} {what}", n(*count))).collect();
    line("actions of the server", streams.join(", "));
    if c.lost_with_connection > 0 {
        line("among the lost", format!("{} with their connection", n(c.lost_with_connection)));
    }
    if c.unserved > 0 {
        line("never sent", format!("{} queries: no connection took them in time", n(c.unserved)));
    }
}

/// Lines on the times of connections and of their `sent` queries, and on the transferred bytes.
fn connection_times(c: &Connections, sent: u64, line: &mut impl FnMut(&str, String)) {
    let n = |count: u64| thousands(count as f64);
    // UDP has no handshake, and QUIC no TCP before its own.
    if c.handshake_us.count > 0 {
        let tcp = match c.connect_us.count {
            0 => String::new(),
            _ => format!(" (TCP alone: p50 {})", time_us(c.connect_us.p50)),
        };
        let share = c.handshake_us.count as f64 * 100.0 / sent.max(1) as f64;
        let share = format!("; one for {share:.1} % of the queries");
        line("handshake", times(&c.handshake_us) + &tcp + &share);
    }
    for (label, of) in [("first query", &c.first_query_us), ("later queries", &c.steady_us)] {
        if of.count > 0 {
            line(label, format!("{} (from sent to reply)", times(of)));
        }
    }
    line(
        "bytes",
        format!(
            "{} sent in {} writes, {} received in {} reads",
            n(c.bytes_sent),
            n(c.writes),
            n(c.bytes_received),
            n(c.reads)
        ),
    );
    for (transport, part) in &c.by_transport {
        let failed: u64 = part.failed.values().sum();
        let handshake = match part.handshake_us.count {
            0 => String::new(),
            _ => format!("{} handshake, ", time_us(part.handshake_us.p50)),
        };
        line(
            transport,
            format!(
                "{} clients, {} connections, {} failed; p50 {handshake}{} first query, {} later queries",
                n(u64::from(part.clients)),
                n(part.established),
                n(failed),
                p50(&part.first_query_us),
                p50(&part.steady_us),
            ),
        );
    }
}

/// Formats the percentiles of a distribution; `-` if empty.
fn times(t: &Times) -> String {
    if t.count == 0 {
        return "-".to_owned();
    }
    format!(
        "p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
        time_us(t.p50),
        time_us(t.p90),
        time_us(t.p99),
        time_us(t.p999),
        time_us(t.max)
    )
}

/// Formats the median of a distribution; `-` if empty.
fn p50(t: &Times) -> String {
    if t.count == 0 { "-".to_owned() } else { time_us(t.p50) }
}

/// Formats a trial of a cell in one line; what limits a capacity is said of all its rounds
/// together.
pub fn trial_of_cell(cell: &CellRecord, r: &TrialRecord) -> String {
    line_of(r, cell.capacity_unit(), cell.method != "capacity")
}

/// Formats a trial of a search in one line.
pub fn trial_line(r: &TrialRecord, unit: &str) -> String {
    line_of(r, unit, true)
}

fn line_of(r: &TrialRecord, unit: &str, names_limiter: bool) -> String {
    let t = &r.trial;
    let verdict = match (&t.void.0, t.passed) {
        (Some(why), _) => format!("void: {why}"),
        (None, Some(true)) => "passed".into(),
        (None, has_goal) => {
            // Without a goal no trial fails.
            let failed = if has_goal.is_some() { "failed: " } else { "" };
            let limiter = match t.limiter {
                _ if !names_limiter => String::new(),
                Limiter::Unknown => " (limiter not known)".to_owned(),
                known => format!(" ({known})"),
            };
            format!("{failed}{}{limiter}", missed(t))
        }
    };
    let (number, p99) = (thousands(r.rate_qps), time_us(t.latency_us.p99));
    format!("{number:>11} {unit}  p99 {p99:>9}  {verdict}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_trial_of_a_capacity_names_no_limiter_of_its_own() {
        let mut trial = crate::tests::trial();
        (trial.limiter, trial.passed, trial.void) =
            (Limiter::TesterCpu, None, record::Voidness(None));
        let r = TrialRecord { repeat: 0, rate_qps: 1.0, trial };
        for (method, names) in [("capacity", false), ("load", true)] {
            let cell = CellRecord::new("nsd", BTreeMap::new(), method);
            assert_eq!(trial_of_cell(&cell, &r).ends_with(" (tester-cpu)"), names, "{method}");
        }
    }

    #[test]
    fn the_last_line_says_whether_all_was_well() {
        let mut trial = crate::tests::trial();
        (trial.sent, trial.answered, trial.valid, trial.lost) = (2_000, 2_000, 2_000, 0);
        (trial.duration_s, trial.unresolved, trial.passed) = (2.0, 0, None);
        trial.void = record::Voidness(None);
        trial.set_rates(0.0);
        let last = |t: &Trial| super::trial(t).lines().last().map(str::to_owned);
        let line = |text: &str| Some(format!("{:<16}{text}", "result"));
        let well =
            "all answered: each of 2,000 queries got a valid reply; 1,000 valid replies a second";
        assert_eq!(last(&trial), line(well));
        trial.limiter = Limiter::TesterCpu;
        let limited = "each of 2,000 queries got a valid reply; 1,000 valid replies a second, \
            limited by the Tester’s CPU, not by the server";
        assert_eq!(last(&trial), line(limited));
        (trial.valid, trial.lost, trial.answered) = (1_990, 5, 1_995);
        trial.set_rates(0.0);
        let bad = "10 of 2,000 queries got no valid reply in time; 995 valid replies a second";
        assert_eq!(last(&trial), line(bad));
        trial.rcodes = [("NOERROR".to_owned(), 1_995)].into();
        let codes = super::trial(&Trial { empty: 82, ..trial.clone() });
        assert!(codes.contains("NOERROR 1,995, 82 of them without an answer\n"), "{codes}");
        assert!(!super::trial(&trial).contains("without an answer"));
        let never_left = Trial { unserved: 18_000, ..trial.clone() };
        let most =
            "18,010 of 20,000 queries got no valid reply in time; 995 valid replies a second";
        assert_eq!(last(&never_left), line(most));
        let sent = |qps: f64| {
            super::trial(&Trial { offered_qps: qps, ..trial.clone() })
                .lines()
                .find(|line| line.starts_with("sent"))
                .and_then(|line| line.rsplit(": ").next().map(str::to_owned))
        };
        let rates = [2.0 / 3.0, 0.5, 5.0, 12.4, 1_234.5].map(|qps| sent(qps).expect("a line"));
        assert_eq!(rates, ["0.6667 qps", "0.5 qps", "5 qps", "12 qps", "1,234 qps"]);
        trial.passed = Some(false);
        assert_eq!(last(&trial), line("the goal was missed; 995 valid replies a second"));
        trial.void = record::Voidness(Some(measure::Void::Interrupted));
        assert_eq!(last(&trial), line("it says nothing about the server"));
    }

    #[test]
    fn a_sustained_rate_names_losses_that_no_goal_allows_and_a_void_one_has_no_verdict() {
        let mut trial = crate::tests::trial();
        let numbers = Outstanding { middle: 1_780.0, end: 0.0, allowed: 1_800.0 };
        (trial.sent, trial.valid, trial.void) = (1_000, 1_000, record::Voidness(None));
        (trial.planned, trial.unserved) = (1_000, 0);
        let mut said = |valid, void: Option<measure::Void>, passed: Option<bool>| {
            trial.passed = passed;
            (trial.valid, trial.answered, trial.lost) = (valid, valid, 1_000 - valid);
            (trial.invalid, trial.void.0) = (BTreeMap::new(), void);
            outstanding(&trial, &numbers)
        };
        let is = "1780 in the middle, 0 at the end";
        let with_losses = format!("{is}: sustained, but 42.9 % got no valid reply");
        assert_eq!(said(1_000, None, None), format!("{is}: sustained"));
        assert_eq!([None, Some(false)].map(|no| said(571, None, no)), [&*with_losses; 2]);
        assert_eq!(said(571, None, Some(true)), format!("{is}: sustained"));
        assert_eq!(said(571, Some(measure::Void::NothingSent), None), is);
    }

    #[test]
    fn a_full_list_of_stalls_says_that_there_may_be_more() {
        let mut trial = crate::tests::trial();
        let stall = measure::stall::Stall {
            side: Side::Tester,
            at: measure::Nanos(1),
            length: measure::Nanos::from_millis(2),
        };
        for (count, text) in [(511, "Tester 511, "), (512, "Tester 512 or more, ")] {
            trial.disturbances.stalls = vec![stall; count];
            let mut said = String::new();
            stalls(&trial, &mut |_: &str, text| said = text);
            assert!(said.starts_with(text), "{said}");
        }
    }

    #[test]
    fn means_are_those_of_replies_and_queries() {
        let mut trial = crate::tests::trial();
        (trial.sent, trial.answered, trial.valid) = (4, 2, 2);
        trial.octets = record::Octets { queries: 180, replies: 4_000 };
        let times = &mut trial.latency_from_send_us;
        (times.count, times.mean, times.stdev) = (2, 1_500.0, 250.0);
        let means =
            |t: &Trial| super::trial(t).lines().find(|l| l.starts_with("mean")).map(str::to_owned);
        let text = "1.50 ms +- 250.0 us (from sent to reply; standard deviation); queries of 45 octets, replies of 2,000";
        assert_eq!(means(&trial), Some(format!("{:<16}{text}", "mean")));
        trial.latency_from_send_us.count = 0;
        assert_eq!(means(&trial), None);
    }

    #[test]
    fn what_has_no_handshake_has_no_time_of_one() {
        let timed = |p50| Times { count: 3, p50, ..Times::default() };
        let part = |handshake_us| Connections {
            clients: 3,
            established: 3,
            handshake_us,
            first_query_us: timed(2_000.0),
            ..Connections::default()
        };
        let lines = |all: &Connections| {
            let mut lines = BTreeMap::new();
            connection_times(all, 6, &mut |name: &str, text| {
                drop(lines.insert(name.to_owned(), text))
            });
            lines
        };
        let parts = [("udp", part(Times::default())), ("quic", part(timed(5_000.0)))];
        let by_transport = parts.map(|(name, part)| (name.to_owned(), part)).into_iter().collect();
        let all = lines(&Connections { by_transport, ..part(timed(5_000.0)) });
        assert!(all["udp"].contains("0 failed; p50 2.00 ms first query"), "{all:?}");
        assert!(all["quic"].contains("p50 5.00 ms handshake, 2.00 ms first query"), "{all:?}");
        assert!(!all["handshake"].contains("TCP alone"), "{all:?}");
        let tcp = Connections { connect_us: timed(1_000.0), ..part(timed(5_000.0)) };
        assert!(
            lines(&tcp)["handshake"]
                .ends_with("(TCP alone: p50 1.00 ms); one for 50.0 % of the queries")
        );
        assert!(!lines(&part(Times::default())).contains_key("handshake"));
        // No connection had a second query.
        assert!(!all.contains_key("later queries"), "{all:?}");
    }
}
