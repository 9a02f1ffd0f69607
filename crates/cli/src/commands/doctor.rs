//! `dnsdyno doctor`: what this host is good for: its facts, a self-test, `verify`, and three sentences.
//!
//! ```text
//! outside                facts, self-test ──────────────┐
//! inside its namespaces  verify, links, kernel engine ──┴──> sentences
//! ```

use std::fmt::Write;

use clap::Parser;
use experiment::{Verified, verify};
use lab::detect::detect;
use lab::host::Depth;
use lab::{Catalogue, is_inside};
use measure::{Nanos, Qps};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Uid;
use record::{Check, CheckVerdict, HostFacts};
use report::view::{Align, align};

use crate::arguments::number::parse_duration;
use crate::commands::verify::{VerifyArgs, on_ground, plan};
use crate::commands::{host, selftest};
use crate::failure::Failure;

/// Arguments of `dnsdyno doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The rate of the self-test [default: a third of what the sockets of this host do]
    #[arg(long, value_name = "RATE")]
    rate: Option<Qps>,
    /// How long the self-test sends
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    duration: Nanos,
    /// Leave out verify, which takes half a minute
    #[arg(long)]
    no_verify: bool,
}

pub(crate) const EXAMPLES: &str = "Examples:
  What is this host good for? (about a minute)
    dnsdyno doctor

  Can its Tester judge servers of 200,000 queries a second?
    dnsdyno doctor --rate 440k";

/// The arguments of another command with their defaults.
#[derive(Parser)]
struct Defaults<T: clap::Args> {
    #[command(flatten)]
    args: T,
}

fn defaults<T: clap::Args>(words: &[&str]) -> T {
    Defaults::parse_from([&["dnsdyno"], words].concat()).args
}

pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    if is_inside() {
        return check_figures();
    }
    let facts = host::take(Depth::Quick);
    print!("{}", table(&facts_of(&facts)?));
    let rates = rates(args, &facts)?;
    let checked = if args.no_verify { Ok(()) } else { check_figures() };
    println!("{rates}\n{}", advice(&facts));
    checked
}

/// Prints what the namespaces permit, and whether the Tester's figures are right.
fn check_figures() -> Result<(), Failure> {
    let args: VerifyArgs = defaults(&["--quick", "--wait"]);
    let plan = plan(&args)?;
    on_ground(&args, |mut ground| {
        eprintln!("verify: half a minute");
        let verified = verify(&plan, &mut ground, &mut |_| ());
        let links = ground.pair.link_refused().unwrap_or("yes").to_owned();
        let kernel = ground.use_kernel();
        let kernel = kernel.map_or_else(|why| format!("no: {why}"), |()| "yes".to_owned());
        ground.end();
        print!("{}", table(&[("link modes", links), ("kernel engine", kernel)]));
        println!("{}", figures(&verified));
        match verified.error {
            Some(error) => Err(Failure::run(error)),
            None if verified.checks.iter().any(Check::is_failed) => Err(Failure::Silent),
            None => Ok(()),
        }
    })
}

fn table(rows: &[(&str, String)]) -> String {
    let rows: Vec<[String; 2]> =
        rows.iter().map(|(what, how)| [(*what).to_owned(), how.clone()]).collect();
    align(&rows, &[Align::Left])
}

/// Returns what this host has.
fn facts_of(facts: &HostFacts) -> Result<Vec<(&'static str, String)>, Failure> {
    let (cpu, kernel) = (&facts.cpu, &facts.kernel);
    let machine = if cpu.virtual_machine { "virtual" } else { "not virtual" };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
    let catalogue = Catalogue::load(None).map_err(Failure::input)?;
    let (mut here, mut absent) = (Vec::new(), Vec::new());
    for adapter in catalogue.iter() {
        let found = detect(adapter);
        let list = if found.program.is_some() { &mut here } else { &mut absent };
        list.push(adapter.name.clone());
    }
    let mut rows = vec![
        ("processor", format!("{}, {} cores, {machine}", known(&cpu.model), cpu.online)),
        ("kernel", format!("{}, clock {}", known(&kernel.release), known(&kernel.clock_source))),
        ("root", if Uid::effective().is_root() { "yes" } else { "no" }.to_owned()),
        ("open files", files.to_string()),
        ("servers", here.join(", ")),
        ("not installed", absent.join(", ")),
    ];
    rows.retain(|(_, how)| !how.is_empty());
    Ok(rows)
}

/// Makes the self-test; returns up to which rate the Tester is sure.
fn rates(args: &DoctorArgs, facts: &HostFacts) -> Result<String, Failure> {
    let least = facts.packet_ceilings.iter().filter_map(|ceiling| ceiling.round_trips_per_s);
    let least = least.fold(f64::INFINITY, f64::min);
    let third = if least.is_finite() { (least / 3e3).floor().max(1.0) * 1e3 } else { 10e3 };
    let rate = args.rate.or_else(|| Qps::new(third)).unwrap_or_default();
    let (rate_word, duration) = (rate.exact().to_string(), args.duration.to_string());
    let words = ["--rate", &rate_word, "--duration", &duration];
    let certificate = selftest::certify(&mut defaults(&words))?.certificate;
    let trial = &certificate.trials[0].trial;
    let mut out = String::new();
    let _ = match (certificate.passed, &trial.void.0) {
        (true, _) => write!(
            out,
            "Its Tester is sure of servers of up to {:.0} queries a second: it kept {rate} with every reply (RFC 8219 section 9.2).",
            certificate.certified_qps
        ),
        (false, Some(why)) => {
            write!(out, "Its Tester is sure of no server at {rate} now: {why}.")
        }
        (false, None) => write!(
            out,
            "Its Tester is sure of no server at {rate}: {} of {} queries had no reply in time; try a lower --rate.",
            trial.lost, trial.sent
        ),
    };
    Ok(out)
}

/// Returns whether its figures are right.
fn figures(verified: &Verified) -> String {
    let count = |verdict| verified.checks.iter().filter(|check| check.verdict == verdict).count();
    let failed = verified.checks.iter().filter(|check| check.is_failed()).count();
    let (all, passed) = (verified.checks.len(), count(CheckVerdict::Passed));
    let spoilt = count(CheckVerdict::TesterLimited);
    let rest = match (failed, spoilt) {
        (0, 0) => String::new(),
        (0, _) => format!("; {spoilt} were spoilt by what else the machine did"),
        _ => format!("; {failed} were WRONG: `dnsdyno verify --quick` shows which"),
    };
    format!("Of {all} known values it found {passed}{rest}.")
}

/// Returns what to do with this host.
fn advice(facts: &HostFacts) -> String {
    let cores = facts.cpu.allowed.len();
    let so = match cores {
        0..=3 => {
            "servers are measured on one core: capacities and comparisons within one run".to_owned()
        }
        _ => format!("servers are measured on up to {} cores", cores - 2),
    };
    let machine = if facts.cpu.virtual_machine { " of a virtual machine" } else { "" };
    let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    format!("With {cores}{machine} {so}; start with `dnsdyno run dns64-rfc8219 --quick`.")
}
