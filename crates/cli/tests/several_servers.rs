//! Several servers at a time: in a closed loop each has its own window, and its own counts; a load at a rate goes to all in turn.

use lab::Task;
use measure::{Nanos, Pacing, Qps};
use record::request::{Expect, Query, Workload};
use record::{TrialRequest, TrialResult};

use crate::kit;
use crate::kit::command::task;

/// Runs the Measurer; its result, or its error.
fn measure(request: &TrialRequest) -> Result<TrialResult, String> {
    let (code, out, err) = task("measure", &Task::Measure(Box::new(request.clone())));
    if code != 0 {
        return Err(err);
    }
    Ok(serde_json::from_str(&out).expect("a result"))
}

/// A request of a third of a second for one name.
fn request(target: &str, also: &[&str]) -> TrialRequest {
    let address = |text: &str| text.parse().expect("an address");
    let workload = Workload::Name {
        name: "010-000-000-001.dns64perf.test".to_owned(),
        qtype: "A".to_owned(),
        expect: Expect::Answered,
        query: Query::plain(false),
    };
    let pacing = Pacing::Window { outstanding: 12 };
    let mut request = TrialRequest::new(address(target), workload, pacing);
    request.also = also.iter().copied().map(address).collect();
    (request.duration, request.timeout) = (Nanos::from_millis(300), Nanos::from_millis(100));
    request
}

#[test]
fn a_slow_and_a_dead_server_take_nothing_from_the_others() {
    let fast = kit::AuthDns::start(&[]);
    let slow = kit::AuthDns::start(&["--delay", "20ms"]);
    // A port that nobody listens on: bound, so that nobody else gets it, and never read.
    let dead = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let dead = dead.local_addr().expect("an address").to_string();
    let mut request = request(fast.plain(), &[slow.plain(), &dead]);
    // Longer than the machine may stand still.
    request.duration = Nanos::from_secs(2);
    let result = measure(&request).unwrap_or_else(|e| panic!("{e}"));
    let targets = &result.trial.targets;
    let names: Vec<&str> = targets.iter().map(|one| one.target.as_str()).collect();
    assert_eq!(names, [fast.plain(), slow.plain(), &dead]);
    let sum: u64 = targets.iter().map(|one| one.valid).sum();
    assert_eq!((sum, targets[2].valid), (result.trial.valid, 0));
    assert_eq!(targets.iter().map(|one| one.sent).sum::<u64>(), result.trial.sent);
    assert!(targets[2].bad > 0, "{targets:?}");
    // Four queries at a time, each 20 ms: 400 in 2 s, and the last four.
    assert!((1..=410).contains(&targets[1].valid), "{targets:?}");
    assert!(targets[0].valid > 2 * targets[1].valid, "{targets:?}");
}

#[test]
fn a_rate_is_shared_by_all_servers_and_so_is_a_slice_of_it() {
    let servers = [kit::AuthDns::start(&[]), kit::AuthDns::start(&[])];
    let mut request = request(servers[0].plain(), &[servers[1].plain()]);
    request.pacing = Pacing::Constant { rate: Qps::new(2_000.0).expect("a rate") };
    request.timeout = Nanos::from_secs(5);
    let mut sent = 0;
    for slice in ["1/1", "2/2"] {
        request.slice = slice.parse().expect("a slice");
        let trial = measure(&request).unwrap_or_else(|e| panic!("{e}")).trial;
        assert_eq!(
            (trial.valid, trial.sent, trial.targets.len()),
            (trial.planned, trial.planned, 0)
        );
        sent += trial.sent;
    }
    let asked = servers.map(|server| {
        let told = server.end();
        let line = told.lines().find(|line| line.contains(" queries: ")).expect("its counters");
        line.split(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    });
    // A burst of due queries goes to one of them, so that they are not exactly even.
    assert!(asked.iter().all(|asked| *asked > sent / 4), "{asked:?} of {sent}");
    assert_eq!(asked.iter().sum::<u64>(), sent);
}

#[test]
fn what_has_no_loop_for_each_server_is_refused() {
    let two = || request("127.0.0.1:5", &["127.0.0.1:6"]);
    let mut lanes = two();
    lanes.pacing = Pacing::LockStep { threads: 4, experiments: 1, anew: false };
    let mut slice = two();
    slice.slice = "1/2".parse().expect("a slice");
    let mut narrow = two();
    narrow.pacing = Pacing::Window { outstanding: 1 };
    let table = [
        (lanes, "`also`: several servers require UDP, and a window or a rate"),
        (slice, "a slice of a closed loop needs one server"),
        (narrow, "`also`: a window of 1 is too small for 2 servers: raise it"),
        (
            request("127.0.0.1:5", &["[::1]:53"]),
            "`also`: [::1]:53 and the target 127.0.0.1:5 are of different families",
        ),
    ];
    for (request, why) in table {
        let error = measure(&request).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}
