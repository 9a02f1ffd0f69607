//! `dnsdyno search`: the capacities of servers by rounds of closed loops, or the highest rate at which a goal is met.

mod args;
mod capacity;
mod over;
mod progress;
mod servers;

use std::time::Instant;

use experiment::capacity::{answered, try_windows};
use experiment::search::RESOLUTION;
use experiment::settings::CapacitySettings;
use experiment::{
    BenchError, Circumstances, Joined, Method, NameBudget, OneHost, Progress, Repeats, RuleName,
    Search, conformance,
};
use measure::{Goal, Nanos, OpenPacing, Qps, Transport};
use record::request::{Engine, Gso, Workload};
use record::{
    CellRecord, Certificate, CertificateFile, Plan, Run, SCHEMA, Tested, TrialRecord, TrialRequest,
};
use report::view::thousands;
use tester::unix_now;

pub(crate) use self::args::{EXAMPLES, SearchArgs};
pub(crate) use self::over::{Axis, Varied};
use self::progress::SearchProgress;
use self::servers::{Server, Servers};
use crate::arguments::address::{Family, on_link};
use crate::arguments::certificate::{shortened, tested};
use crate::arguments::gate::GateArgs;
use crate::arguments::json;
use crate::arguments::transport::StreamArgs;
use crate::bench::OwnBench;
use crate::failure::Failure;
use crate::output;
use crate::preflight;
use crate::process::command_line;
use crate::process::interruption;
use crate::testers::{Testers, of_job};

/// Duration of a trial of a search, and number of searches.
const DURATION: Nanos = Nanos::from_secs(10);
const REPEATS: u32 = 5;

/// Makes the rounds or runs the search; on several Testers if there are any.
pub(crate) fn run(args: SearchArgs, testers: Option<&mut dyn Testers>) -> Result<(), Failure> {
    args.quiet.apply();
    let shortened = shortened()?;
    let method = args.method().map_err(Failure::BadInput)?;
    let (mut search, repeats) = plan(&args)?;
    args.sockets.check().map_err(Failure::BadInput)?;
    let requests = requests(&args, &search)?;
    let varied = varied(&args, &requests[0])?;
    let setups =
        requests.into_iter().map(|request| Ok(args.engine.setup(request)?.with_whole_input()?));
    let setups = setups.collect::<Result<Vec<_>, Failure>>()?;
    let named = args.names(&setups).map_err(Failure::BadInput)?;
    let names: Vec<&str> = named.iter().map(String::as_str).collect();
    args.gate.check(method, &names).map_err(Failure::BadInput)?;
    let (request, local) = (setups[0].request().clone(), setups[0].target_is_local());
    let tested = tested(&request, local);
    let certificate = certificate(&args, &tested, &mut search, &varied)?;
    output::try_writing([&args.json])?;
    args.keep.try_writing()?;
    let mut job = args.hosts.start(testers.is_some())?;
    let mut testers = of_job(testers, &mut job);
    let stop = interruption()?;
    let goals = std::iter::once(&search.goal).chain(&args.also).filter(|_| method.searches());
    goals.for_each(|goal| output::print_goal_note(Some(goal)));
    let mut ask = |setup| args.check.ask(setup, testers.as_deref_mut(), &stop);
    let asked = setups.iter().try_for_each(&mut ask);
    asked.map_err(|failure| args.workload.with_default(failure))?;
    let all = setups.into_iter().zip(&named).map(|(setup, name)| {
        let names = budget(&args, setup.names());
        Server::new(OwnBench::new(setup, varied, stop.clone()), names, name, method)
    });
    let mut servers = Servers { all: all.collect(), testers, shortened };
    let (began, started) = (Instant::now(), unix_now());
    let self_test = certificate.as_ref().and_then(|file| file.self_test.clone());
    let plan = Plan { fail_if: args.gate.fail_if.clone(), ..plan_from(started, certificate) };
    let mut keeping = args.keep.begin(&plan)?;
    let mut keep = |cell: &CellRecord, record: &TrialRecord| keeping.trial(cell, record, &stop);
    let measured = if method == Method::Capacity {
        capacity::measure(&args, &mut servers, &mut keep)
    } else {
        let circumstances = circumstances(&request, local, shortened);
        let repeats = Repeats { search, repeats, circumstances };
        searches(&args, &repeats, self_test, &mut servers, &mut keep)
    };
    let mut run = Run {
        schema: SCHEMA,
        plan,
        elapsed_s: began.elapsed().as_secs_f64(),
        complete: measured.is_ok(),
        results: servers.all.into_iter().map(|server| server.cell).collect(),
        ..Run::default()
    };
    run.decide();
    let shown = json::show_run(args.json.as_deref(), &run, "");
    let written = shown.and(keeping.finish(&run.results, run.complete));
    let outcome = outcome(measured, run.results.iter().all(CellRecord::has_figure));
    Failure::with_verdict(written, outcome.and_then(|()| GateArgs::outcome(&run)))
}

/// Searches the only server: starting near the rate of closed loops, if a rate is searched and no
/// start is given.
fn searches(
    args: &SearchArgs,
    repeats: &Repeats,
    self_test: Option<Certificate>,
    servers: &mut Servers<'_>,
    keep: &mut dyn FnMut(&CellRecord, &TrialRecord),
) -> Result<(), BenchError> {
    // The highest rate of the search, which a certificate may lower, holds for the rounds too.
    let [_, _, usual_max] = args.over().usual();
    let is_bounded = args.start.is_some() || repeats.search.max.get() < usual_max;
    let windows = if is_bounded || args.over() != Axis::Rate {
        Vec::new()
    } else {
        let settings = CapacitySettings { timeout: args.timeout, ..CapacitySettings::default() };
        servers.on(0, |bench, names, _| try_windows(&settings, bench, names))?
    };
    let mut repeats = repeats.clone();
    if let Some(qps) = answered(&windows) {
        eprintln!("closed loops get {} qps: the search starts near that rate", thousands(qps));
        repeats.search = repeats.search.near(qps);
    }
    let mut progress = SearchProgress::new(&repeats.search, repeats.repeats, args.over());
    let (mut result, error) = servers.on(0, |bench, names, cell| {
        repeats.run(bench, &cell.server, names, self_test, &mut |step| {
            progress.print(&step);
            if let Progress::Trial(record) = step {
                keep(cell, record);
            }
        })
    });
    result.windows = windows;
    let server = &mut servers.all[0];
    label(&mut result, args, server.bench.setup.request());
    server.cell = result;
    error.map_or(Ok(()), Err)
}

/// Returns the names for the trials, of which there are `size`; `None` for query files and generated names, which have no end:
/// they may repeat names.
fn budget(args: &SearchArgs, size: Option<u64>) -> NameBudget {
    match size {
        None => NameBudget::new(u64::MAX, true),
        Some(size) if args.workload.reuse_names => NameBudget::repeating(size),
        // The last names are reserved for the query before the search.
        Some(size) if args.rfc8219 => {
            NameBudget::new(size.saturating_sub(preflight::FURTHER), false)
        }
        Some(size) => NameBudget::new(size, true),
    }
}

/// Returns the outcome of a search that ended with an error or not, and found a capacity or not.
fn outcome(measured: Result<(), BenchError>, found: bool) -> Result<(), Failure> {
    match measured {
        Err(BenchError::Names(e)) => Err(Failure::BadInput(e.into())),
        Err(e) => Err(Failure::run(e)),
        Ok(()) if !found => Err(Failure::Silent),
        Ok(()) => Ok(()),
    }
}

/// Returns the plan of a run that began at a time, with the certificate of its Tester.
fn plan_from(started_unix_s: f64, certificate: Option<CertificateFile>) -> Plan {
    Plan {
        experiment: "search".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("DNSDYNO_COMMIT").map(str::to_owned),
        command: command_line(),
        started_unix_s,
        certificate: certificate.map(|file| file.without_trials()),
        ..Plan::default()
    }
}

/// Returns the request that all trials of a server begin with, for each server.
fn requests(args: &SearchArgs, search: &Search) -> Result<Vec<TrialRequest>, Failure> {
    let mut workload = args.workload.request().map_err(Failure::BadInput)?;
    if let (Workload::Namespace(names), true) = (&mut workload, args.over() != Axis::Rate) {
        // The number of names of a trial does not follow from the searched number.
        names.reuse = true;
    }
    args.targets
        .iter()
        .map(|named| {
            let streams = streams(args, &args.streams.of_server(&named.target)?, search)?;
            let engine = args.engine.apply(streams.engine(false)?)?;
            args.sockets.check_engine(&engine)?;
            let target = named.target.target.resolve(streams.port(), Family::Any)?;
            let target = on_link(target, args.sockets.source)?;
            let pacing = search.pacing.at(search.start);
            Ok(TrialRequest {
                engine,
                duration: search.duration,
                timeout: search.timeout,
                goal: Some(search.goal.clone()),
                sockets: args.sockets.request(),
                seed: args.workload.seed,
                ..TrialRequest::new(target, workload.clone(), pacing)
            })
        })
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::BadInput)
}

/// Returns the connection settings of the first trial.
fn streams(args: &SearchArgs, given: &StreamArgs, search: &Search) -> anyhow::Result<StreamArgs> {
    let mut streams = given.clone();
    match args.over() {
        Axis::Rate => {}
        Axis::Clients if streams.clients.is_some() => anyhow::bail!(
            "--clients: a search over clients chooses their number; --start, --min and --max bound it"
        ),
        Axis::Clients => streams.clients = Some(search.start.get() as u32),
        Axis::Connections if streams.transport.is_datagram() && streams.transports.is_none() => {
            let wanted = Transport::words(|transport| !transport.is_datagram());
            anyhow::bail!("--over connections requires --transport {wanted}");
        }
        Axis::Connections => {
            streams.queries_per_connection = Some(streams.queries_per_connection.unwrap_or(1));
        }
    }
    Ok(streams)
}

/// Returns the circumstances of a search; its server is at an address of this host if it is `local`.
fn circumstances(request: &TrialRequest, local: bool, shortened: Option<Nanos>) -> Circumstances {
    let one_host = local.then(|| loopback(request));
    let over_ipv6 = request.target.is_ipv6();
    Circumstances { over_ipv6, one_host, shortened, ..Circumstances::default() }
}

/// Labels the record of a search with the searched quantity and the differences from RFC 8219.
fn label(result: &mut CellRecord, args: &SearchArgs, request: &TrialRequest) {
    args.over().label(result);
    result.differs.extend(differences(args, request));
    result.conforming = result.differs.is_empty();
}

/// Lists the differences of a search from RFC 8219 that follow from the searched quantity and the
/// transport.
fn differences(args: &SearchArgs, request: &TrialRequest) -> Vec<String> {
    let all = [
        (
            args.over() != Axis::Rate,
            format!("a search over {} instead of a rate", args.over().unit()),
        ),
        (args.pacing != OpenPacing::Constant, "Poisson arrivals instead of a constant rate".into()),
        (
            request.transports().iter().any(|part| !part.transport.is_datagram()),
            "transports other than UDP".into(),
        ),
    ];
    all.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect()
}

/// Returns the quantity that varies from trial to trial: the rate, the clients or the connections.
fn varied(args: &SearchArgs, request: &TrialRequest) -> Result<Varied, Failure> {
    if args.rate.or(args.rate_per_client).is_some() && args.over() != Axis::Clients {
        let why = "--rate and --rate-per-client set the rate of a search over clients; --start, --min and --max bound the other searches";
        return Err(Failure::input(anyhow::anyhow!(why)));
    }
    let queries = match &request.engine {
        Engine::Streams(connecting) => connecting.queries_per_connection.unwrap_or(1),
        Engine::Udp | Engine::Kernel(_) => 1,
    };
    let rate = args.rate.unwrap_or_else(|| "1k".parse().expect("a rate"));
    let each = args.rate_per_client;
    Ok(Varied { over: args.over(), pacing: args.pacing, rate, each, queries })
}

/// Returns the connection between the Tester and a server at an address of this host.
fn loopback(request: &TrialRequest) -> OneHost {
    let gso = request.sockets.gso == Gso::On;
    let path = crate::arguments::certificate::tested(request, true).path;
    let tcp = request.transports().iter().any(|part| part.transport.uses_tcp());
    OneHost { joined: Joined::Loopback, path, gso, gro: request.sockets.gro, tcp }
}

/// Returns the certificate of the Tester, if it has one, and limits a search to what it certifies.
fn certificate(
    args: &SearchArgs,
    tested: &Tested,
    search: &mut Search,
    varied: &Varied,
) -> Result<Option<CertificateFile>, Failure> {
    let certificate = args.certificate.read(tested)?;
    if let Some(file) = &certificate {
        stay_within(search, varied, file.certified(tested))?;
        args.certificate.warn_outside(file, tested, args.pacing.at(search.max));
    }
    Ok(certificate)
}

/// Limits a search to the rate that a certificate certifies.
fn stay_within(search: &mut Search, varied: &Varied, certified: Qps) -> Result<(), Failure> {
    let above = |what: &str, value: Qps, certified: Qps| {
        let why = format!("{what} {value} is above the certified {certified}");
        Failure::input(anyhow::anyhow!("{why}; lower it, or certify the Tester for more"))
    };
    let certified = match varied.over {
        Axis::Rate => certified,
        Axis::Connections => {
            Qps::new(certified.get() / varied.queries.max(1) as f64).unwrap_or_default()
        }
        Axis::Clients if varied.each.is_some() => {
            let each = varied.each.unwrap_or_default().get();
            Qps::new(certified.get() / each).unwrap_or_default()
        }
        Axis::Clients if varied.rate.get() > certified.get() => {
            return Err(above("--rate", varied.rate, certified));
        }
        // The number of clients does not change the rate.
        Axis::Clients => return Ok(()),
    };
    if search.min.get() > certified.get() {
        return Err(above("--min", search.min, certified));
    }
    if search.max.get() > certified.get() {
        let text = format!("searching up to {certified}: the Tester is certified for no more");
        eprintln!("{}", varied.over.words(&text));
        search.max = certified;
        search.start = if search.start.get() > certified.get() { certified } else { search.start };
    }
    Ok(())
}

/// Returns the search and its number of repeats.
fn plan(args: &SearchArgs) -> Result<(Search, u32), Failure> {
    let bad = |why: &str| Err(Failure::BadInput(anyhow::anyhow!("{why}")));
    let resolution = args.resolution.unwrap_or(0.02);
    if !RESOLUTION.contains(&resolution) {
        let (least, most) = (RESOLUTION.start(), RESOLUTION.end());
        return bad(&format!("--resolution is a share from {least} to {most}"));
    }
    if args.repeats == Some(0) {
        return bad("--repeats 0: at least one search must run");
    }
    let [start, min, max] = args.over().usual();
    let number = |given: Option<Qps>, usual| given.or(Qps::new(usual)).unwrap_or_default();
    let (min, max) = (number(args.min, min), number(args.max, max));
    // Given bounds override the default start.
    let start = args.start.or(Qps::new(start.clamp(min.get(), max.get().max(min.get()))));
    let start = start.unwrap_or_default();
    if min.get() > max.get() || start.get() > max.get() {
        return bad("--max is below --start or --min");
    }
    let duration = args.duration.unwrap_or(DURATION);
    if duration == Nanos::ZERO || args.timeout == Nanos::ZERO {
        return bad("--duration and --timeout must be longer than 0");
    }
    let (duration, timeout, repeats) = if args.rfc8219 {
        (conformance::DURATION, conformance::TIMEOUT, conformance::REPEATS)
    } else {
        (duration, args.timeout, args.repeats.unwrap_or(REPEATS))
    };
    let rule = match (args.rule, args.over()) {
        (Some(RuleName::Mlrsearch), Axis::Clients | Axis::Connections) => {
            return bad(
                "--rule mlrsearch searches rates only: over clients and connections use rfc8219",
            );
        }
        (Some(rule), _) => rule,
        (None, Axis::Rate) if !args.rfc8219 => RuleName::Mlrsearch,
        (None, _) => RuleName::Rfc8219,
    };
    let rule = rule.rule(&args.also, args.duration_sum, duration);
    let search = Search {
        rule: rule.map_err(|e| Failure::input(anyhow::anyhow!("--{}: {e}", e.setting)))?,
        goal: args.goal.clone().unwrap_or_else(Goal::zero_loss),
        start,
        expected: None,
        min,
        max,
        resolution,
        duration,
        timeout,
        client_names: None,
        pacing: args.pacing,
    };
    Ok((search, repeats))
}
