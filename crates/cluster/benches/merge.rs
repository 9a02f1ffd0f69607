//! What a conductor does for 2 to 64 Testers: a trial with all of them, and of that the end, when it reads the parts and merges them.
//! The sizes of the messages are printed first.
//!
//! `cargo bench -p cluster`; `cargo test` runs it once. The part is recorded: a second of a load of this host's Measurer against
//! the AuthDNS in the same process. The Testers of a trial are one thread, which reports that part for each of them at once.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use auth::AuthConfig;
use cluster::memory::{MemoryLink, links};
use cluster::{Conductor, Limits, Link};
use divan::{AllocProfiler, Bencher};
use lab::message::{Greeting, Order, Reply, decode, encode};
use load::Live;
use measure::{Nanos, Pacing, Qps, Slice, StartAt};
use record::request::{Names, NamespaceExpect, Query, Sockets, Workload};
use record::{AgreedStart, MergeTerms, Part, TrialRequest, TrialResult};
use tester::{AuthListen, AuthServer, ConnectionPlan, Setup, udp_options};

#[global_allocator]
static MEMORY: AllocProfiler = AllocProfiler::system();

/// Rate of the recorded load, in queries a second.
const RATE: f64 = 20_000.0;

/// The result of the recorded part and its request.
static RECORDED: LazyLock<(TrialResult, TrialRequest)> = LazyLock::new(record_part);

fn main() {
    let (result, request) = &*RECORDED;
    let (result, request) = (Box::new(result.clone()), Box::new(request.clone()));
    let size = |reply: Reply| encode(&reply).len();
    println!("octets of a message of a Tester or for it, and how often:");
    println!("{:>8}  part, once a trial", size(Reply::Done { trial: 1, result }));
    let (counters, testers) = ([1 << 20; 5], Vec::new());
    println!("{:>8}  counters, twice a second", size(Reply::Counters { counters, testers }));
    println!("{:>8}  time, 80 a trial", size(Reply::Clock { number: 1, now_ns: u64::MAX }));
    let order = Order::Prepare { trial: 1, request, command: "dnsdyno load ...".to_owned() };
    println!("{:>8}  request, once a trial", encode(&order).len());
    divan::main();
}

/// Runs a load of a second.
fn record_part() -> (TrialResult, TrialRequest) {
    let names = wire::Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let listen = AuthListen {
        plain: vec!["127.0.0.1:0".parse().expect("an address")],
        encrypted: Vec::new(),
        cpus: Vec::new(),
        wait: engine::WaitMode::Sleep,
        udp: udp_options(&Sockets::default()),
        connections: ConnectionPlan::default(),
    };
    let server = AuthServer::start(&AuthConfig::new(names), &listen, Arc::default());
    let target = server.expect("starts").addresses()[0];
    let pref64 = "64:ff9b::/96".parse().expect("a prefix");
    let names = Names {
        qtype: "A".to_owned(),
        expect: NamespaceExpect::Address,
        query: Query::plain(false),
        ..Names::embedded("10.0.0.0/8".parse().expect("a prefix"), "dns64perf.test".into(), pref64)
    };
    let pacing = Pacing::Constant { rate: Qps::new(RATE).expect("a rate") };
    let request = TrialRequest::new(target, Workload::Namespace(names), pacing);
    let setup = Setup::new(request.clone(), "dnsdyno load ...".to_owned()).expect("valid");
    (setup.run(&Arc::new(Live::default()), &Arc::default()).expect("runs"), request)
}

/// Makes the message with the part of a slice, for the first trial.
fn done(slice: Slice) -> Vec<u8> {
    let mut result = Box::new(RECORDED.0.clone());
    let conditions = &mut result.trial.conditions;
    conditions.slice = slice;
    let at = StartAt::of_unix(Nanos::from_secs(1_795_408_200));
    conditions.agreed_start = Some(AgreedStart { at, error_us: 1.0, clock_error_us: Some(20.0) });
    encode(&Reply::Done { trial: 1, result })
}

/// Makes the messages with the parts of `count` Testers.
fn messages(count: u32) -> Vec<Vec<u8>> {
    let slices = (1..=count).filter_map(|number| Slice::new(number, count));
    slices.map(done).collect()
}

/// Plays all Testers until each of them is told to leave.
fn play(mut testers: Vec<MemoryLink>) {
    for link in &mut testers {
        let greeting = Greeting { version: "1".to_owned(), ..Greeting::default() };
        link.send(0, &encode(&Reply::Ready(Box::new(greeting))));
    }
    // The part of each Tester is made once: that of another trial has another number.
    let mut parts = vec![String::new(); testers.len()];
    let mut staying = testers.len();
    while staying > 0 {
        for (link, part) in testers.iter_mut().zip(&mut parts) {
            let Some((_, message)) = link.poll() else { continue };
            let reply = match decode(&message).expect("an order") {
                Order::Clock { number } => {
                    encode(&Reply::Clock { number, now_ns: engine::clock::realtime().0 })
                }
                Order::Prepare { trial, request, .. } => {
                    if part.is_empty() {
                        *part = String::from_utf8(done(request.slice)).expect("JSON");
                    }
                    encode(&Reply::Prepared { trial })
                }
                Order::StartTrial { trial, .. } => {
                    part.replacen("\"trial\":1,", &format!("\"trial\":{trial},"), 1).into_bytes()
                }
                Order::Leave => {
                    staying -= 1;
                    continue;
                }
                _ => continue,
            };
            link.send(0, &reply);
        }
        std::thread::yield_now();
    }
}

/// Runs a trial with `count` Testers, from the slices to the merged record.
#[divan::bench(args = [2, 8, 64])]
fn conduct(bencher: Bencher, count: usize) {
    let mut own = links(count + 1);
    let testers = own.split_off(1);
    let testers = std::thread::spawn(move || play(testers));
    let limits = Limits { lead: Duration::ZERO, ..Limits::default() };
    let own = own.pop().expect("the conductor's link");
    let mut conductor = Conductor::gather(own, "1", "load", limits);
    let (live, stop) = (Live::default(), AtomicBool::new(false));
    let mut trial = || {
        let trial = conductor.trial(&RECORDED.1, &live, &stop).expect("a trial").with_verdict();
        trial.merged.expect("its parts").parts.len()
    };
    // All parts are made in this one.
    assert_eq!(trial(), count);
    bencher.bench_local(trial);
    conductor.end();
    testers.join().expect("all leave");
}

/// Reads the parts and merges them.
#[divan::bench(args = [2, 8, 64])]
fn read_and_merge(bencher: Bencher, count: u32) {
    let messages = messages(count);
    bencher.bench_local(|| {
        let parts = messages.iter().map(|message| match decode(message) {
            Ok(Reply::Done { result, .. }) => {
                Part { name: String::new(), trial: result.with_verdict(), clock: None }
            }
            other => panic!("{other:?}"),
        });
        let merged = record::merge(parts.collect(), &MergeTerms::default(), "1", "load");
        merged.expect("parts of one load").with_verdict().sent
    });
}
