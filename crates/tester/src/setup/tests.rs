use std::collections::BTreeSet;
use std::io::Write;

use engine::SocketId;
use load::workload::MAX_QUERY;
use measure::{ClockBound, Goal, Slice};
use record::request::{Connecting, Expect, Names, Query, Sockets};

use super::*;

/// Number of workers of each slice's Tester.
const WORKERS: u32 = 2;

fn slices(of: u32) -> impl Iterator<Item = Slice> {
    (1..=of).filter_map(move |number| Slice::new(number, of))
}

fn names() -> Names {
    let pref64 = "64:ff9b::/96".parse().expect("a prefix");
    Names::embedded("10.0.0.0/16".parse().expect("a prefix"), "dns64perf.test".into(), pref64)
}

fn request(workload: Workload, pacing: &str, slice: Slice) -> TrialRequest {
    let target = "127.0.0.1:9".parse().expect("an address");
    let pacing = pacing.parse().expect("a pacing");
    let duration = Nanos::from_millis(300);
    TrialRequest { slice, duration, ..TrialRequest::new(target, workload, pacing) }
}

/// Due times and queries of all workers of a load, in order.
fn queries(workload: &Workload, pacing: &str, slice: Slice, workers: u32) -> Vec<(Nanos, Vec<u8>)> {
    let setup = Setup::new(request(workload.clone(), pacing, slice), String::new());
    let setup = setup.expect("a setup");
    let mut all = Vec::new();
    for worker in 0..workers {
        let plan = setup.plan(worker, workers, 1);
        let schedule = plan.pacing.schedule(plan.duration, plan.seed).expect("an open loop");
        let mut schedule = schedule.shard(plan.worker, plan.workers);
        let mut names = setup.workload.worker(plan.worker, plan.workers).expect("a workload");
        while let Some(due) = schedule.peek() {
            let mut query = [0; MAX_QUERY];
            let composed = names.next(&mut query).expect("a query");
            all.push((due, query[..composed.len].to_vec()));
            schedule.advance();
        }
    }
    all.sort();
    all
}

#[test]
fn slices_send_at_the_times_and_for_the_names_of_one_tester() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    (0..50).for_each(|i| writeln!(file, "n{i}.example AAAA").expect("writes"));
    let query = Query { recursion: true, class: None, edns: None };
    let (expect, qtype) = (Expect::Answered, "A".to_owned());
    let workloads = [
        Workload::Namespace(names()),
        Workload::QueryFile {
            path: file.path().to_owned(),
            expect: expect.clone(),
            query: query.clone(),
            runs: None,
            probability: None,
            skip_bad: false,
        },
        Workload::RandomSubdomain { zone: "x.test".to_owned(), qtype, expect, query },
    ];
    for workload in &workloads {
        for pacing in ["constant 10k", "poisson 10k", "ramp 1k..20k"] {
            for of in [2, 3] {
                let whole = queries(workload, pacing, Slice::default(), WORKERS * of);
                let mut parts: Vec<_> = slices(of)
                    .flat_map(|slice| queries(workload, pacing, slice, WORKERS))
                    .collect();
                parts.sort();
                assert!(whole.len() > 2_000, "{pacing}");
                assert!(parts == whole, "{pacing}, {of} slices of {workload:?}");
            }
        }
    }
}

#[test]
fn a_sample_of_a_file_has_as_many_queries_as_chance_took() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    (0..50).for_each(|i| writeln!(file, "n{i}.example AAAA").expect("writes"));
    let mut tally = load::Tally::new(Nanos::from_secs(1));
    (tally.sent, tally.exhausted) = (28, true);
    for (probability, planned) in [(Some(0.3), 28), (None, 100)] {
        let workload = Workload::QueryFile {
            path: file.path().to_owned(),
            expect: Expect::Answered,
            query: Query { recursion: true, class: None, edns: None },
            runs: Some(2),
            probability,
            skip_bad: false,
        };
        let whole = Slice::default();
        let setup = Setup::new(request(workload, "constant 1k", whole), String::new());
        let setup = setup.expect("a setup");
        assert_eq!(setup.workload.most_queries(whole, &tally), planned);
    }
}

/// Source ports of a load with eight sockets from `first` on; `None` if some are taken.
fn ports(slice: Slice, workers: usize, first: u16) -> Option<BTreeSet<u16>> {
    let name = Workload::Name {
        name: "x.test".to_owned(),
        qtype: "A".to_owned(),
        expect: Expect::Answered,
        query: Query { recursion: true, class: None, edns: None },
    };
    let sockets = Sockets { count: Some(8), first_port: Some(first), ..Sockets::default() };
    let request = TrialRequest { sockets, ..request(name, "constant 1k", slice) };
    let setup = Setup::new(request, String::new()).expect("a setup");
    let mut all = BTreeSet::new();
    for engine in setup.engines(workers).ok()? {
        let sockets = 0..engine.facts().sockets as u16;
        let port = |socket| engine.local_address(SocketId(socket)).expect("an address").port();
        all.extend(sockets.map(port));
    }
    Some(all)
}

#[test]
fn slices_have_the_ports_of_one_tester() {
    let found = (0..50u16).map(|place| 20_000 + place * 211).find_map(|first| {
        let whole = ports(Slice::default(), 4, first)?;
        let parts = slices(2).map(|slice| ports(slice, 2, first)).collect::<Option<Vec<_>>>()?;
        Some((whole, parts))
    });
    let (whole, parts) = found.expect("eight free ports");
    assert_eq!(whole.len(), 8);
    assert!(parts.iter().all(|part| part.len() == 4), "{parts:?}");
    assert_eq!(parts.into_iter().flatten().collect::<BTreeSet<u16>>(), whole);
}

#[test]
fn what_a_slice_cannot_do_is_refused() {
    let half: Slice = "1/2".parse().expect("a slice");
    let name = || Workload::Name {
        name: "x.test".to_owned(),
        qtype: "A".to_owned(),
        expect: Expect::Answered,
        query: Query { recursion: true, class: None, edns: None },
    };
    let of = |pacing: &str| request(name(), pacing, half);
    let clients = Connecting { clients: 1, ..Connecting::over(measure::Transport::Tcp) };
    let table = [
        (TrialRequest { goal: Some(Goal::zero_loss()), ..of("constant 1k") }, "`dnsdyno merge`"),
        (TrialRequest { also: vec![of("constant 1k").target], ..of("window 8") }, "one server"),
        (
            TrialRequest { engine: Engine::Streams(Box::new(clients)), ..of("constant 1k") },
            "1 clients are fewer than the 2 workers of all slices",
        ),
    ];
    for (request, why) in table {
        let error = Setup::new(request, String::new()).map(|_| ()).expect_err(why);
        assert!(error.is_bad_input() && error.to_string().contains(why), "{error}");
    }
    let start_at = Some("@99".parse().expect("an instant"));
    let late = TrialRequest { start_at, clock_bound: ClockBound::Unchecked, ..of("constant 1k") };
    let setup = Setup::new(late, String::new()).expect("a setup");
    let error = setup.run(&Default::default(), &Default::default()).expect_err("it is past");
    assert!(error.is_bad_input() && error.to_string().contains("in the past"), "{error}");
}

#[test]
fn workers_of_a_closed_loop_sleep_beside_their_server() {
    let whole = Slice::default();
    let wait = |pacing, cpus: &[usize], shared_core, target: &str| {
        let request = request(Workload::Namespace(names()), pacing, whole);
        let sockets = Sockets { cpus: cpus.to_vec(), shared_core, ..request.sockets.clone() };
        let target = target.parse().expect("an address");
        let request = TrialRequest { sockets, target, dut_cpus: vec![1], ..request };
        Setup::new(request, String::new()).expect("a setup").wait_mode()
    };
    let (here, elsewhere) = ("127.0.0.1:9", "192.0.2.1:9");
    assert_eq!(wait("window 8", &[], false, here), WaitMode::Sleep);
    assert_eq!(wait("window 8", &[0], true, here), WaitMode::Sleep);
    assert_eq!(wait("window 8", &[0], false, here), WaitMode::Auto);
    assert_eq!(wait("window 8", &[1], false, elsewhere), WaitMode::Sleep, "a core of the server");
    assert_eq!(wait("window 8", &[], false, elsewhere), WaitMode::Auto);
    assert_eq!(wait("constant 1k", &[], false, here), WaitMode::Auto);
}
