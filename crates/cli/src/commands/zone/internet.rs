//! `dnsdyno zone internet`: the zones of an Internet in a box, and queries for its names.

use std::collections::HashSet;
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use lab::internet::{InternetFolderError, write_internet};
use trace::Dns;
use wire::{Name, Qclass};
use zone::internet::{Internet, InternetPlan, InternetQueries, MAX_NAMES, synthetic};

use crate::arguments::number::{parse_count, parse_share};
use crate::commands::trace::input::{CapturePorts, InputArgs};
use crate::failure::Failure;
use crate::output::{output, unwritable};

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneInternetArgs {
    /// Number of top-level domains (t0, t1 ...)
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=8_000))]
    tlds: u32,
    /// Number of domains in each top-level domain (d0.t0 ...)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    domains: u32,
    /// Number of names in each domain (h0.d0.t0 ...)
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    hosts: u32,
    /// Take the names that clients queried in this capture instead; may be repeated
    #[arg(long, value_name = "CAPTURE", conflicts_with_all = ["tlds", "domains", "hosts"])]
    capture: Vec<PathBuf>,
    #[command(flatten)]
    ports: CapturePorts,
    /// Share (0 to 1) of the names that do not exist
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = parse_share)]
    missing: f64,
    /// Share (0 to 1) of domains whose name servers are in another domain, without glue
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = parse_share)]
    glueless: f64,
    /// Share (0 to 1) of domains with a wildcard in place of their names
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = parse_share)]
    wildcards: f64,
    /// Share (0 to 1) of domains that are signed by an installed signer; above 0 the root and the top-level domains are too
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share)]
    signed: f64,
    /// Number of servers of domains; each domain has two
    #[arg(long, value_name = "N", default_value_t = 500)]
    servers: u32,
    /// First address of the /16 that the servers are in
    #[arg(long, value_name = "ADDRESS", default_value = "10.53.0.0")]
    first: Ipv4Addr,
    /// TTL of the records of domains, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    ttl: u32,
    /// TTL of negative answers, seconds
    #[arg(long, value_name = "S", default_value_t = 900)]
    negative_ttl: u32,
    /// TTL of delegations and of the addresses of name servers, seconds
    #[arg(long, value_name = "S", default_value_t = 172_800)]
    delegation_ttl: u32,
    /// Write a query file for the names, in random order (- for the standard output)
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Number of queries in that file
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_count, requires = "queries")]
    count: u64,
    /// Share (0 to 1) of the queries in that file that were asked before, which a large cache answers
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share, requires = "queries")]
    hit_rate: f64,
    /// Seed of all choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for the zones, the root hints and, if the root is signed, its trust anchor
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

impl ZoneInternetArgs {
    fn plan(&self) -> InternetPlan {
        InternetPlan {
            missing: self.missing,
            glueless: self.glueless,
            wildcards: self.wildcards,
            signed: self.signed,
            servers: self.servers,
            first: self.first,
            ttl: self.ttl,
            negative_ttl: self.negative_ttl,
            delegation_ttl: self.delegation_ttl,
            seed: self.seed,
        }
    }

    /// Returns the zones of the made or captured names.
    fn internet(&self) -> Result<Internet, Failure> {
        if self.capture.is_empty() {
            let names = synthetic(self.tlds, self.domains, self.hosts);
            return Internet::new(self.plan(), names).map_err(Failure::input);
        }
        let mut names: HashSet<Name> = HashSet::new();
        let input = InputArgs::of_files(self.capture.clone(), self.ports.ports.clone());
        let (_, error) = input.read(|message| {
            let question = Dns::read(message.bytes).filter(|dns| !dns.is_response());
            let question = question.and_then(|dns| dns.question);
            if let Some(asked) = question.filter(|asked| asked.qclass == Qclass::IN)
                && names.len() <= MAX_NAMES
            {
                names.insert(asked.name);
            }
        })?;
        if let Some(error) = error {
            eprintln!("warning: {error}; the names before that are used");
        }
        Internet::new(self.plan(), names).map_err(Failure::input)
    }

    /// Returns the queries for these names; `None` if the arguments request none.
    fn queries(&self, internet: &Internet) -> Result<Option<InternetQueries>, Failure> {
        if self.queries.is_none() {
            return Ok(None);
        }
        let (count, hit_rate, seed) = (self.count, self.hit_rate, self.seed);
        let queries = InternetQueries { count, hit_rate, seed };
        let names = internet.names().count() as u64;
        queries.check(names).map_err(|e| Failure::input(anyhow!("--queries: {e}")))?;
        Ok(Some(queries))
    }
}

pub(crate) fn run(args: ZoneInternetArgs) -> Result<(), Failure> {
    let internet = args.internet()?;
    let queries = args.queries(&internet)?;
    let began = Instant::now();
    let written = write_internet(&internet, &args.output).map_err(|e| match e {
        InternetFolderError::Exists(..) | InternetFolderError::NoSigner => Failure::input(e),
        _ => Failure::run(e),
    })?;
    eprintln!(
        "{} names in {} zones, {} of them signed, in {:.1} s; root hints: {}",
        internet.names().count(),
        written.zones,
        written.signed,
        began.elapsed().as_secs_f64(),
        written.hints.display()
    );
    let (Some(queries), Some(path)) = (queries, &args.queries) else { return Ok(()) };
    let written = queries.write(&internet, &mut BufWriter::new(output(path)?));
    let written = written.map_err(|e| unwritable(path, e))?;
    eprintln!(
        "{} queries: {:.1} % were asked before; of the other {}, {} are for names that do not exist",
        written.queries,
        written.hit_rate() * 100.0,
        written.queries - written.repeated,
        written.missing
    );
    Ok(())
}
