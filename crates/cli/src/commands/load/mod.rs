//! `dnsdyno load`: one trial, or several of the same load.

mod args;
mod dut;
mod lockstep;
mod pacing;
mod part;
mod replay;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use measure::{Nanos, Pacing, Transport, Void, Warning};
use record::request::{TrialSpec, Workload};
use record::{Run, Table, Trial, TrialRecord, TrialRequest, TrialResult};
use report::view::thousands;
use tester::{Setup, TesterError};

pub(crate) use self::args::{EXAMPLES, FORMAT, Format, LoadArgs, parse_percentile};
use self::dut::AgentWatch;
pub(crate) use self::replay::Speed;
use super::diff;
use crate::arguments::certificate::tested;
use crate::arguments::workload::WorkloadArgs;
use crate::bench::watch;
use crate::failure::Failure;
use crate::output::{self, print};
use crate::process::interruption;
use crate::progress;
use crate::testers::{Testers, of_job};

/// Runs the load; on several Testers if there are any.
pub(crate) fn run(mut args: LoadArgs, testers: Option<&mut dyn Testers>) -> Result<(), Failure> {
    args.quiet.apply();
    let conducted = testers.is_some();
    args.part.conducted = conducted || args.hosts.is_given();
    args.sockets.check().map_err(Failure::BadInput)?;
    if let Some(capture) = args.replay.compared()? {
        return diff::replay(&args, capture);
    }
    let request = args.request().map_err(Failure::BadInput)?;
    if let (Pacing::LockStep { .. }, true) = (request.pacing, request.slice.is_whole()) {
        return lockstep::run(&args, request, testers);
    }
    if args.times.is_some() {
        let why = "--times requires --pacing lockstep";
        return Err(Failure::BadInput(anyhow!(why)));
    }
    let setup = args.engine.setup(request)?;
    let trials = tested(setup.request(), setup.target_is_local());
    args.certificate.warn_load(&trials, setup.request().pacing)?;
    output::try_writing([&args.json])?;
    args.keep.try_writing()?;
    let mut job = args.hosts.start(conducted)?;
    let mut testers = of_job(testers, &mut job);
    let stop = interruption()?;
    output::print_goal_note(setup.request().goal.as_ref());
    let asked = args.check.ask(&setup, testers.as_deref_mut(), &stop);
    asked.map_err(|failure| args.workload.with_default(failure))?;
    warm_up(&args, &setup, &mut testers, &stop)?;
    let (trials, watched) = repeats(&args, &setup, testers, &stop)?;
    let run = record::of_repeats(trials.iter().cloned());
    let single = trials.first().filter(|_| args.repeats == 1);
    // Each of these is done even if another one fails.
    let json = args.json.as_deref();
    let written = json.map_or(Ok(()), |path| match single {
        Some(trial) => record::write(path, trial),
        None => record::write(path, &run),
    });
    let no_answer = trials.iter().find_map(report::no_answer);
    // Without any answer the reason is more useful than an empty table.
    let silent = no_answer.is_some() && args.format == Format::Table;
    match single {
        _ if json == Some(Path::new("-")) || silent => {}
        Some(trial) => {
            show(args.format, &args.quantiles, trial)?;
            let more = args.format == Format::Table && !output::is_quiet();
            let next = next(&args, trial).filter(|_| more);
            next.into_iter().for_each(|next| println!("{:<16}{next}", "next"));
        }
        None => show_repeats(args.format, &run, json)?,
    }
    let failed = trials.iter().any(|trial| trial.void.is_void() || trial.passed == Some(false));
    let kept = args.keep.keep(&run);
    written.map_err(Failure::run).and(kept).and(watched)?;
    if let Some(why) = no_answer {
        return Err(Failure::run(anyhow!("{why}")));
    }
    match setup.incomplete() {
        Some(why) => Err(Failure::run(anyhow!("{why}"))),
        None if failed => Err(Failure::Silent),
        None => Ok(()),
    }
}

/// Runs the load for the time of its warm-up, if it has one; nothing of it is counted.
fn warm_up(
    args: &LoadArgs,
    setup: &Setup,
    testers: &mut Option<&mut dyn Testers>,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let Some(duration) = args.warm_up else { return Ok(()) };
    let TrialRequest { pacing, timeout, .. } = *setup.request();
    let parts = if args.workload.reuse_names { 1 } else { args.parts() };
    let names = setup.names().map_or(u64::MAX, |all| all / u64::from(parts));
    let setup = setup.for_trial(&TrialSpec { names, ..TrialSpec::new(pacing, duration, timeout) });
    let (live, _progress) =
        progress::show(format!("warm-up {}", setup.target()), Some(duration), args.interval);
    let TrialResult { trial, .. } = match testers {
        None => setup.run(&live, stop)?,
        Some(testers) => testers.trial(setup.request(), &live, stop)?,
    };
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::run(anyhow!("interrupted in the warm-up: nothing was measured")));
    }
    let lasted = Nanos::from_secs_f64(trial.last_sent_s.unwrap_or(0.0));
    // An open loop must send its number of queries: at a low rate the last one leaves early, and a
    // small number varies by chance.
    let few = match pacing.most_queries(duration, 1) {
        Some(most) => most > 20 && 2 * trial.sent < most,
        None => lasted.0 < duration.0 / 2,
    };
    if few {
        eprintln!(
            "warning: the warm-up ended after {} queries, {lasted} of {duration}",
            trial.sent
        );
    }
    Ok(())
}

/// Runs the repeats of the load, until one is interrupted, fails or gets no answer; returns the
/// trials, and the failure that ended them.
fn repeats(
    args: &LoadArgs,
    setup: &Setup,
    mut testers: Option<&mut dyn Testers>,
    stop: &Arc<AtomicBool>,
) -> Result<(Vec<Trial>, Result<(), Failure>), Failure> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut watched = Ok(());
    while trials.len() < args.repeats as usize && watched.is_ok() {
        let part;
        let before = (args.parts() - args.repeats) as usize;
        let setup = match part_of_names(setup, args.parts(), before + trials.len()) {
            Some(request) => {
                part = args.engine.setup(request)?;
                &part
            }
            None => setup,
        };
        let beside = if testers.is_some() || args.dut.is_given() { None } else { watch(setup) };
        let watching = AgentWatch::start(&args.dut, setup.request(), args.dut_cpus.as_ref())?;
        let (live, progress) =
            progress::show(format!("load {}", setup.target()), planned(setup), args.interval);
        let ran = match &mut testers {
            None => TesterError::measured(setup.run(&live, stop)).map_err(Failure::from),
            Some(testers) => testers
                .trial(setup.request(), &live, stop)
                .map(|result| (result, None))
                .map_err(Failure::from),
        };
        drop(progress);
        let (mut result, ended) = match ran {
            Ok(ran) => ran,
            Err(failure) if trials.is_empty() => return Err(failure),
            Err(failure) => return Ok((trials, Err(failure))),
        };
        watched = watching.end(&mut result);
        if let Some(why) = ended {
            watched = watched.and(Err(Failure::input(why)));
        }
        let mut trial = result.with_verdict();
        if let Some(probe) = beside {
            probe.add_to(&mut trial);
        }
        let silent = report::no_answer(&trial).is_some();
        trials.push(trial);
        if let Some(trial) = trials.last().filter(|_| args.repeats > 1) {
            let (repeat, rate_qps) = (trials.len() as u32 - 1, trial.offered_qps);
            let record = TrialRecord { repeat, rate_qps, trial: trial.clone() };
            eprintln!("{} of {}: {}", repeat + 1, args.repeats, report::trial_line(&record, "qps"));
        }
        if silent || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok((trials, watched))
}

/// Returns the request of one of several `parts` with its part of the names; `None` if it is the
/// request of the whole.
fn part_of_names(setup: &Setup, parts: u32, number: usize) -> Option<TrialRequest> {
    let (mut request, all) = (setup.request().clone(), setup.names()?);
    let Workload::Namespace(names) = &mut request.workload else { return None };
    let each = all / u64::from(parts);
    (names.first, names.names) = (names.first + each * number as u64, Some(each));
    (parts > 1 && !names.reuse).then_some(request)
}

/// Prints the repeats of a load in the requested form.
fn show_repeats(format: Format, run: &Run, json: Option<&Path>) -> Result<(), Failure> {
    match format {
        Format::Json => record::write(Path::new("-"), run).map_err(Failure::run),
        Format::Csv => {
            print(|out| record::write_csv(run, Table::Trials, out).map_err(std::io::Error::from))
        }
        Format::Table => print(|out| write!(out, "{}", output::run(run, json))),
    }
}

/// Returns advice that makes a void load valid; `None` if there is none.
fn remedy(why: &Void, trial: &Trial) -> Option<String> {
    if let Void::Starved { .. } = why {
        let user = |warning: &&Warning| matches!(warning, Warning::CoreTaken { .. });
        if let Some(user) = trial.warnings.iter().find(user) {
            return Some(user.with_advice());
        }
    }
    let all_left = trial.planned > 0 && trial.wanted() >= trial.planned;
    let is_starved = matches!(why, Void::Starved { .. });
    if !why.depends_on_rate() || !trial.conditions.pacing.is_open_loop() || (is_starved && all_left)
    {
        return why.remedy().map(str::to_owned);
    }
    let sent = thousands(trial.offered_qps);
    Some(format!(
        "a `--rate` below {sent} queries a second, the rate that was sent, or more cores for the Tester (`--cpus`)"
    ))
}

/// Returns the commands that a user may want after a load: the capacity of the server for the same
/// names, and the page; after a void load what makes it valid.
fn next(args: &LoadArgs, trial: &Trial) -> Option<String> {
    if let Some(why) = &trial.void.0 {
        return remedy(why, trial);
    }
    let page = match &args.json {
        Some(path) => format!("`dnsdyno report {}` makes a page of it", path.display()),
        None => "`--json FILE` keeps it, and `dnsdyno report FILE` makes a page of it".to_owned(),
    };
    let is_pipe = args.workload.queries.as_deref() == Some(Path::new("-"));
    if args.replay.is_given() || is_pipe {
        return Some(page);
    }
    // A search repeats its query file without end, so it has no --runs.
    let asked = WorkloadArgs { runs: None, ..args.workload.clone() };
    let names = asked.request().map_or(String::new(), |asked| report::workload_options(&asked));
    let target = &trial.conditions.target;
    let transport = match args.streams.transport {
        Transport::Udp => String::new(),
        other => format!(" --transport {other}"),
    };
    Some(format!("`dnsdyno search {target}{names}{transport}` measures the capacity; {page}"))
}

/// Returns the duration of a load; `None` if it is not known in advance.
fn planned(setup: &Setup) -> Option<Nanos> {
    let request = setup.request();
    let timed = !matches!(request.workload, Workload::Replay { .. }) && request.pacing.is_timed();
    timed.then_some(request.duration)
}

/// Prints a trial in the requested form.
pub(crate) fn show(format: Format, quantiles: &[f64], trial: &Trial) -> Result<(), Failure> {
    match format {
        Format::Json => record::write(Path::new("-"), trial).map_err(Failure::run),
        Format::Csv => print(|out| {
            record::write_csv(&record::of_trial("load", trial.clone()), Table::Trials, out)
                .map_err(std::io::Error::from)
        }),
        Format::Table => {
            let mut shown = trial.clone();
            if output::is_quiet() {
                shown.warnings.clear();
            }
            print!("{}{}", report::trial(&shown), report::steps(trial));
            let Ok(histogram) = trial.latency_us.histogram() else { return Ok(()) };
            for percent in quantiles {
                let at = histogram.quantile(percent / 100.0).as_micros_f64();
                let label = format!("p{percent}");
                println!("{label:<16}{} (from due to reply)", report::view::time_us(at));
            }
            Ok(())
        }
    }
}

/// Runs a trial for the lab.
pub(crate) fn measure(request: TrialRequest) -> Result<TrialResult, Failure> {
    let line = report::load_line(&request);
    let setup = Setup::new(request, line.to_string()).and_then(Setup::with_whole_input);
    let setup = setup.map_err(|error| {
        let bad = error.is_bad_input();
        if bad { Failure::input(error) } else { Failure::run(error) }
    })?;
    let (live, progress) =
        progress::show(format!("load {}", setup.target()), planned(&setup), None);
    let mut result = setup.run(&live, &interruption()?)?;
    drop(progress);
    let conditions = &mut result.trial.conditions;
    (conditions.command, conditions.options) = (line.shared, line.own);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use report::load_line;

    use super::*;

    #[derive(Parser)]
    struct Load {
        #[command(flatten)]
        args: LoadArgs,
    }

    /// Parses the request of a command line, whose words end at spaces outside of quotes.
    fn request(line: &str) -> TrialRequest {
        let mut words = vec![String::new()];
        let mut within = false;
        for c in line.chars() {
            match c {
                '\'' => within = !within,
                ' ' if !within => words.push(String::new()),
                c => words.last_mut().expect("a word").push(c),
            }
        }
        assert_eq!(words[..2], ["dnsdyno", "load"], "{line}");
        let load = Load::try_parse_from(&words[1..]).unwrap_or_else(|e| panic!("{line}: {e}"));
        load.args.request().expect(line)
    }

    #[test]
    fn after_a_void_load_comes_what_makes_it_valid() {
        let Load { args } = Load::try_parse_from(["load", "::1", "--type", "A"]).expect("a load");
        let late = |sent| Void::ScheduleNotKept { late: 1.0, tolerance: Nanos(0), sent };
        let starved = |foreign| Void::Starved { run_delay: 0.5, foreign };
        let table = [
            (None, "constant 1k", Some("`dnsdyno search ")),
            (Some(late(0.4)), "constant 1k", Some("a `--rate` below 400 queries a second")),
            (Some(starved(0.1)), "constant 1k", Some("a `--rate` below")),
            (Some(starved(0.9)), "constant 1k", Some("leave the Tester cores of its own")),
            (Some(Void::NotSent { queries: 1 }), "window 9", Some("take lower rates, or")),
            (Some(Void::Interrupted), "constant 1k", None),
        ];
        for (void, pacing, begins) in table {
            let mut trial = Trial { offered_qps: 400.0, ..Trial::default() };
            let pacing: Pacing = pacing.parse().expect("a pacing");
            (trial.void.0, trial.conditions.pacing) = (void, pacing.into());
            (trial.planned, trial.sent) = (1_000, 400);
            let next = next(&args, &trial);
            assert_eq!(next.is_some(), begins.is_some(), "{next:?}");
            assert!(next.is_none_or(|next| next.starts_with(begins.unwrap_or(""))), "{begins:?}");
        }
        // A lower rate does not help a load whose queries all left.
        let mut trial = Trial { offered_qps: 400.0, planned: 400, sent: 400, ..Trial::default() };
        let pacing: Pacing = "constant 400".parse().expect("a pacing");
        (trial.void.0, trial.conditions.pacing) = (Some(starved(0.1)), pacing.into());
        let said = |trial: &Trial| next(&args, trial).expect("a remedy");
        assert!(said(&trial).contains("`taskset -c 1` before the server"), "{}", said(&trial));
        trial.warnings.push(Warning::CoreTaken {
            by: measure::warning::CoreUser { command: "cc1".to_owned(), pid: 7 },
            share: 0.8,
            cpus: vec![0],
            free: None,
            is_server: false,
        });
        assert!(said(&trial).starts_with("cc1 (process 7) used 80 % of"), "{}", said(&trial));
    }

    #[test]
    fn a_line_is_the_request_that_it_was_made_of() {
        for line in [
            "dnsdyno load 127.0.0.1",
            "dnsdyno load [fd00::1]:5300 --namespace 10.0.0.0/12 --type AAAA --rate 100k --expect-pref64 64:ff9b::/96 \
             --first-name 7 --names 9 --reuse-names --repeat-share 0.5 --repeat-names 77 --no-recursion",
            "dnsdyno load 127.0.0.1 --namespace 10.0.0.0/12 --zone x.test --unpadded --type A --goal zero-loss --duration 1500ms",
            "dnsdyno load 127.0.0.1 --type A --engine kernel --device eth0 --neighbour 02:00:00:00:00:01",
            "dnsdyno load 127.0.0.1 --type A --expect nxdomain --pacing 'ramp 1k..3k'",
            "dnsdyno load 127.0.0.1 --queries 'a b.txt' --pacing window --window 7 --goal 'p99 < 5ms, loss < 0.1%'",
            "dnsdyno load 127.0.0.1 --name x.test --edns --dnssec --edns-option 10:aa --expect noerror",
            "dnsdyno load 127.0.0.1 --random-subdomain x.test --pacing poisson --rate 33333.3 --timeout 20ms",
            "dnsdyno load 127.0.0.1 --mix x.test --mix-names 5 --mix-exponent 1.5 --mix-missing 0.25",
            "dnsdyno load 127.0.0.1 --replay x.pcap --speed 2x --dns-port 53,5300 --source 10.9.0.5/24",
            "dnsdyno load 127.0.0.1 --replay x.pcap --runs 3 --own-ports --close-idle 5s",
            "dnsdyno load 127.0.0.1 --replay x.population --transports udp=6,tls=3,https=1 --close-idle 10s --tls-resume --pad",
            "dnsdyno load 127.0.0.1 --queries q.txt --skip-bad --transport udp --retry 500ms",
            "dnsdyno load 127.0.0.1 --queries q.txt --runs 3 --pacing 'window 5 at most 2k' --source-port 2000 --step 100ms",
            "dnsdyno load 127.0.0.1 --queries q.txt --probability 0.25 -n 2",
            "dnsdyno load 127.0.0.1 --name x.test --type A,AAAA,MX",
            "dnsdyno load 127.0.0.1 --queries q.txt --expect file",
            "dnsdyno load tcp://127.0.0.1 --type A --expect servfail,refused",
            "dnsdyno load 127.0.0.1 --messages m.bin --runs 1 --pacing 'ramp 0..2k then 3s' --stop-outstanding 500 --expect noerror",
            "dnsdyno load 127.0.0.1 --pacing lockstep --threads 4 --experiments 2 --dut-cpus 0-2 --auth-cpus 3",
            "dnsdyno load 127.0.0.1 --pacing lockstep --threads 2 --experiments 3 --new-threads",
            "dnsdyno load 127.0.0.1 --cpus 0,2 --ports-per-thread 7",
            "dnsdyno load 127.0.0.1 --slice 2/3 --start-at 2026-11-23T04:30:00.25Z",
            "dnsdyno load 127.0.0.1 --start-at 2026-11-23T04:30:37TAI --clock-bound unchecked",
            "dnsdyno load 127.0.0.1 --cpus 0,2 --ports 9 --wait-mode yield --max-burst-us 20 --gso on --no-gro \
             --no-timestamps --buffer 4096 --shared-core --seed 5",
            "dnsdyno load 127.0.0.1 --transport tls --clients 3 --queries-per-connection 5 --tls-resume --alpn dot,x \
             --tls-version 1.3 --tls-name x.test --ca ca.pem --close reset --write together --connection-rate 7 --opening 2 --on-demand",
            "dnsdyno load 127.0.0.1 --transports udp=6,tcp=1,tls:8853=3 --pick chance --close-idle 3s --cookies --tcp-fallback --resend 2 \
             --subnets 198.51.100.0/24 --keepalive --pad --proxy 10.0.0.0/8 --proxy-within-tls --max-reply 512",
            "dnsdyno load 127.0.0.1:443 --transport https --http-method get --http-path /q --early-data --fast-open \
             --connect-timeout 2s --outstanding 9 --alpn ''",
        ] {
            let wanted = request(line);
            assert_eq!(request(&load_line(&wanted).to_string()), wanted, "{}", load_line(&wanted));
        }
    }
}
