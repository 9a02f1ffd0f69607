//! What is asked, and what the answers must say. Names, types and options of DNS are texts here.

use std::path::PathBuf;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// The dns64perf names of a block of IPv4 addresses, each once.
    Namespace(Names),
    /// The queries of a file, again and again.
    QueryFile {
        /// The file: `name type` a line.
        path: PathBuf,
        /// What the replies must say.
        expect: Expect,
        /// How queries are composed.
        query: Query,
    },
    /// The same name each time.
    Name {
        /// The name.
        name: String,
        /// Type asked for.
        qtype: String,
        /// What the replies must say.
        expect: Expect,
        /// How queries are composed.
        query: Query,
    },
    /// Random names below a zone.
    RandomSubdomain {
        /// The zone.
        zone: String,
        /// Type asked for.
        qtype: String,
        /// What the replies must say.
        expect: Expect,
        /// How queries are composed.
        query: Query,
    },
    /// Names of a zone, some asked for again and again, some new, some missing.
    Mix {
        /// The zone.
        zone: String,
        /// Number of names that are popular to some degree.
        names: u32,
        /// Zipf's exponent of their popularity.
        exponent: f64,
        /// Share (0 to 1) of queries that repeat popular names, of those for names that exist.
        repeats: f64,
        /// Share (0 to 1) of queries for names that do not exist.
        missing: f64,
        /// Type asked for.
        qtype: String,
        /// What the replies must say.
        expect: Expect,
        /// How queries are composed.
        query: Query,
    },
    /// The queries of a capture, when they came.
    Replay {
        /// The capture.
        capture: PathBuf,
        /// Factor by which the replay is faster than the capture.
        speed: f64,
        /// Ports whose traffic in the capture is DNS.
        ports: Vec<u16>,
    },
}

/// Names of a namespace that are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// Block of addresses.
    pub prefix: Ipv4Net,
    /// Zone in which the names lie.
    pub zone: String,
    /// Type asked for.
    pub qtype: String,
    /// What the replies must say.
    pub expect: NamespaceExpect,
    /// Number of the first name used.
    pub first: u64,
    /// Number of names used from there on; all that there are where it is absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub names: Option<u64>,
    /// Whether the first name follows the last one.
    pub reuse: bool,
    /// Names that are asked for again, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeats: Option<Repeats>,
    /// How queries are composed.
    pub query: Query,
}

impl Names {
    /// Returns how many names the block has.
    pub fn size(&self) -> u64 {
        1 << (self.prefix.max_prefix_len() - self.prefix.prefix_len())
    }
}

/// Names of a namespace that are asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// Share (0 to 1) of queries for names that were asked for before.
    pub share: f64,
    /// Number of names from which these are taken, evenly.
    pub names: u64,
}

/// How queries are composed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Whether recursion is desired (the RD bit).
    pub recursion: bool,
    /// EDNS(0); not sent where it is absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub edns: Option<Edns>,
}

/// EDNS(0) of a query (RFC 6891).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edns {
    /// Size of UDP messages that the client takes, bytes; the usual one where it is absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub udp_size: Option<u16>,
    /// Whether the DO bit is set.
    pub dnssec: bool,
    /// Options, each `CODE` or `CODE:HEX`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub options: Vec<String>,
}

/// What a reply must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// NOERROR or NXDOMAIN.
    Answered,
    /// NOERROR.
    NoError,
    /// Any AAAA record.
    AnyAaaa,
    /// NOERROR without an answer.
    NoData,
    /// NXDOMAIN.
    NxDomain,
}

/// What a reply to a query for a name of a namespace must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamespaceExpect {
    /// The name's own address, in an A record.
    Address,
    /// The name's address embedded in this prefix (RFC 6052), in an AAAA record.
    Embedded(Ipv6Net),
    /// The same for every name.
    Same(Expect),
}
