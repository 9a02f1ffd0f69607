//! Queries, and the replies that they must get.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{ArgAction, Args};
use record::request::{Edns, Expect, Names, NamespaceExpect, Query, Repeats, Workload};
use wire::namespace::DEFAULT_ZONE;
use wire::reply::Rcodes;
use wire::{Ipv4Prefix, Name, Pref64, Qclass, Qtype};

use crate::arguments::address::{ipv4_net, ipv6_net};
use crate::arguments::number::parse_share;
use crate::failure::Failure;
use crate::preflight::NoAnswer;

/// Queries, and the replies that they must get.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Queries")]
pub(crate) struct WorkloadArgs {
    /// Ask the queries of this file (`name type` a line, as dnsperf and queryperf read it; plain, gzip, xz or zstd; - for the
    /// standard input), again and again
    #[arg(short = 'd', long, value_name = "FILE", group = "workload")]
    pub(crate) queries: Option<PathBuf>,
    /// Ask the same name each time
    #[arg(long, value_name = "NAME", group = "workload")]
    pub(crate) name: Option<Name>,
    /// Ask for the dns64perf names of this IPv4 prefix, each once, in a seeded order [default: 10.0.0.0/8]
    #[arg(long, value_name = "PREFIX", group = "workload")]
    pub(crate) namespace: Option<Ipv4Prefix>,
    /// Send the messages of this file as they are except for their ids, each after its length in two octets, as on a TCP
    /// connection and in dnsperf's binary files
    #[arg(long, value_name = "FILE", group = "workload")]
    pub(crate) messages: Option<PathBuf>,
    /// Stop after N passes through the file; a replay makes one by default
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) runs: Option<u64>,
    /// Use each query of the file with this probability (above 0, up to 1) [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, requires = "queries")]
    pub(crate) probability: Option<f64>,
    /// Skip lines of the file that are no queries, and report how many and which; else they are an error
    #[arg(long, requires = "queries")]
    pub(crate) skip_bad: bool,
    /// Ask for random names below this zone
    #[arg(long, value_name = "ZONE", group = "workload")]
    pub(crate) random_subdomain: Option<Name>,
    /// Ask for names `n<k>` of this zone by Zipf's law, with --mix-repeats and --mix-missing
    #[arg(long, value_name = "ZONE", group = "workload")]
    pub(crate) mix: Option<Name>,
    /// Number of popular names of a mix
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "mix")]
    pub(crate) mix_names: u32,
    /// Zipf's exponent of a mix
    #[arg(long, value_name = "S", default_value_t = 1.0, requires = "mix")]
    pub(crate) mix_exponent: f64,
    /// Share (0 to 1) of a mix's queries that repeat popular names
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, requires = "mix")]
    pub(crate) mix_repeats: f64,
    /// Share (0 to 1) of a mix's queries for names that do not exist (below nx.ZONE)
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "mix")]
    pub(crate) mix_missing: f64,
    /// The zone of the namespace
    #[arg(long, value_name = "ZONE", default_value = DEFAULT_ZONE)]
    pub(crate) zone: Name,
    /// Names without leading zeros (10-1-2-3), as dns64perf and dns64perf2 query them, in place of 010-001-002-003
    #[arg(long)]
    pub(crate) unpadded: bool,
    /// Type of the queries, or several in turn (A,AAAA,MX) [default: AAAA; a file has its own
    /// types, a namespace takes one type]
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', action = ArgAction::Set)]
    pub(crate) qtype: Vec<Qtype>,
    /// Class of the queries, such as CH for `--name version.bind --type TXT` [default: IN]
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["namespace", "queries", "messages"])]
    pub(crate) class: Option<Qclass>,
    /// Replies must hold the IPv4 address of the name embedded in this prefix [default: in any prefix]
    #[arg(long, value_name = "PREF64")]
    pub(crate) expect_pref64: Option<Pref64>,
    /// What a valid reply is: answered (NOERROR or NXDOMAIN), noerror, aaaa (any such record), nodata (NOERROR without an answer), return
    /// codes (servfail,refused), or file: the word after the type on each line of --queries, as in `www.test A servfail`
    /// [default: for A and AAAA of a namespace the name's address, else answered]
    #[arg(long, value_parser = parse_expect, value_name = "WHAT", conflicts_with = "expect_pref64")]
    pub(crate) expect: Option<Expect>,
    /// The first name of the namespace to use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) first_name: u64,
    /// Number of names to use, from the first one on [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) names: Option<u64>,
    /// Start again with the first name after the last one
    #[arg(long)]
    pub(crate) reuse_names: bool,
    /// Share (0 to 1) of queries for names of the namespace that were queried before
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) repeat_share: f64,
    /// Number of names that are repeated, each as often
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) repeat_names: u64,
    /// Do not set the RD bit
    #[arg(long)]
    pub(crate) no_recursion: bool,
    /// Send EDNS(0) with this UDP size
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "1232")]
    pub(crate) edns: Option<u16>,
    /// Send EDNS(0) with the DO bit
    #[arg(long)]
    pub(crate) dnssec: bool,
    /// Send this EDNS option (CODE or CODE:HEX); may be repeated
    #[arg(long, value_name = "CODE:HEX")]
    pub(crate) edns_option: Vec<String>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Reads the expectation of replies.
fn parse_expect(text: &str) -> Result<Expect, String> {
    let words =
        [Expect::Answered, Expect::NoError, Expect::AnyAaaa, Expect::NoData, Expect::EachLine];
    if let Some(known) = words.into_iter().find(|known| known.word() == text) {
        return Ok(known);
    }
    let words = "write answered, noerror, aaaa, nodata, file, or return codes";
    text.parse::<Rcodes>().map_err(|why| format!("{why}: {words}"))?;
    Ok(Expect::Rcodes(text.to_ascii_lowercase()))
}

impl WorkloadArgs {
    /// Returns the types of --type, as they are typed; `None` without the option.
    fn types(&self) -> Option<String> {
        let types: Vec<String> = self.qtype.iter().map(ToString::to_string).collect();
        (!types.is_empty()).then(|| types.join(","))
    }

    /// Returns the workload of a request.
    pub(crate) fn request(&self) -> anyhow::Result<Workload> {
        let expect = self.expect.clone().unwrap_or(Expect::Answered);
        let qtype = self.types().unwrap_or_else(|| Qtype::AAAA.to_string());
        let query = self.query();
        if self.runs.is_some() && self.queries.is_none() && self.messages.is_none() {
            bail!(
                "--runs counts passes through a file: use it with --queries, --messages or --replay"
            );
        }
        let other = self.has_other_names();
        if self.expect_pref64.is_some() && other {
            bail!("--expect-pref64 needs names that encode addresses: use it with --namespace");
        }
        if self.unpadded && other {
            bail!("--unpadded changes the names of a namespace: use it with --namespace");
        }
        if let Some(path) = &self.queries {
            if !self.qtype.is_empty() {
                bail!("--type does not go with --queries: the file has the type of each query");
            }
            return Ok(Workload::QueryFile {
                path: path.clone(),
                expect,
                query,
                runs: self.runs,
                probability: self.probability,
                skip_bad: self.skip_bad,
            });
        }
        if let Some(path) = &self.messages {
            return Ok(Workload::Messages { path: path.clone(), expect, runs: self.runs });
        }
        if let Some(name) = &self.name {
            return Ok(Workload::Name { name: name.to_string(), qtype, expect, query });
        }
        if let Some(zone) = &self.random_subdomain {
            return Ok(Workload::RandomSubdomain { zone: zone.to_string(), qtype, expect, query });
        }
        if let Some(zone) = &self.mix {
            return Ok(Workload::Mix {
                zone: zone.to_string(),
                names: self.mix_names,
                exponent: self.mix_exponent,
                repeats: self.mix_repeats,
                missing: self.mix_missing,
                qtype,
                expect,
                query,
            });
        }
        if self.qtype.len() > 1 {
            bail!("--type {qtype}: the names of a namespace are queried for one type");
        }
        if self.class.is_some() {
            bail!(
                "--class: the names of a namespace are of class IN: use it with --name, --random-subdomain or --mix"
            );
        }
        Ok(Workload::Namespace(self.names(qtype, query)))
    }

    /// Returns the failure of the first queries; if no argument gave names and the server has not those of the default, that is the
    /// cause.
    pub(crate) fn with_default(&self, failure: Failure) -> Failure {
        let given = self.namespace.is_some() || self.has_other_names();
        match failure {
            Failure::Failed(error) if !given => {
                let cause = format!(
                    "no names were given, so the names of `dnsdyno auth` were queried (010-000-000-000.{}): give --queries FILE or --name NAME",
                    self.zone
                );
                let no_answer = error.downcast_ref::<NoAnswer>();
                Failure::Failed(match no_answer.and_then(|no_answer| no_answer.code.as_ref()) {
                    Some(code) => anyhow!("{cause}; every answer was {code}"),
                    None => anyhow!("{error}; {cause}"),
                })
            }
            other => other,
        }
    }

    /// Returns whether the names are not from a namespace.
    fn has_other_names(&self) -> bool {
        self.queries.is_some()
            || self.messages.is_some()
            || self.name.is_some()
            || self.random_subdomain.is_some()
            || self.mix.is_some()
    }

    fn names(&self, qtype: String, query: Query) -> Names {
        let prefix = self.namespace.unwrap_or_else(|| "10.0.0.0/8".parse().expect("a prefix"));
        let expect = match (self.expect_pref64, self.expect.clone(), self.qtype.first().copied()) {
            (Some(pref64), _, _) => NamespaceExpect::Embedded(ipv6_net(pref64)),
            (None, Some(expect), _) => NamespaceExpect::Same(expect),
            (None, None, Some(Qtype::A)) => NamespaceExpect::Address,
            (None, None, None | Some(Qtype::AAAA)) => NamespaceExpect::AnyPrefix,
            (None, None, _) => NamespaceExpect::Same(Expect::NoError),
        };
        let repeats = Repeats { share: self.repeat_share, names: self.repeat_names };
        Names {
            prefix: ipv4_net(prefix),
            zone: self.zone.to_string(),
            unpadded: self.unpadded,
            qtype,
            expect,
            first: self.first_name,
            names: self.names,
            reuse: self.reuse_names,
            repeats: (self.repeat_share != 0.0).then_some(repeats),
            query,
        }
    }

    fn query(&self) -> Query {
        let wanted = self.edns.is_some() || self.dnssec || !self.edns_option.is_empty();
        let edns =
            Edns { udp_size: self.edns, dnssec: self.dnssec, options: self.edns_option.clone() };
        let class = self.class.map(|class| class.to_string());
        Query { recursion: !self.no_recursion, class, edns: wanted.then_some(edns) }
    }
}
