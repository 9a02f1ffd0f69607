//! The search against a scripted bench: the rates it tries, and its result.

use std::cell::Cell;
use std::collections::BTreeSet;

use experiment::{
    Bench, BenchError, Circumstances, ClientNames, Experiment, Joined, NameBudget, OneHost,
    Repeats, Replay, Rule, Search, TrialSpec, VisitResult, add_visit, certify, differs, visit,
};
use measure::{Limiter, Link, Nanos, Outstanding, Path, Void};
use record::CellRecord;

use crate::scripted::searches::{Fate, Scripted, below, qps, rate, search};
use crate::scripted::{self, Trials};

/// Two hosts that speak IPv6.
const CIRCUMSTANCES: Circumstances = Circumstances {
    names: experiment::NameUse { again: false, within: false },
    over_ipv6: true,
    one_host: None,
    shortened: None,
};

/// Returns the rates tried with their outcomes, and the verdict.
fn run(search: &Search, fate: impl FnMut(f64) -> Fate) -> String {
    let mut bench = Scripted { fate, ranges: Vec::new() };
    let mut names = NameBudget::new(1 << 30, false);
    let trace =
        search.run(&mut bench, &mut names, 0, &mut |_| ()).expect("the bench does not fail");
    assert!(bench.ranges.windows(2).all(|w| w[0].1 <= w[1].0), "no name twice");
    let steps: Vec<String> = trace
        .trials
        .iter()
        .map(|t| {
            let sign = if t.trial.void.is_void() {
                '?'
            } else if t.trial.passed == Some(true) {
                '+'
            } else {
                '-'
            };
            format!("{}{sign}", t.rate_qps)
        })
        .collect();
    format!("{} => {}", steps.join(" "), trace.capacity.verdict)
}

#[test]
fn what_is_tried_and_found() {
    insta::assert_snapshot!(run(&search(), below(26_000.0)), @"10000+ 20000+ 40000- 30000- 25000+ 27500- 26250- 26250- => 25000 qps, limited by dut; 26250 qps failed");
    insta::assert_snapshot!(run(&search(), below(3_100.0)), @"10000- 5000- 2500+ 3750- 3125- 2813+ 2969+ 3047+ 3125- => 3047 qps, limited by dut; 3125 qps failed");
}

/// A search that begins near what closed loops get needs at most half of the trials, and finds the same, also where they are wrong.
#[test]
fn near_the_answers_of_closed_loops_half_of_the_trials_do() {
    let fine = Search { resolution: 0.01, ..search() };
    let near = |answered: f64| fine.clone().near(answered);
    let all = [28_000.0, 20_000.0, 60_000.0].map(|answered| run(&near(answered), below(26_000.0)));
    insta::assert_snapshot!(all.join("\n"), @"
    25900+ 27650- 26775- 26338- 26119- 26119- => 25900 qps, limited by dut; 26119 qps failed
    18500+ 19750+ 20375+ 20688+ 20844+ 21000+ 23100+ 25410+ 30746- 28078- 26744- 26077- 25744+ 25911+ 26077- => 25911 qps, limited by dut; 26077 qps failed
    55500- 51750- 49875- 48938- 48469- 48000- 43636- 39669- 32784- 22391+ 27588- 24990+ 26289- 25640+ 25965+ 26127- 26127- => 25965 qps, limited by dut; 26127 qps failed
    ");
    let (mut before, mut after) = (0, 0);
    for k in 0..100 {
        let capacity = 12_000.0 * 1.04f64.powi(k);
        // Loops get up to a quarter more than passes, or a twentieth less.
        let answered = capacity * (0.96 + 0.003 * f64::from((k * 37) % 97));
        let trials = |search: &Search| run(search, below(capacity)).matches(['+', '-']).count();
        (before, after) = (before + trials(&fine), after + trials(&near(answered)));
    }
    assert!(2 * after <= before, "{after} of {before} trials");
}

/// A server that carries so many clients with a share `full` of its CPU; its demand for a client falls with load, by a factor `falls`.
fn carries(clients: f64, full: f64, falls: f64) -> impl FnMut(f64) -> Fate {
    move |number| {
        let load = number / clients;
        let used = full * load * falls / (1.0 + (falls - 1.0) * load);
        Fate::Used(number <= clients, used.min(1.0))
    }
}

/// The server's demand at two loads tells how many clients it carries, three trials confirm it, and others follow where it does not hold.
#[test]
fn over_clients_the_demand_tells_where_to_search() {
    let (start, min, max) = (qps(500.0), qps(100.0), qps(9_000.0));
    let client_names = Some(ClientNames { popular: 100, new_per_s: 4.0 });
    let over_clients = Search { start, min, max, client_names, resolution: 0.1, ..search() };
    let run = |fate| run(&over_clients, fate);
    let all = [
        run(carries(3_000.0, 0.92, 1.2)),
        // A core with time left, a first load that is too much, one that costs more CPU than a larger one, more than the search may try.
        run(carries(3_000.0, 0.6, 1.0)),
        run(carries(300.0, 0.92, 1.0)),
        run(carries(3_000.0, 0.97, 4.0)),
        run(carries(30_000.0, 0.97, 1.0)),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    500+ 2584+ 2931+ 3186- 3186- => 2931 qps, limited by dut; 3186 qps failed
    500+ 4600- 4200- 2350+ 3275- 2813+ 3044- 3044- => 2813 qps, limited by dut; 3044 qps failed
    500- 250+ 300+ 326- 326- => 300 qps, limited by dut; 326 qps failed
    500+ 1067+ 1470+ 1598+ 1758+ 1934+ 2341+ 3429- 2885+ 3157- 3157- => 2885 qps, limited by dut; 3157 qps failed
    500+ 9000+ => at least 9000 qps: the search's own upper bound passed
    ");
    let counts: Vec<usize> = (0..80)
        .map(|k| {
            let [clients, k] = [600.0 * 1.03f64.powi(k), f64::from(k)];
            let found = run(carries(
                clients,
                0.85 + 0.13 * (k * 0.37).fract(),
                1.0 + 0.25 * (k * 0.61).fract(),
            ));
            let (trials, verdict) = found.split_once(" => ").expect("a verdict");
            let number: f64 =
                verdict.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
            assert!(number <= clients && clients < 1.11 * number, "{clients}: {found}");
            trials.split(' ').count()
        })
        .collect();
    let all: usize = counts.iter().sum();
    assert!(all < 5 * counts.len(), "{counts:?}");
}

#[test]
fn bounds() {
    assert!(
        run(&search(), |_| Fate::Pass)
            .ends_with("1000000+ => at least 1000000 qps: the search's own upper bound passed")
    );
    let nothing = run(&search(), |_| Fate::Fail(Limiter::Target));
    assert_eq!(
        nothing,
        "10000- 5000- 2500- 1250- 1000- => failed at every rate down to 1000 qps, limited by target"
    );
}

#[test]
fn a_starved_tester_is_never_a_capacity() {
    let all = run(&search(), |_| Fate::Void);
    assert!(
        all.starts_with("10000? 10000? 10000? 5000?")
            && all.ends_with("void at every rate down to 1000 qps (tester-cpu)"),
        "{all}"
    );
    // The Tester can do 33,000: the highest passing rate is a lower bound.
    let coarse = Search { resolution: 0.1, ..search() };
    let some = run(&coarse, |rate| if rate > 33_000.0 { Fate::Void } else { Fate::Pass });
    assert_eq!(
        some,
        "10000+ 20000+ 40000? 40000? 40000? 30000+ 35000? 35000? 35000? 32500+ => at least 32500 qps; \
         Tester-limited at 35000 qps (tester-cpu)"
    );
    let slow =
        run(
            &search(),
            |rate| if rate > 30_000.0 { Fate::Fail(Limiter::AuthDns) } else { Fate::Pass },
        );
    assert!(slow.contains("=> at least 30000 qps, limited by authdns"), "{slow}");
}

/// Repeats a search with so many names.
fn repeated(
    search: Search,
    repeats: u32,
    names: u64,
    fate: impl FnMut(f64) -> Fate,
) -> (CellRecord, Option<BenchError>) {
    let mut bench = Scripted { fate, ranges: Vec::new() };
    let mut names = NameBudget::new(names, false);
    let repeats = Repeats { search, repeats, circumstances: CIRCUMSTANCES };
    repeats.run(&mut bench, "scripted", &mut names, None, &mut |_| ())
}

#[test]
fn repeats_give_percentiles_and_say_what_differs() {
    let mut k = 0.0;
    let fate = |rate: f64| {
        // Each search begins with a rate that passes, and continues after one that failed.
        if rate < 12_600.0 {
            k += 1_000.0;
        }
        below(20_000.0 + k)(rate)
    };
    let fine = Search { resolution: 0.001, ..search() };
    let (record, error) = repeated(fine, 5, 1 << 30, fate);
    assert_eq!(error, None);
    assert_eq!(record.repeats, 5);
    let median = record.median_qps.expect("all have one");
    assert!((22_970.0..=23_000.0).contains(&median), "{median}");
    assert_eq!((record.p01_qps, record.p99_qps), (None, None), "five repeats have no percentiles");
    assert!(!record.conforming && !record.at_least);
    assert_eq!(
        record.differs,
        ["trials of 1s instead of 60 s", "5 searches instead of 20", "no self-test of the Tester"]
    );
    assert_eq!(record.trials.iter().map(|t| t.repeat).max(), Some(4));
}

#[test]
fn running_out_of_names_ends_the_repeats_and_keeps_what_was_measured() {
    let (record, error) = repeated(search(), 5, 550_000, below(26_000.0));
    assert!(matches!(error, Some(BenchError::Names(_))));
    assert_eq!(record.repeats, 2);
    assert!(record.differs.iter().any(|d| d == "ended after 2 of 5 searches"));
}

#[test]
fn twenty_repeats_have_percentiles() {
    let (record, error) = repeated(search(), 20, 1 << 30, below(26_000.0));
    assert_eq!((error, record.repeats), (None, 20));
    assert!(record.p01_qps < record.p99_qps, "starts differ, and what is found with them");
    assert!(record.p01_qps <= record.median_qps && record.median_qps <= record.p99_qps);
    let starts: std::collections::BTreeSet<u64> = (0..20)
        .filter_map(|r| record.trials.iter().find(|t| t.repeat == r))
        .map(|t| t.rate_qps as u64)
        .collect();
    assert!(starts.len() > 15 && starts.iter().all(|s| (8_000..=12_500).contains(s)), "{starts:?}");
}

#[test]
fn lower_bounds_combine_by_their_maximum() {
    // The Tester stops the second search early.
    let mut trial = 0;
    let fate = |rate: f64| {
        trial += 1;
        let most = if trial > 4 { 15_000.0 } else { 100_000.0 };
        if rate > most { Fate::Void } else { Fate::Pass }
    };
    let (record, _) = repeated(search(), 2, 1 << 30, fate);
    let found: Vec<f64> = record.capacities.iter().filter_map(|c| c.qps).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(record.median_qps, found.iter().copied().reduce(f64::max), "{found:?}");
    assert!(record.at_least);
}

/// A search by MLRsearch to 5 % of the rate.
fn mlrsearch() -> Search {
    let rule = Rule::Mlrsearch { also: Vec::new(), duration_sum: Nanos::from_secs(5) };
    Search { rule, resolution: 0.05, ..search() }
}

#[test]
fn mlrsearch_goes_down_to_what_the_tester_can_send() {
    let mlr = mlrsearch();
    // The Tester can do 300,000, the server 26,000: nothing of the Tester's end is in the result.
    let found = run(&mlr, |rate| if rate > 300_000.0 { Fate::Void } else { below(26_000.0)(rate) });
    assert!(found.contains("qps, limited by") && !found.contains("at least"), "{found}");
    // The server can do more than the Tester.
    let found = run(&mlr, |rate| if rate > 30_000.0 { Fate::Void } else { Fate::Pass });
    assert!(found.contains("=> at least 2") && found.contains("Tester-limited at"), "{found}");
    // The Tester can do nothing at all.
    let found = run(&mlr, |_| Fate::Void);
    assert!(found.contains("=> void at every rate down to"), "{found}");
}

#[test]
fn a_slow_tester_is_certified_for_what_it_sends() {
    // A Tester that sends 60,000 queries a second at most.
    let mut slow = Trials(|spec: &TrialSpec| {
        let behind_s = (rate(spec) / 60_000.0 - 1.0).max(0.0) * spec.duration.as_secs_f64();
        let void = Void::ScheduleNotKept { late: 0.9, tolerance: Nanos::from_millis(1), sent: 1.0 };
        let void = (behind_s > 0.0).then_some(void);
        let limiter = Limiter::TesterSchedule;
        let mut trial = scripted::trial(spec, rate(spec), void.is_none(), limiter, void);
        trial.schedule_error_us.max = behind_s * 1e6;
        Ok(trial)
    });
    let (second, size) = (Nanos::from_secs(1), 1 << 24);
    let certificate = certify(&mut slow, qps(500_000.0), second, second, size, &mut |_| ())
        .expect("the bench does not fail");
    assert!(certificate.passed && certificate.trials.len() <= 6, "{}", certificate.trials.len());
    assert!((57_000.0..=60_000.0).contains(&certificate.self_test_qps));
}

#[test]
fn mlrsearch_takes_no_rate_that_was_not_sustained() {
    // A server that answers everything, and falls behind above 26,000 queries a second.
    let mut behind = Trials(|spec: &TrialSpec| {
        let mut trial = scripted::trial(spec, rate(spec), true, Limiter::Dut, None);
        let end = if rate(spec) > 26_000.0 { 5_000.0 } else { 50.0 };
        trial.outstanding = Some(Outstanding { middle: 50.0, end, allowed: 100.0 });
        Ok(trial)
    });
    let mut names = NameBudget::new(1 << 30, false);
    let found = mlrsearch().run(&mut behind, &mut names, 0, &mut |_| ()).expect("a result");
    let qps = found.capacity.qps.expect("a rate");
    assert!((24_000.0..=26_000.0).contains(&qps), "{}", found.capacity.verdict);
}

#[test]
fn mlrsearch_does_not_go_below_a_rate_that_was_only_disturbed() {
    // Of the first rate on the Tester is known to send it.
    let mlr = Search { start: qps(40_000.0), ..mlrsearch() };
    // Four void trials in a row near the capacity: they are run again, and the search goes on.
    let mut disturbed = 4;
    let found = run(&mlr, |rate| {
        if (20_000.0..=26_000.0).contains(&rate) && disturbed > 0 {
            disturbed -= 1;
            return Fate::Void;
        }
        below(26_000.0)(rate)
    });
    assert!(found.contains("qps, limited by dut") && !found.contains("at least"), "{found}");
    // A disturbance that stays ends the search: lower rates say nothing about it.
    let found = run(&mlr, |rate| if rate <= 26_000.0 { Fate::Void } else { below(26_000.0)(rate) });
    let (tried, verdict) = found.split_once(" => ").expect("a verdict");
    let void: BTreeSet<&str> = tried.split(' ').filter(|rate| rate.ends_with('?')).collect();
    assert!(void.len() == 1 && verdict.starts_with("void at"), "{found}");
}

/// A server with a capacity, whose first trial at the rate `at` fails by a stall.
fn stalled_once(at: f64, capacity: f64) -> impl FnMut(f64) -> Fate {
    let mut stalled = false;
    move |rate| {
        if rate == at && !std::mem::replace(&mut stalled, true) {
            return Fate::Fail(Limiter::Dut);
        }
        below(capacity)(rate)
    }
}

#[test]
fn stalls_and_void_trials_do_not_cap_the_search() {
    let coarse = Search { resolution: 0.1, ..search() };
    let (mut stalled, mut first) = (4, true);
    let all = [
        // The first failure of the doubling phase is a stall: the failing end passes on its second try.
        run(&search(), stalled_once(20_000.0, 50_000.0)),
        // Rates that failed above a stall are not searched again.
        run(&search(), stalled_once(25_000.0, 26_000.0)),
        // A stall lasts over several rates.
        run(&search(), |rate| {
            stalled -= 1;
            if stalled >= 0 { Fate::Fail(Limiter::Dut) } else { below(50_000.0)(rate) }
        }),
        // A void rate below one that was reached has its retries once.
        run(&search(), |rate| match rate {
            40_000.0 => Fate::Fail(Limiter::Dut),
            30_000.0.. => Fate::Void,
            _ => Fate::Pass,
        }),
        // A failing end beside a void one is the server's.
        run(&coarse, |rate| if rate > 33_000.0 { Fate::Void } else { below(25_000.0)(rate) }),
        // A failure in spite of late queries does not show what the Tester can do.
        run(&search(), |rate| match rate {
            40_000.0 => Fate::LateFail(Limiter::Dut),
            27_000.0.. => Fate::Void,
            _ => Fate::Pass,
        }),
        // A void trial is repeated.
        run(&search(), |rate| match rate {
            20_000.0 if std::mem::take(&mut first) => Fate::Void,
            _ => below(26_000.0)(rate),
        }),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    10000+ 20000- 15000+ 17500+ 18750+ 19375+ 20000+ 40000+ 80000- 60000- 50000+ 55000- 52500- 52500- => 50000 qps, limited by dut; 52500 qps failed
    10000+ 20000+ 40000- 30000- 25000- 22500+ 23750+ 24375+ 25000+ 30000- 27500- 26250- 26250- => 25000 qps, limited by dut; 26250 qps failed
    10000- 5000- 2500- 1250- 1000+ 1125+ 1188+ 1219+ 1250+ 2500+ 5000+ 10000+ 20000+ 40000+ 80000- 60000- 50000+ 55000- 52500- 52500- => 50000 qps, limited by dut; 52500 qps failed
    10000+ 20000+ 40000- 30000? 30000? 30000? 30000? 30000? 30000? 30000? => at least 20000 qps; Tester-limited at 30000 qps (tester-cpu)
    10000+ 20000+ 40000? 40000? 40000? 30000- 25000+ 27500- 27500- => 25000 qps, limited by dut; 27500 qps failed
    10000+ 20000+ 40000- 30000? 30000? 30000? 25000+ 27500? 27500? 27500? 26250+ => at least 26250 qps; Tester-limited at 27500 qps (tester-cpu)
    10000+ 20000? 20000+ 40000- 30000- 25000+ 27500- 26250- 26250- => 25000 qps, limited by dut; 26250 qps failed
    ");
}

#[test]
fn the_certificate_goes_down_until_it_passes() {
    let mut bench = Scripted { fate: below(300_000.0), ranges: Vec::new() };
    let (second, minute) = (Nanos::from_secs(1), Nanos::from_secs(60));
    let certificate =
        certify(&mut bench, qps(200_000.0), minute, second, 1 << 30, &mut |_| ()).expect("runs");
    assert!(certificate.passed && certificate.timeout_s == 0.25);
    let rates: Vec<f64> = certificate.trials.iter().map(|t| (t.rate_qps / 1e3).round()).collect();
    assert_eq!(rates, [440.0, 352.0, 282.0, 315.0, 298.0, 306.0], "the last but one passed");
    assert!((certificate.certified_qps * 2.2 - 297_700.0).abs() < 100.0);
    let conforming = Search { duration: minute, ..search() };
    assert_eq!(
        differs(&conforming, 20, Some(&certificate), Some(100_000.0), &CIRCUMSTANCES),
        Vec::<String>::new()
    );
    assert_eq!(
        differs(&conforming, 20, Some(&certificate), Some(137_000.0), &CIRCUMSTANCES).len(),
        1
    );
}

#[test]
fn one_host_is_named_with_its_link_and_offloads() {
    let bare = OneHost {
        joined: Joined::Veth(Link::Plain),
        path: Path::Wire,
        gso: false,
        gro: false,
        tcp: false,
    };
    let joined = Joined::Loopback;
    let all = OneHost { joined, path: Path::HostOffload, gso: true, gro: true, tcp: true };
    let namespaces = OneHost { joined: Joined::Namespaces, path: Path::OneHost, ..bare };
    let of = |one_host| {
        let conforming = Search { duration: Nanos::from_secs(60), ..search() };
        let circumstances = Circumstances { one_host: Some(one_host), ..CIRCUMSTANCES };
        differs(&conforming, 20, None, None, &circumstances)[1..].join("; ")
    };
    insta::assert_snapshot!(of(bare), @"the Tester and the server are on one host, joined by a veth pair (plain); offload: the link computes no checksums");
    insta::assert_snapshot!(of(namespaces), @"the Tester and the server are on one host, joined by links between network namespaces of one kernel; offload: the link computes no checksums");
    insta::assert_snapshot!(of(all), @"the Tester and the server are on one host, joined by the loopback; offload: the link computes no checksums; offload: segmented messages cross the link whole; offload: the link joins TCP segments (tx-tcp-segmentation); offload: the Tester sends segmented messages (UDP_SEGMENT); offload: the Tester receives joined replies (UDP_GRO)");
}

#[test]
fn a_shortened_plan_keeps_its_label() {
    let minute = Nanos::from_secs(60);
    let mut script = Scripted { fate: below(26_000.0), ranges: Vec::new() };
    let mut bench = Trials(|spec: &TrialSpec| {
        script.trial(&TrialSpec { duration: Nanos::from_millis(100), ..spec.clone() })
    });
    let certificate =
        certify(&mut bench, qps(10_000.0), minute, Nanos::from_secs(1), 1 << 30, &mut |_| ());
    let mut certificate = certificate.expect("runs");
    certificate.shortened_s = Some(0.1);
    assert!(certificate.passed && certificate.duration_s == 60.0);
    assert_eq!(certificate.trials[0].trial.duration_s, 0.1);
    let search = Search { duration: minute, max: qps(10_000.0), ..search() };
    let shortened = Circumstances { shortened: Some(Nanos::from_millis(100)), ..CIRCUMSTANCES };
    let repeats = Repeats { search, repeats: 20, circumstances: shortened };
    let mut names = NameBudget::new(1 << 40, false);
    let given = Some(certificate.clone());
    let (record, _) = repeats.run(&mut bench, "x", &mut names, given, &mut |_| ());
    assert!(record.conforming, "{:?}", record.differs);
    assert_eq!(record.shortened_s, Some(0.1));
    assert!(record.trials.iter().all(|t| t.trial.duration_s == 0.1));
    let differs = differs(&repeats.search, 20, Some(&certificate), None, &CIRCUMSTANCES);
    assert_eq!(differs, ["a self-test that a test hook shortened"], "the search itself was not");
}

/// A search interrupted after any of its trials reaches the same result, and runs only the remaining trials.
#[test]
fn an_interrupted_search_resumes_at_the_same_trial() {
    let text = r#"
name = "x"
title = "x"
role = "dns64"
servers = ["a"]
repeats = 2
search = { goal = "zero-loss", start = "10k", max = "1M", resolution = 0.05, duration = "1s" }
"#;
    let experiment = Experiment::parse(text, std::path::Path::new("x.toml")).expect("good");
    let settings = experiment.common();
    let bench = |ran: Vec<(u64, u64)>| Scripted {
        fate: |rate: f64| if rate < 44_000.0 { Fate::Pass } else { Fate::Fail(Limiter::Dut) },
        ranges: ran,
    };
    let names = || NameBudget::new(1 << 30, false);
    let mut whole = Vec::new();
    let mut first = bench(Vec::new());
    let found = visit(settings, &mut first, &mut names(), 1, &mut |t| whole.push(t.clone()));
    let found = found.expect("the bench does not fail");
    assert!(whole.len() > 4 && whole.iter().all(|t| t.repeat == 1));
    for cut in 0..=whole.len() {
        let mut second = bench(Vec::new());
        let mut seen = Vec::new();
        let dropped = Cell::new(false);
        let mut replay = Replay::new(&mut second, whole[..cut].to_vec(), &dropped);
        let again = visit(settings, &mut replay, &mut names(), 1, &mut |t| seen.push(t.clone()));
        assert_eq!(again.expect("the bench does not fail"), found);
        assert_eq!(seen, whole);
        assert_eq!(second.ranges.len(), whole.len() - cut, "only what is left is run");
        assert!(second.ranges.iter().all(|r| first.ranges.contains(r)), "and with the same names");
        assert!(!dropped.get(), "all that was kept fits");
    }
    // A trial that another method ran does not fit, and what follows it neither.
    let (mut second, dropped) = (bench(Vec::new()), Cell::new(false));
    let mut kept = whole.clone();
    kept[1].rate_qps += 1.0;
    let mut replay = Replay::new(&mut second, kept, &dropped);
    let again = visit(settings, &mut replay, &mut names(), 1, &mut |_| ());
    assert_eq!(again.expect("the bench does not fail"), found);
    assert!(dropped.get() && second.ranges.len() == whole.len() - 1);
    let mut cell = CellRecord::new("a", Default::default(), "search");
    add_visit(&mut cell, settings, found, &CIRCUMSTANCES);
    assert_eq!((cell.repeats, cell.capacities.len()), (1, 1));
    assert!(
        cell.differs.iter().any(|why| why == "ended after 1 of 2 searches"),
        "{:?}",
        cell.differs
    );
}

#[test]
fn a_load_is_a_trial_at_each_rate_and_void_ones_are_run_again() {
    let text = r#"
name = "x"
title = "x"
role = "dns64"
servers = ["a"]
method = "load"
load = { rates = ["1k", "2k", "4k"], duration = "1s" }
"#;
    let experiment = Experiment::parse(text, std::path::Path::new("x.toml")).expect("good");
    let mut calls = 0;
    let mut bench = Scripted {
        fate: |_| {
            calls += 1;
            if calls == 2 { Fate::Void } else { Fate::Pass }
        },
        ranges: Vec::new(),
    };
    let mut rates = Vec::new();
    let mut names = NameBudget::new(1 << 20, false);
    let found =
        visit(experiment.common(), &mut bench, &mut names, 0, &mut |t| rates.push(t.rate_qps));
    assert_eq!(rates, [1e3, 2e3, 2e3, 4e3]);
    assert!(bench.ranges.windows(2).all(|w| w[0].1 <= w[1].0), "no name twice");
    let figures = vec![("highest_answered".to_owned(), "qps", 4e3)];
    assert_eq!(found.expect("the bench does not fail"), VisitResult::Figures(figures));
}
