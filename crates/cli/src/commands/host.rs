//! `dnsdyno host`: facts of this host, the speed of its parts, and what disturbs measurements on it.

use std::path::PathBuf;

use anyhow::anyhow;
use lab::CpuList;
use lab::host::{Depth, fingerprint};
use measure::Nanos;
use record::HostFacts;
use report::Candidate;

use crate::arguments::json::JsonArgs;
use crate::failure::Failure;
use crate::output::print;

#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    #[command(flatten)]
    json: JsonArgs,
    /// Print facts only, measure nothing
    #[arg(long, conflicts_with = "quick")]
    facts: bool,
    /// Measure for about two seconds, as a run does
    #[arg(long)]
    quick: bool,
    /// Compare hosts, each by the JSON that it printed, in a table with a column for each; measure nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["json", "facts", "quick"])]
    compare: Vec<PathBuf>,
}

pub(crate) const EXAMPLES: &str = "Examples:
  What is this host worth, and what should be mended before it measures?
    dnsdyno host

  The same for a record
    dnsdyno host --json host.json

  Which of three machines is the best server?
    dnsdyno host --compare sun.json iron.json hp.json";

pub(crate) fn run(args: &HostArgs) -> Result<(), Failure> {
    if !args.compare.is_empty() {
        return compare(&args.compare);
    }
    let depth = match (args.facts, args.quick) {
        (true, _) => Depth::Facts,
        (_, true) => Depth::Quick,
        _ => Depth::Full,
    };
    let host = take(depth);
    args.json.show(|path| record::write(path, &host), || report::host(&host))
}

/// Prints the hosts of these files side by side; a column has the name of its file.
fn compare(paths: &[PathBuf]) -> Result<(), Failure> {
    let hosts = paths.iter().map(|path| {
        let facts: HostFacts = record::read(path).map_err(Failure::input)?;
        // All fields may be absent, so that any object of JSON can be read as a host.
        if facts.schema == 0 || facts.cpu.online == 0 {
            return Err(Failure::input(anyhow!(
                "{} has no facts of a host: write them with `dnsdyno host --json FILE`",
                path.display()
            )));
        }
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok((name, facts))
    });
    let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    let candidates: Vec<Candidate<'_>> =
        hosts.iter().map(|(name, facts)| Candidate { name, facts }).collect();
    print(|out| write!(out, "{}", report::hosts(&candidates)))
}

/// Returns the facts and measurements of this host for the plan of a run.
pub(crate) fn take(depth: Depth) -> HostFacts {
    let on = CpuList::allowed();
    let mut host = fingerprint(depth, &on);
    let time = match depth {
        Depth::Facts => return host,
        Depth::Quick => Nanos::from_millis(200),
        Depth::Full => Nanos::from_secs(1),
    };
    host.packet_ceilings = tester::ceilings::measure(on.cpus(), time);
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_told() {
        let host = take(Depth::Facts);
        let told = report::host(&host);
        assert!(told.contains("kernel") && told.contains("cores"), "{told}");
        assert!(host.packet_ceilings.is_empty());
    }

    #[test]
    fn hosts_are_compared_by_their_files() {
        let dir = tempfile::tempdir().expect("a folder");
        let (good, other) = (dir.path().join("good.json"), dir.path().join("other.json"));
        record::write(&good, &take(Depth::Facts)).expect("writes");
        assert!(compare(&[good.clone(), good.clone()]).is_ok());
        std::fs::write(&other, r#"{"schema": 1, "sent": 1}"#).expect("writes");
        let Err(Failure::BadInput(why)) = compare(&[good, other.clone()]) else {
            panic!("a file that is not of a host")
        };
        assert!(why.to_string().contains("other.json has no facts of a host"), "{why}");
        std::fs::write(&other, "[").expect("writes");
        assert!(matches!(compare(&[other]), Err(Failure::BadInput(_))));
    }
}
