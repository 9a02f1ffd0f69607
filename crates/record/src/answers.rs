//! Answers of several servers to the same queries, compared.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Result of a comparison of answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerDiff {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Version of dnsdyno that compared.
    pub version: String,
    /// Time of the start, seconds since 1970.
    pub started_unix_s: f64,
    /// Duration of the comparison, in seconds.
    pub elapsed_s: f64,
    /// Reason why the comparison ended early, if it did; the counts cover the part before that.
    pub incomplete: Option<String>,
    /// Sources of the queries: files.
    pub queries_from: Vec<String>,
    /// Number of queries in these files.
    pub queries: u64,
    /// Number of queries sent, once or twice.
    pub asked: u64,
    /// Number of queries with equal answers of all servers.
    pub equal: u64,
    /// Number of queries whose answers differ, both times, beyond what is known.
    pub differ: u64,
    /// Number of queries whose answers differ as is known.
    pub known: u64,
    /// Number of queries whose answers differ, but not both times, or of which a server contradicts itself.
    pub unstable: u64,
    /// Number of queries whose answers differ and that were not asked twice, because the comparison ended early.
    pub unchecked: u64,
    /// Largest rate of queries to each server, queries a second; `None` for the times of the capture.
    pub rate_qps: Option<f64>,
    /// Number of queries under way at once.
    pub window: u32,
    /// Timeout of a reply, in seconds.
    pub timeout_s: f64,
    /// Difference that TTLs may have: `any`, `5s`, `10%`.
    pub ttl: String,
    /// Kinds of differences that are not compared.
    pub ignored: Vec<String>,
    /// The servers, in the order of the arguments.
    pub servers: Vec<AnswerServer>,
    /// Kinds of differences that were found, in their order.
    pub kinds: Vec<AnswerKind>,
    /// Every two servers that differ.
    pub pairs: Vec<AnswerPair>,
}

/// A server of a comparison, with the outcomes of the first round of queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerServer {
    /// The server as the user named it; `captured` for the replies of a capture.
    pub name: String,
    /// Number of replies that can be parsed.
    pub replies: u64,
    /// Number of replies that cannot be parsed.
    pub malformed: u64,
    /// Number of queries without a reply in time; of a capture, without a reply in it.
    pub timeouts: u64,
    /// Number of queries that ended with an error of the socket.
    pub errors: u64,
    /// Number of replies over TCP, after a truncated one.
    pub over_tcp: u64,
    /// Number of replies by return code.
    pub rcodes: BTreeMap<String, u64>,
    /// Number of queries, of those that differ, which all other servers answer alike; `None` with
    /// two servers.
    pub alone: Option<u64>,
}

/// Differences of one kind. Each query has one kind, the first in which it differs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerKind {
    /// The kind: `timeout`, `error`, `malformed`, `question`, `rcode`, `flags`, `answer`, `signatures`, `authority`, `additional`,
    /// `edns`, `ttl`.
    pub kind: String,
    /// Number of queries of this kind that differ beyond known differences.
    pub differ: u64,
    /// Number of differences of this kind that are known.
    pub known: u64,
    /// Number of differences of this kind that are unstable.
    pub unstable: u64,
    /// Number of queries that differ or are known and have this kind among others.
    pub among: u64,
    /// The first queries of this kind, for each verdict.
    pub samples: Vec<AnswerDifference>,
}

/// Two servers, and the number of their differing answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerPair {
    /// Number of the first server, from 0.
    pub first: usize,
    /// Number of the second server.
    pub second: usize,
    /// Number of queries, known ones among them, that they answer differently.
    pub differ: u64,
    /// Number of these queries by the first kind in which the two answers differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
}

impl AnswerPair {
    /// Returns whether the pair consists of these two servers, in any order.
    pub fn is_of(&self, one: usize, other: usize) -> bool {
        [(one, other), (other, one)].contains(&(self.first, self.second))
    }
}

/// Verdict on a query whose answers differ.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AnswerVerdict {
    /// The answers differ, both times, beyond known differences.
    #[default]
    Differs,
    /// The difference is in the file of known ones.
    Known,
    /// They do not differ both times, or a server contradicts itself.
    Unstable,
}

measure::words! { AnswerVerdict { Differs = "differs", Known = "known", Unstable = "unstable" } }

/// A query whose answers differ; a line of JSON Lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerDifference {
    /// Number of the query, from 0.
    pub number: u64,
    /// Name in the question, as in a zone file.
    pub name: String,
    /// Class in the question, such as `IN`.
    pub class: String,
    /// Type in the question, such as `AAAA`.
    #[serde(rename = "type")]
    pub qtype: String,
    /// Verdict: whether the difference counts, and why not.
    pub verdict: AnswerVerdict,
    /// The kind: the first of `kinds`, or of the unknown ones.
    pub kind: String,
    /// All kinds of differences; for an unstable query of its first comparison.
    pub kinds: Vec<String>,
    /// Numbers of the servers, grouped by equal answers.
    pub groups: Vec<Vec<usize>>,
    /// Answer of each server in the second round; in the first one for an unstable query.
    pub answers: Vec<AnswerSeen>,
}

/// Answer of a server to one query.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerSeen {
    /// `reply`, `malformed`, `timeout` or `error`.
    pub outcome: String,
    /// The error, or the octets of a malformed reply in hexadecimal.
    pub detail: Option<String>,
    /// Whether the answer came over TCP, after a truncated reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
    /// The return code, such as `NOERROR`; empty without a reply.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rcode: String,
    /// The opcode unless it is QUERY, and the flags, as in `aa rd ra`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub flags: String,
    /// The question, if it differs from the query's.
    pub question: Option<String>,
    /// Records of the answer section, sorted, as in a zone file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answer: Vec<String>,
    /// Records of the authority section.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authority: Vec<String>,
    /// Records of the additional section, without the OPT record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional: Vec<String>,
    /// Version, size, DO bit and options of the OPT record, if there is one.
    pub edns: Option<String>,
}
