//! `dnsdyno zone`: makes, cuts, counts, checks and signs zone files.

use clap::{Args, Subcommand};

mod files;
mod generate;
mod internet;
mod sign;

use self::files::{ZoneCheckArgs, ZoneCompareArgs, ZoneQueriesArgs, ZoneSliceArgs, ZoneStatsArgs};
use self::generate::GenerateArgs;
use self::internet::ZoneInternetArgs;
use self::sign::SignArgs;
use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneArgs {
    #[command(subcommand)]
    command: ZoneCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ZoneCommand {
    /// Write a zone file from a seed, of any size, in constant memory
    Generate(GenerateArgs),
    /// Cut a zone, and a query file with it, into parts by ranges of labels
    Slice(ZoneSliceArgs),
    /// Count the records, names and delegations of a zone
    Stats(ZoneStatsArgs),
    /// Check a zone for what makes named refuse it
    Check(ZoneCheckArgs),
    /// Write queries for the names of a zone
    Queries(ZoneQueriesArgs),
    /// Compare two zone files: whether they hold the same records, in any order
    Compare(ZoneCompareArgs),
    /// Sign a zone with an installed signer
    Sign(SignArgs),
    /// Write the zones of an Internet in a box: the root, top-level domains and domains, of made names or those of captures
    Internet(ZoneInternetArgs),
}

pub(crate) const EXAMPLES: &str = "Examples:
  A top-level domain of a million delegations, five in a hundred with DS records
    dnsdyno zone generate tld --zone test --delegations 1M --output tld.zone

  The dns64perf zone of 2^20 names, for servers that expand $GENERATE
    dnsdyno zone generate dns64 --namespace 10.0.0.0/12 --style generate --output dns64.zone

  A third of a zone for each of three machines, and its queries
    dnsdyno zone queries tld.zone --count 3M --output tld.queries
    dnsdyno zone slice tld.zone --parts 3 --queries tld.queries --output tld

  The same zone signed
    dnsdyno zone sign tld.zone --output tld.signed.zone

  An Internet in a box of 100,000 names, one domain in ten signed, for `dnsdyno auth --internet box`, and queries of which a
  cache can answer half
    dnsdyno zone internet --tlds 20 --domains 100 --hosts 50 --signed 0.1 --queries box.queries --hit-rate 0.5 --output box

  An Internet in a box of the names that clients asked for
    dnsdyno zone internet --capture day.pcap --missing 0.3 --output box";

pub(crate) fn run(args: ZoneArgs) -> Result<(), Failure> {
    match args.command {
        ZoneCommand::Generate(args) => generate::run(args),
        ZoneCommand::Slice(args) => files::slice(args),
        ZoneCommand::Stats(args) => files::stats(args),
        ZoneCommand::Check(args) => files::check(&args),
        ZoneCommand::Queries(args) => files::queries(args),
        ZoneCommand::Compare(args) => files::compare(&args),
        ZoneCommand::Sign(args) => sign::run(args),
        ZoneCommand::Internet(args) => internet::run(args),
    }
}
