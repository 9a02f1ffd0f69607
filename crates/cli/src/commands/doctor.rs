//! `dnsdyno doctor`: what this host is good for: its facts, a self-test, `verify`, and three sentences.
//!
//! ```text
//! outside                facts, self-test ───────────────────────┐
//! inside its namespaces  verify, links, kernel engine ──(file)───┴──> table, sentences
//! ```

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use experiment::verify;
use lab::detect::detect;
use lab::host::Depth;
use lab::{Catalogue, RunDir};
use measure::{Nanos, Qps};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Uid;
use record::{Certificate, Check, CheckVerdict, HostFacts};
use report::view::{Align, align};
use serde_json::{Value, json};

use crate::arguments::json::JsonArgs;
use crate::arguments::number::parse_duration;
use crate::arguments::parsed::parsed;
use crate::arguments::quiet::QuietArgs;
use crate::commands::verify::{VerifyArgs, plan, with_bench};
use crate::commands::{host, selftest};
use crate::failure::Failure;
use crate::output;

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
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    quiet: QuietArgs,
}

pub(crate) const EXAMPLES: &str = "Examples:
  What is this host good for? (about a minute)
    dnsdyno doctor

  Can its Tester judge servers of 200,000 queries a second?
    dnsdyno doctor --rate 440k";

/// Name of the file of findings, which is passed to the process in the namespaces.
const FINDINGS_KEY: &str = "findings";

pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    args.quiet.apply();
    if let Some(file) = lab::handed(FINDINGS_KEY) {
        return find(Path::new(&file)).map(drop);
    }
    output::try_writing([&args.json.json])?;
    let facts = host::take(Depth::Quick);
    let (mut rows, mut all) = own_facts(&facts)?;
    let certificate = self_test(args, &facts)?;
    let mut sentences = vec![rates(&certificate)];
    let mut checked = Ok(());
    if !args.no_verify {
        let dir = RunDir::create().map_err(Failure::run)?;
        checked = find(&dir.path().join("findings.json")).and_then(|found| {
            let checks: Vec<Check> =
                serde_json::from_value(found["checks"].clone()).map_err(Failure::run)?;
            for (row, key) in [("link modes", "link_modes"), ("kernel engine", "kernel_engine")] {
                rows.push([row, found[key].as_str().unwrap_or_default()].map(str::to_owned));
            }
            sentences.push(check_sentence(&checks));
            let error = found["error"].as_str().map(str::to_owned);
            all["found"] = found;
            match error {
                Some(error) => Err(Failure::run(anyhow!("{error}"))),
                None if checks.iter().any(Check::is_failed) => Err(Failure::Silent),
                None => Ok(()),
            }
        });
    }
    sentences.push(advice(&facts));
    (all["self_test"], all["sentences"]) = (json!(certificate), json!(sentences));
    let text = align(&rows, &[Align::Left]);
    let text = || format!("{text}\n{}\n", sentences.join("\n"));
    args.json.show(|path| record::write(path, &all), text)?;
    checked
}

/// Finds what the namespaces permit, and whether the Tester's figures are right; a process in the
/// namespaces writes both into `file`.
fn find(file: &Path) -> Result<Value, Failure> {
    let args: VerifyArgs = parsed(["--quick", "--wait"])?;
    let plan = plan(&args)?;
    let file: PathBuf = file.to_owned();
    let handed = [(FINDINGS_KEY, file.display().to_string())];
    with_bench(&args, &handed, |mut bench| {
        eprintln!("running `dnsdyno verify`: about half a minute");
        let verified = verify(&plan, &mut bench, &mut |_| ());
        let links = bench.pair.link_refused().unwrap_or("yes").to_owned();
        let kernel = bench.use_kernel();
        let kernel = kernel.map_or_else(|why| format!("no: {why}"), |()| "yes".to_owned());
        bench.end();
        let error = verified.error.map(|error| error.to_string());
        let found = json!({ "link_modes": links, "kernel_engine": kernel, "checks": verified.checks, "error": error });
        record::write(&file, &found).map_err(Failure::run)
    })?;
    let found = std::fs::read_to_string(&file).map_err(Failure::run)?;
    serde_json::from_str(&found).map_err(Failure::run)
}

/// Returns the facts of this host, as rows of a table and as JSON.
fn own_facts(facts: &HostFacts) -> Result<(Vec<[String; 2]>, Value), Failure> {
    let (cpu, kernel) = (&facts.cpu, &facts.kernel);
    let machine = if cpu.virtual_machine { "virtual" } else { "not virtual" };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
    let root = Uid::effective().is_root();
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
        ("root", if root { "yes" } else { "no" }.to_owned()),
        ("open files", files.to_string()),
        ("servers", here.join(", ")),
        ("not installed", absent.join(", ")),
    ];
    rows.retain(|(_, how)| !how.is_empty());
    let rows = rows.into_iter().map(|(what, how)| [what.to_owned(), how]).collect();
    let all = json!({ "host": facts, "root": root, "open_files": files, "servers": here, "not_installed": absent });
    Ok((rows, all))
}

fn self_test(args: &DoctorArgs, facts: &HostFacts) -> Result<Certificate, Failure> {
    let least = facts.packet_ceilings.iter().filter_map(|ceiling| ceiling.round_trips_per_s);
    let least = least.fold(f64::INFINITY, f64::min);
    let third = if least.is_finite() { (least / 3e3).floor().max(1.0) * 1e3 } else { 10e3 };
    let rate = args.rate.or_else(|| Qps::new(third)).unwrap_or_default();
    let (rate, duration) = (rate.exact().to_string(), args.duration.to_string());
    let mut args = parsed(["--rate", &rate, "--duration", &duration])?;
    Ok(selftest::certify(&mut args)?.certificate)
}

/// Returns the rates up to which the Tester is certified.
fn rates(certificate: &Certificate) -> String {
    let trial = &certificate.trials[0].trial;
    let rate = Qps::new(certificate.self_test_qps).unwrap_or_default();
    match (certificate.passed, &trial.void.0) {
        (true, _) => format!(
            "Its Tester is certified for servers of up to {:.0} queries a second: it sent {rate} and got every reply (RFC 8219 section 9.2).",
            certificate.certified_qps
        ),
        (false, Some(why)) => format!("Its Tester is not certified at {rate} now: {why}."),
        (false, None) => format!(
            "Its Tester is not certified at {rate}: {} of {} queries had no reply in time; try a lower --rate.",
            trial.lost, trial.sent
        ),
    }
}

/// Returns a sentence about the known values that the Tester found.
fn check_sentence(checks: &[Check]) -> String {
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let failed: Vec<String> =
        checks.iter().filter(|check| check.is_failed()).map(report::check_line).collect();
    let (all, passed) = (checks.len(), count(CheckVerdict::Passed));
    let spoilt = count(CheckVerdict::TesterLimited);
    let disturbed = match spoilt {
        0 => String::new(),
        _ => format!("; {spoilt} were disturbed by other work of this machine"),
    };
    let wrong = match failed.len() {
        0 => String::new(),
        wrong => format!("; {wrong} WRONG: {}", failed.join("; ")),
    };
    format!("Of {all} known values it found {passed}{disturbed}{wrong}.")
}

/// Returns advice for this host.
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

#[cfg(test)]
mod tests {
    use record::{Bound, Known, TruthSource};

    use super::*;

    #[test]
    fn a_wrong_value_is_named() {
        let check = |name: &str, verdict| {
            let (truth, bound) = (TruthSource::Set, Bound::Absolute(1.0));
            let known = Known { truth, value: 0.0, unit: "", bound };
            Check { verdict, ..Check::compare(name, known, 2.0) }
        };
        let said = check_sentence(&[
            check("lost", CheckVerdict::Passed),
            check("late", CheckVerdict::TesterLimited),
            check("valid", CheckVerdict::Failed),
        ]);
        let beginning = "Of 3 known values it found 1; 1 were disturbed by other work of this machine; 1 WRONG: valid: 2, known 0";
        assert!(said.starts_with(beginning), "{said}");
    }
}
