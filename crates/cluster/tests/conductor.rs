//! A conductor and its Testers as threads: the Testers are real, and query an AuthDNS on this host.

#[path = "../../cli/tests/kit/cases.rs"]
mod cases;

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use auth::AuthConfig;
use cases::{at_a_time, cases};
use cluster::memory::{MemoryLink, links};
use cluster::{Conductor, Limits, Link, TesterRank};
use lab::Refusal;
use lab::message::{Order, Reply, decode, encode};
use load::Live;
use measure::{Nanos, Pacing, Void};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use record::request::{Names, NamespaceExpect, Query, Sockets, Workload};
use record::{Trial, TrialRequest, TrialResult};
use tester::{AuthListen, AuthServer, ConnectionPlan, udp_options};

/// The case that takes longest comes first, so that none is left alone at the end.
#[test]
fn a_conductor_and_its_testers_do_as_they_should() {
    at_a_time(
        9,
        &cases![
            a_tester_that_is_lost_in_a_trial_makes_it_void,
            a_tester_that_is_lost_before_the_start_is_named,
            a_trial_goes_on_without_a_tester_that_cannot_prepare_it,
            three_testers_are_one,
            a_trial_after_which_a_clock_is_not_told_is_void,
            lanes_of_each_tester_have_names_of_their_own,
            a_request_that_a_tester_refuses_is_bad_input,
            an_interrupt_ends_all_testers_and_keeps_what_there_is,
            a_trial_is_prepared_after_the_one_before_it_has_ended,
            a_tester_without_a_conductor_ends_by_itself,
        ],
    );
}

/// What keeps a Tester from its work; from where it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// It says nothing at all.
    Absent,
    /// It is of another version.
    Version,
    /// Its clock is a second ahead.
    Clock,
    /// It says nothing after the start.
    Hangs,
    /// It runs, and never reports its part.
    Slow,
    /// It reports what is no report.
    Strange,
    /// It cannot prepare a trial.
    Unprepared,
    /// It does not tell its clock after a trial.
    Mute,
}

/// A link with a fault.
struct Faulty {
    link: MemoryLink,
    fault: Fault,
    started: bool,
    done: bool,
}

impl Link for Faulty {
    fn rank(&self) -> usize {
        self.link.rank()
    }

    fn size(&self) -> usize {
        self.link.size()
    }

    fn send(&mut self, to: usize, message: &[u8]) {
        let decoded = decode(message).expect("a message");
        self.done |= matches!(decoded, Reply::Done { .. });
        let message = match (self.fault, decoded) {
            (Fault::Absent, _) => return,
            (Fault::Hangs, _) if self.started => return,
            (Fault::Slow, Reply::Done { .. }) => return,
            (Fault::Strange, Reply::Prepared { .. }) => b"{}".to_vec(),
            (Fault::Mute, Reply::Clock { .. }) if self.done => return,
            (Fault::Unprepared, Reply::Prepared { trial }) => {
                let why = "no such file".to_owned();
                encode(&Reply::Failed { trial, why: Refusal::Cannot(why) })
            }
            (Fault::Clock, Reply::Clock { number, now_ns }) => {
                encode(&Reply::Clock { number, now_ns: now_ns + 1_000_000_000 })
            }
            _ => message.to_vec(),
        };
        self.link.send(to, &message);
    }

    fn poll(&mut self) -> Option<(usize, Vec<u8>)> {
        let (from, message) = self.link.poll()?;
        let order = decode(&message).expect("a message");
        self.started |= matches!(order, Order::StartTrial { .. });
        Some((from, message))
    }
}

/// A job of a conductor and Testers with faults, against an AuthDNS.
struct Job {
    conductor: Conductor<MemoryLink>,
    testers: Vec<JoinHandle<()>>,
    server: SocketAddr,
    _auth: AuthServer,
}

impl Job {
    fn start(faults: &[Fault], least: Option<usize>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let zone = "dns64perf.test".parse().expect("a name");
        let namespace = wire::Namespace::new("10.0.0.0/8".parse().expect("a prefix"), zone);
        let listen = AuthListen {
            plain: vec!["127.0.0.1:0".parse().expect("an address")],
            encrypted: Vec::new(),
            cpus: Vec::new(),
            wait: engine::WaitMode::Sleep,
            udp: udp_options(&Sockets::default()),
            connections: ConnectionPlan::default(),
        };
        let config = AuthConfig::new(namespace.expect("a namespace"));
        let auth = AuthServer::start(&config, &listen, stop).expect("starts");
        let server = auth.addresses()[0];
        let mut all = links(faults.len() + 1).into_iter();
        let own = all.next().expect("the conductor's");
        let start = |(link, fault): (MemoryLink, &Fault)| {
            let version = if *fault == Fault::Version { "0" } else { "1" };
            let host = format!("{fault:?}");
            let link = Faulty { link, fault: *fault, started: false, done: false };
            std::thread::spawn(move || {
                TesterRank::new(link, version, &host, Arc::default()).serve();
            })
        };
        let testers = all.zip(faults).map(start).collect();
        let limits = Limits {
            hello: Duration::from_secs(8),
            silence: Duration::from_secs(12),
            reserve: Duration::from_secs(12),
            stopping: Duration::from_secs(20),
            least,
            ..Limits::default()
        };
        let conductor = Conductor::gather(own, "1", "cluster load", limits);
        Job { conductor, testers, server, _auth: auth }
    }

    /// A load of 3,000 queries a second for a second.
    fn request(&self) -> TrialRequest {
        request(self.server, Workload::Namespace(names()))
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<Trial, Refusal> {
        let (live, stop) = (Live::default(), AtomicBool::new(false));
        let trial = self.conductor.trial(request, &live, &stop).map(TrialResult::with_verdict);
        if let Ok(trial) = &trial {
            assert!(live.sent.load(Ordering::Relaxed) <= trial.sent.max(3_000));
        }
        trial
    }

    /// Ends the job; all Testers leave.
    fn end(self) {
        self.conductor.end();
        self.testers.into_iter().for_each(|tester| tester.join().expect("leaves"));
    }
}

/// The names of a load.
fn names() -> Names {
    let prefix = "10.0.0.0/8".parse().expect("a prefix");
    let pref64 = "64:ff9b::/96".parse().expect("a prefix");
    Names {
        qtype: "A".to_owned(),
        expect: NamespaceExpect::Address,
        query: Query::plain(false),
        ..Names::embedded(prefix, "dns64perf.test".to_owned(), pref64)
    }
}

/// A load of 3,000 queries a second for a second.
fn request(server: SocketAddr, workload: Workload) -> TrialRequest {
    let rate = measure::Qps::new(3_000.0).expect("a rate");
    TrialRequest::new(server, workload, Pacing::Constant { rate })
}

fn three_testers_are_one() {
    let mut job = Job::start(&[Fault::None; 3], None);
    let mut request = job.request();
    request.goal = Some("loss < 50%".parse().expect("a goal"));
    for number in 1..=2 {
        let trial = job.trial(&request).expect("a trial");
        // Each name once, as one Tester sends them; on a busy machine late, but all of them.
        assert_eq!((trial.planned, trial.sent), (3_000, 3_000), "trial {number}");
        assert_eq!(trial.goal.as_deref(), Some("loss < 50%"));
        let merged = trial.merged.expect("its parts");
        assert!(merged.parts.iter().all(|part| part.sent == 1_000), "{merged:?}");
        for part in &merged.parts {
            let (clock, error) = (part.clock.expect("compared"), part.clock_error_us);
            // The clock is the same: it is found right within the error that is stated.
            assert!(clock.offset_us.abs() <= clock.offset_error_us + 0.01, "{clock:?}");
            assert!(error.is_some_and(|error| error >= clock.offset_error_us), "{part:?}");
            assert!(part.command.contains("--slice"), "{}", part.command);
        }
        let errors = merged.parts.iter().filter_map(|part| part.clock_error_us);
        assert!(merged.start_spread_us >= errors.fold(0.0, f64::max), "{merged:?}");
        assert_eq!(trial.conditions.command, "cluster load");
    }
    job.end();
}

/// Checks the rows at the same time: most of each is a wait for a time limit.
fn all_at_once<R: Sync>(rows: &[R], check: impl Fn(&R) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        for row in rows {
            scope.spawn(move || check(row));
        }
    });
}

fn a_tester_that_is_lost_before_the_start_is_named() {
    let faults: [(Fault, &[&str]); 4] = [
        (Fault::Absent, &["rank 2: it sent no message within 8s"]),
        (
            Fault::Version,
            &["rank 2 (host Version, process ", "the Tester has version 0, the conductor 1"],
        ),
        (Fault::Clock, &["its clock is ", "ahead of the conductor's, the bound is 10ms"]),
        (Fault::Strange, &["rank 2 (host Strange, process ", "not a message of this program"]),
    ];
    let rows = faults.map(|(fault, wanted)| [(fault, Some(wanted)), (fault, None)]);
    all_at_once(rows.as_flattened(), |(fault, wanted)| {
        if let Some(wanted) = wanted {
            let mut job = Job::start(&[Fault::None, *fault], None);
            let error = job.trial(&job.request()).expect_err("all are needed");
            let Refusal::Failed(why) = error else { panic!("{error:?}") };
            let names = wanted.iter().all(|part| why.contains(part));
            assert!(why.starts_with("1 of 2 required Testers are left") && names, "{why}");
            return job.end();
        }
        // Where one is enough, it sends the whole.
        let mut job = Job::start(&[Fault::None, *fault], Some(1));
        let trial = job.trial(&job.request()).expect("a trial");
        assert_eq!(trial.sent, 3_000, "{fault:?}");
        assert_eq!(trial.merged.map(|merged| merged.parts.len()), Some(1));
        job.end();
    });
}

fn a_tester_that_is_lost_in_a_trial_makes_it_void() {
    let rows = [
        (Fault::Hangs, "no message within 12s: it died or hangs"),
        (Fault::Slow, "it did not end its trial within"),
    ];
    all_at_once(&rows, |(fault, wanted)| {
        let mut job = Job::start(&[Fault::None, *fault], Some(1));
        let trial = job.trial(&job.request()).expect("a trial");
        let Some(Void::Part { part, why }) = &trial.void.0 else { panic!("{:?}", trial.void) };
        assert!(part.starts_with(&format!("2/2 (rank 2 (host {fault:?}, ")), "{part}");
        assert!(why.to_string().contains(wanted), "{why}");
        assert!(trial.sent > 0 && trial.sent <= 1_500, "{}", trial.sent);
        // The next trial is of those that are left.
        let trial = job.trial(&job.request()).expect("a trial");
        assert_eq!(trial.sent, 3_000, "{fault:?}");
        assert_eq!(trial.merged.map(|merged| merged.parts.len()), Some(1));
        job.end();
    });
}

fn a_trial_goes_on_without_a_tester_that_cannot_prepare_it() {
    let mut job = Job::start(&[Fault::None, Fault::Unprepared], None);
    let error = job.trial(&job.request()).expect_err("all are needed");
    let Refusal::Cannot(why) = error else { panic!("{error:?}") };
    assert!(why.starts_with("rank 2 ") && why.ends_with("no such file"), "{why}");
    job.end();
    let mut job = Job::start(&[Fault::None, Fault::Unprepared], Some(1));
    let trial = job.trial(&job.request()).expect("a trial");
    assert_eq!(trial.sent, 3_000);
    assert_eq!(trial.merged.map(|merged| merged.parts.len()), Some(1));
    job.end();
    // What none of them can prepare is no fault of theirs.
    let mut job = Job::start(&[Fault::Unprepared; 2], Some(1));
    for _ in 0..2 {
        let error = job.trial(&job.request()).expect_err("nobody can");
        let Refusal::Cannot(why) = error else { panic!("{error:?}") };
        assert!(why.ends_with("no such file"), "{why}");
    }
    job.end();
}

fn a_trial_after_which_a_clock_is_not_told_is_void() {
    let mut job = Job::start(&[Fault::None, Fault::Mute], Some(1));
    let trial = job.trial(&job.request()).expect("a trial");
    let Some(Void::Part { part, why }) = &trial.void.0 else { panic!("{:?}", trial.void) };
    assert!(part.starts_with("2/2 (rank 2 (host Mute, "), "{part}");
    assert!(why.to_string().contains("after the trial: it did not return a ping"), "{why}");
    job.end();
}

fn lanes_of_each_tester_have_names_of_their_own() {
    let mut job = Job::start(&[Fault::None; 3], None);
    for anew in [false, true] {
        let pacing = Pacing::LockStep { threads: 4, experiments: 5, anew };
        let trial = job.trial(&TrialRequest { pacing, ..job.request() }).expect("a trial");
        assert_eq!((trial.sent, trial.valid), (3 * 5 * 256, 3 * 5 * 256), "{:?}", trial.void);
        assert_eq!(trial.experiment_times_ms.len(), 3 * 5);
        let parts = trial.merged.expect("of parts").parts;
        assert!(parts.iter().all(|part| part.sent == 5 * 256), "{parts:?}");
    }
    job.end();
}

fn a_request_that_a_tester_refuses_is_bad_input() {
    let mut job = Job::start(&[Fault::None; 2], None);
    let pacing = Pacing::LockStep { threads: 257, experiments: 1, anew: false };
    let locked = TrialRequest { pacing, ..job.request() };
    let error = job.trial(&locked).expect_err("too many threads");
    let Refusal::Cannot(why) = error else { panic!("{error:?}") };
    assert!(why.contains("rank ") && why.contains("take 1 to 256"), "{why}");
    // What no message can hold is refused before any of them gets it.
    let capture = OsStr::from_bytes(b"no\xffwhere.pcap").into();
    let replay = Workload::Replay { capture, speed: 1.0, ports: vec![53], loops: 1 };
    let error = job.trial(&request(job.server, replay)).expect_err("not UTF-8");
    let Refusal::Cannot(why) = error else { panic!("{error:?}") };
    assert!(why.contains("UTF-8"), "{why}");
    // They are there for the next one.
    assert_eq!(job.trial(&job.request()).expect("a trial").sent, 3_000);
    job.end();
}

/// Waits for the next report, a sign of life only if `beats`.
fn report(own: &mut MemoryLink, beats: bool) -> Reply {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let Some((_, message)) = own.poll() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        match decode(&message).expect("a message") {
            Reply::Ready(_) => {}
            Reply::Counters { .. } if !beats => {}
            report => return report,
        }
    }
    panic!("the Tester reported nothing");
}

fn a_trial_is_prepared_after_the_one_before_it_has_ended() {
    let dir = tempfile::tempdir().expect("a folder");
    let capture = dir.path().join("capture");
    mkfifo(&capture, Mode::S_IRWXU).expect("a FIFO");
    let mut all = links(2);
    let (link, mut own) = (all.pop().expect("of rank 1"), all.pop().expect("of rank 0"));
    let tester = TesterRank::new(link, "1", "here", Arc::default());
    let tester = std::thread::spawn(move || drop(tester.serve()));
    let target = "127.0.0.1:9".parse().expect("an address");
    // The first one reads a FIFO that nobody writes to yet.
    let replay =
        Workload::Replay { capture: capture.clone(), speed: 1.0, ports: vec![53], loops: 1 };
    for (trial, workload) in [(1, replay), (2, Workload::Namespace(names()))] {
        let request = Box::new(request(target, workload));
        let order = Order::Prepare { trial, request, command: String::new() };
        own.send(1, &encode(&order));
    }
    for _ in 0..2 {
        let report = report(&mut own, true);
        assert!(matches!(report, Reply::Counters { .. }), "{report:?}");
    }
    std::fs::write(&capture, "no capture").expect("writes");
    assert_eq!(report(&mut own, false), Reply::Prepared { trial: 2 });
    own.send(1, &encode(&Order::Leave));
    tester.join().expect("leaves");
}

fn an_interrupt_ends_all_testers_and_keeps_what_there_is() {
    let mut job = Job::start(&[Fault::None; 2], None);
    let request = TrialRequest { duration: Nanos::from_secs(300), ..job.request() };
    let (stop, live) = (Arc::new(AtomicBool::new(false)), Arc::new(Live::default()));
    let (flag, seen) = (stop.clone(), live.clone());
    let began = Instant::now();
    let thread = std::thread::spawn(move || {
        // The conductor is told what the Testers sent so far.
        while seen.sent.load(Ordering::Relaxed) == 0 && began.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(50));
        }
        flag.store(true, Ordering::Relaxed);
    });
    let trial = job.conductor.trial(&request, &live, &stop).expect("a trial").with_verdict();
    assert!(began.elapsed() < Duration::from_secs(200));
    assert!(trial.void.is_void() && trial.sent > 0 && trial.sent < 300_000, "{}", trial.sent);
    thread.join().expect("ends");
    job.end();
}

fn a_tester_without_a_conductor_ends_by_itself() {
    let mut all = links(2);
    let link = all.pop().expect("of rank 1");
    // Nobody orders anything.
    let tester = TesterRank::new(link, "1", "here", Arc::default());
    tester.with_patience(Duration::from_millis(300)).serve();
    // A signal ends another one, which says so.
    let mut all = links(2);
    let (link, mut own) = (all.pop().expect("of rank 1"), all.pop().expect("of rank 0"));
    TesterRank::new(link, "1", "here", Arc::new(AtomicBool::new(true))).serve();
    let reports: Vec<_> = std::iter::from_fn(|| own.poll())
        .filter_map(|(_, message)| decode::<Reply>(&message).ok())
        .collect();
    assert!(reports.contains(&Reply::Leaving), "{reports:?}");
}
