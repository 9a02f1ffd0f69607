//! `dnsdyno zone generate`: zone files from a seed.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use wire::{Ipv4Prefix, Name, Namespace, Pref64};
use zone::{
    BackgroundWriter, Dns64Zone, LeafZone, NameServer, Style, TldZone, Written, ZoneRecords,
};

use crate::arguments::choice::{Choice, choice};
use crate::arguments::number::parse_count;
use crate::failure::Failure;
use crate::output::{output, unwritable};

#[derive(Args, Clone, Debug)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Clone, Debug, Subcommand)]
enum Kind {
    /// The dns64perf names of an IPv4 prefix
    Dns64(Dns64Args),
    /// Delegations, as a top-level domain has them
    Tld(TldArgs),
    /// Hosts, as an organisation has them
    Leaf(LeafArgs),
}

/// Arguments that all kinds of zones have.
#[derive(Args, Clone, Debug)]
struct CommonArgs {
    /// The zone file (- for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// IPv4 address of the zone's own name server
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.1")]
    server_v4: Ipv4Addr,
    /// IPv6 address of the zone's own name server
    #[arg(long, value_name = "ADDRESS", default_value = "2001:db8::1")]
    server_v6: Ipv6Addr,
}

impl CommonArgs {
    fn server(&self) -> NameServer {
        NameServer { v4: self.server_v4, v6: self.server_v6 }
    }
}

#[derive(Args, Clone, Debug)]
struct Dns64Args {
    /// IPv4 prefix of the names
    #[arg(long, value_name = "PREFIX", default_value = "10.0.0.0/12")]
    namespace: Ipv4Prefix,
    /// The zone
    #[arg(long, value_name = "ZONE", default_value = wire::namespace::DEFAULT_ZONE)]
    zone: Name,
    /// Names without leading zeros (10-1-2-3), as dns64perf and dns64perf2 query them, in place of 010-001-002-003
    #[arg(long)]
    unpadded: bool,
    /// Type of the records of the names
    #[arg(long, value_enum, value_name = "TYPE", default_value = "a")]
    records: RecordsArg,
    /// Prefix of the addresses in AAAA records, before the IPv4 address
    #[arg(long, value_name = "PREF64", default_value = "2001:db8:64::/96")]
    pref64: Pref64,
    /// One line for each record, or one $GENERATE line for 256 records
    #[arg(long, value_parser = choice(&STYLES), value_name = "STYLE", default_value = "expanded")]
    style: Style,
    /// TTL, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    ttl: u32,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RecordsArg {
    /// A records
    A,
    /// AAAA records
    Aaaa,
}

const STYLES: [Choice<Style>; 2] = [
    ("expanded", "One line for each record", Style::Expanded),
    ("generate", "$GENERATE lines", Style::Generate),
];

#[derive(Args, Clone, Debug)]
struct TldArgs {
    /// The zone
    #[arg(long, value_name = "ZONE", default_value = "test")]
    zone: Name,
    /// Number of delegations (500, 10k, 50M)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1M")]
    delegations: u64,
    /// Number of operators of name servers [default: one for 200 delegations]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    operators: Option<u64>,
    /// Zipf's exponent of the operators' sizes
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    exponent: f64,
    /// Share (0 to 1) of operators named in the zone, with glue
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    in_zone: f64,
    /// Share (0 to 1) of delegations with name servers of their own, with glue
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    vanity: f64,
    /// Share (0 to 1) of delegations with a DS record
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    ds: f64,
    /// TTL, seconds; the two days of top-level domains are more than BIND's `dnssec-policy default` signs (max-zone-ttl: a day)
    #[arg(long, value_name = "S", default_value_t = 172_800)]
    ttl: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args, Clone, Debug)]
struct LeafArgs {
    /// The zone
    #[arg(long, value_name = "ZONE", default_value = "example.test")]
    zone: Name,
    /// Number of hosts (500, 10k)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1000")]
    hosts: u64,
    /// TTL, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    ttl: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

pub(crate) fn run(args: GenerateArgs) -> Result<(), Failure> {
    match args.kind {
        Kind::Dns64(args) => {
            let namespace = Namespace::new(args.namespace, args.zone).map_err(Failure::input)?;
            let namespace = namespace.with_padding(!args.unpadded);
            let records = match args.records {
                RecordsArg::A => ZoneRecords::A,
                RecordsArg::Aaaa => ZoneRecords::Aaaa(args.pref64),
            };
            let server = args.common.server();
            let zone = Dns64Zone { namespace, records, style: args.style, ttl: args.ttl, server };
            write(&args.common, |mut out| zone.write(&mut out))
        }
        Kind::Tld(args) => {
            let zone = TldZone {
                operators: args.operators,
                exponent: args.exponent,
                in_zone: args.in_zone,
                vanity: args.vanity,
                ds: args.ds,
                ttl: args.ttl,
                server: args.common.server(),
                ..TldZone::new(args.zone, args.delegations, args.seed)
            };
            zone.validate().map_err(Failure::input)?;
            write(&args.common, |mut out| zone.write(&mut out))
        }
        Kind::Leaf(args) => {
            let (server, seed) = (args.common.server(), args.seed);
            let zone = LeafZone { zone: args.zone, hosts: args.hosts, ttl: args.ttl, server, seed };
            zone.validate().map_err(Failure::input)?;
            write(&args.common, |mut out| zone.write(&mut out))
        }
    }
}

/// Writes a zone, and prints its size and the speed of writing.
fn write(
    common: &CommonArgs,
    zone: impl FnOnce(&mut dyn Write) -> std::io::Result<Written>,
) -> Result<(), Failure> {
    let mut out = BackgroundWriter::new(output(&common.output)?);
    let began = Instant::now();
    let written = zone(&mut out).map_err(|e| unwritable(&common.output, e))?;
    let took = began.elapsed().as_secs_f64();
    let megabytes = written.bytes as f64 / 1e6;
    eprintln!(
        "{} records, {megabytes:.1} MB in {took:.2} s ({:.0} MB/s)",
        written.records,
        megabytes / took.max(1e-9)
    );
    Ok(())
}
