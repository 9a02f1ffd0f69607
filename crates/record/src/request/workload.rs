//! Queries of a trial and the expected answers. DNS names, types and options are texts here.

use std::path::PathBuf;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Queries of a trial, and the replies that are valid for them.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// The dns64perf names of a block of IPv4 addresses, each once.
    Namespace(Names),
    /// The queries of a file, repeated in a loop.
    QueryFile {
        /// Path of the file, with one `name type` on each line.
        path: PathBuf,
        /// Condition for a valid reply.
        expect: Expect,
        /// Flags, class and EDNS of the queries.
        query: Query,
        /// How often the file is used; again and again if absent.
        runs: Option<u64>,
        /// Share (above 0, up to 1) of the queries that is used, chosen by chance; all if absent.
        probability: Option<f64>,
        /// Whether lines that contain no query are skipped; otherwise they are errors.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        skip_bad: bool,
    },
    /// The messages of a file, as they are except for their ids.
    Messages {
        /// Path of the file, with each message after its length (2 octets), as on a TCP connection.
        path: PathBuf,
        /// What a valid reply says.
        expect: Expect,
        /// How often the file is used; again and again if absent.
        runs: Option<u64>,
    },
    /// The same name in each query.
    Name {
        /// Name of all queries.
        name: String,
        /// Type of the queries, or several in turn with commas between them.
        qtype: String,
        /// What a valid reply says.
        expect: Expect,
        /// Flags, class and EDNS of the queries.
        query: Query,
    },
    /// Random names below a zone.
    RandomSubdomain {
        /// Name of the zone that all names are below.
        zone: String,
        /// Type of the queries, or several in turn with commas between them.
        qtype: String,
        /// What a valid reply says.
        expect: Expect,
        /// Flags, class and EDNS of the queries.
        query: Query,
    },
    /// Names of a zone: some repeated, some new, some that do not exist.
    Mix {
        /// Name of the zone that all names are below.
        zone: String,
        /// Number of popular names, which repeats are drawn from.
        names: u32,
        /// Exponent of the Zipf distribution of their popularity.
        exponent: f64,
        /// Share (0 to 1) of the queries for existing names that repeat popular names.
        repeats: f64,
        /// Share (0 to 1) of queries for names that do not exist.
        missing: f64,
        /// Type of the queries, or several in turn with commas between them.
        qtype: String,
        /// What a valid reply says.
        expect: Expect,
        /// Flags, class and EDNS of the queries.
        query: Query,
    },
    /// The queries of a capture or of a population, at their recorded times. Over connections each
    /// client of the file has its own.
    Replay {
        /// Path of the capture or the population.
        capture: PathBuf,
        /// Factor by which the replay is faster than the capture.
        speed: f64,
        /// Ports whose traffic in the capture is DNS.
        ports: Vec<u16>,
        /// Number of times that the queries are sent, at least one.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        loops: u32,
    },
}

/// Returns the number of loops of a replay without one.
fn once() -> u32 {
    1
}

fn is_once(loops: &u32) -> bool {
    *loops == once()
}

/// Names of a namespace that are queried.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// Block of IPv4 addresses, each with a name.
    pub prefix: Ipv4Net,
    /// Zone that contains the names.
    pub zone: String,
    /// Whether the numbers in the names have no leading zeros, as in dns64perf and dns64perf2.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unpadded: bool,
    /// Type of the queries, such as `AAAA`.
    pub qtype: String,
    /// What a valid reply says.
    pub expect: NamespaceExpect,
    /// Number of the first name used.
    pub first: u64,
    /// Number of names used from there on; all remaining names if absent.
    pub names: Option<u64>,
    /// Whether the names start again after the last one.
    pub reuse: bool,
    /// Names that are queried again; absent if each is queried once.
    pub repeats: Option<Repeats>,
    /// Flags, class and EDNS of the queries.
    pub query: Query,
}

impl Names {
    /// Makes queries of an authoritative server for the AAAA records of all names of a block, each with the name's address
    /// embedded in `pref64`.
    pub fn embedded(prefix: Ipv4Net, zone: String, pref64: Ipv6Net) -> Self {
        Names {
            prefix,
            zone,
            unpadded: false,
            qtype: "AAAA".to_owned(),
            expect: NamespaceExpect::Embedded(pref64),
            first: 0,
            names: None,
            reuse: false,
            repeats: None,
            query: Query::plain(false),
        }
    }

    /// Returns the number of names of the block.
    pub fn size(&self) -> u64 {
        1 << (self.prefix.max_prefix_len() - self.prefix.prefix_len())
    }
}

/// Names of a namespace that are queried repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// Share (0 to 1) of queries that repeat a name.
    pub share: f64,
    /// Number of names from which repeated queries are drawn, uniformly.
    pub names: u64,
}

/// Form of the queries: flags, class and EDNS.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Whether recursion is desired (the RD bit).
    pub recursion: bool,
    /// Class of the queries; IN if absent. Those of a file and of a namespace are always of class IN.
    pub class: Option<String>,
    /// EDNS(0); not sent if absent.
    pub edns: Option<Edns>,
}

impl Query {
    /// Makes queries of class IN without EDNS.
    pub fn plain(recursion: bool) -> Self {
        Query { recursion, class: None, edns: None }
    }
}

/// EDNS(0) of a query (RFC 6891).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edns {
    /// Size of UDP messages that the client accepts, in bytes; the default if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub udp_size: Option<u16>,
    /// Whether the DO bit is set.
    pub dnssec: bool,
    /// Options, each `CODE` or `CODE:HEX`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub options: Vec<String>,
}

/// What a reply must say to be valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// NOERROR or NXDOMAIN is expected.
    Answered,
    /// NOERROR is expected, with or without an answer.
    NoError,
    /// Any AAAA record is expected.
    AnyAaaa,
    /// NOERROR without an answer is expected.
    NoData,
    /// One of these return codes is expected: names with commas between them.
    Rcodes(String),
    /// The reply given in the query's line of its file is expected.
    EachLine,
}

impl Expect {
    /// Returns the expectation's word in arguments.
    pub fn word(&self) -> &str {
        match self {
            Expect::Answered => "answered",
            Expect::NoError => "noerror",
            Expect::AnyAaaa => "aaaa",
            Expect::NoData => "nodata",
            Expect::Rcodes(names) => names,
            Expect::EachLine => "file",
        }
    }
}

/// Expected reply to a query for a name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamespaceExpect {
    /// The name's own address in an A record is expected.
    Address,
    /// The name's address embedded in this prefix (RFC 6052), in an AAAA record, is expected.
    Embedded(Ipv6Net),
    /// The name's address embedded under any prefix, in an AAAA record, is expected.
    AnyPrefix,
    /// The same reply is expected for every name.
    Same(Expect),
}
