//! `dnsdyno host`: facts of this host, the speed of its parts, and what disturbs measurements on it.

use std::io::Write as _;

use lab::CpuList;
use lab::host::{Depth, fingerprint};
use measure::Nanos;
use record::HostFacts;

use crate::failure::Failure;

/// Arguments of `dnsdyno host`.
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print facts only, measure nothing
    #[arg(long, conflicts_with = "quick")]
    facts: bool,
    /// Measure for about two seconds, as a run does
    #[arg(long)]
    quick: bool,
}

pub(crate) const EXAMPLES: &str = "Examples:
  What is this host worth, and what should be mended before it measures?
    dnsdyno host

  The same for a record
    dnsdyno host --json > host.json";

pub(crate) fn run(args: &HostArgs) -> Result<(), Failure> {
    let depth = match (args.facts, args.quick) {
        (true, _) => Depth::Facts,
        (_, true) => Depth::Quick,
        _ => Depth::Full,
    };
    let host = take(depth);
    let mut out = std::io::stdout().lock();
    let written = if args.json {
        serde_json::to_string_pretty(&host)
            .map_err(std::io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        write!(out, "{}", report::host(&host))
    };
    written.map_err(Failure::run)
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
}
