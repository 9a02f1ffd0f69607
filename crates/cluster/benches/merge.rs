//! What the conductor does at the end of a trial: it reads the parts of 2 to 64 Testers and merges them; their sizes are printed
//! first.
//!
//! `cargo bench -p cluster`; `cargo test` runs it once. The part is recorded: a second of a load of this host's Measurer against
//! the AuthDNS in the same process.

use std::sync::{Arc, LazyLock};

use auth::AuthConfig;
use cluster::message::{Order, Report, ToConductor, ToTester};
use divan::{AllocProfiler, Bencher};
use load::Live;
use measure::{Nanos, Pacing, Qps, Slice, StartAt};
use record::request::{Names, NamespaceExpect, Query, Sockets, Workload};
use record::{AgreedStart, MergeTerms, Part, Trial, TrialRequest};
use tester::{AuthListen, AuthServer, Setup, udp_options};

#[global_allocator]
static MEMORY: AllocProfiler = AllocProfiler::system();

/// Rate of the recorded load, in queries a second.
const RATE: f64 = 20_000.0;

/// The recorded part and its request.
static RECORDED: LazyLock<(Trial, TrialRequest)> = LazyLock::new(record_part);

fn main() {
    let (trial, request) = &*RECORDED;
    let (part, request) = (Box::new(trial.clone()), Box::new(request.clone()));
    let size = |message: ToConductor| message.encode().len();
    println!("octets of a message of a Tester or for it, and how often:");
    println!(
        "{:>8}  part, once a trial",
        size(ToConductor::Report(Report::Done { trial: 1, part }))
    );
    let counters = [1 << 20; 5];
    println!(
        "{:>8}  counters, twice a second",
        size(ToConductor::Report(Report::Beat { counters }))
    );
    println!("{:>8}  pong, 80 a trial", size(ToConductor::Pong { number: 1, at: Nanos(1) }));
    let order = Order::Prepare { trial: 1, request, command: "dnsdyno load ...".to_owned() };
    println!("{:>8}  request, once a trial", ToTester::Order(order).encode().len());
    divan::main();
}

/// Runs a load of a second.
fn record_part() -> (Trial, TrialRequest) {
    let names = wire::Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let listen = AuthListen {
        plain: vec!["127.0.0.1:0".parse().expect("an address")],
        encrypted: Vec::new(),
        cpus: Vec::new(),
        wait: engine::WaitMode::Sleep,
        udp: udp_options(&Sockets::default()),
        stream_fault: None,
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
    let trial = setup.run(&Arc::new(Live::default()), &Arc::default()).expect("runs").trial;
    (trial, request)
}

/// Makes the messages with the parts of `count` Testers.
fn messages(count: u32) -> Vec<Vec<u8>> {
    let message = |number: u32| {
        let mut part = Box::new(RECORDED.0.clone());
        part.conditions.slice = Slice::new(number, count).expect("a slice");
        let at = StartAt::of_unix(Nanos::from_secs(1_795_408_200));
        part.conditions.agreed_start =
            Some(AgreedStart { at, error_us: 1.0, clock_error_us: Some(20.0) });
        ToConductor::Report(Report::Done { trial: 1, part }).encode()
    };
    (1..=count).map(message).collect()
}

/// Reads the parts and merges them.
#[divan::bench(args = [2, 8, 64])]
fn read_and_merge(bencher: Bencher, count: u32) {
    let messages = messages(count);
    bencher.bench_local(|| {
        let parts = messages.iter().map(|message| match ToConductor::decode(message) {
            Ok(ToConductor::Report(Report::Done { part, .. })) => {
                Part { name: String::new(), trial: *part, clock: None }
            }
            other => panic!("{other:?}"),
        });
        let merged = record::merge(parts.collect(), &MergeTerms::default(), "1", "load");
        merged.expect("parts of one load").sent
    });
}
