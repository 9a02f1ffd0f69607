//! Statistics of a capture, as `dnsdyno trace stats` writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantiles;

/// Statistics of a capture (ISC-TN-2008-1 section 5.1, with sizes and clients).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStats {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Paths of the captures, in order.
    pub captures: Vec<String>,
    /// Reason why reading ended early, if it did; the statistics then describe the part that was read.
    pub incomplete: Option<String>,
    /// Time of the first message, RFC 3339.
    pub start: String,
    /// Time from the first message to the last, in seconds.
    pub duration_s: f64,
    /// Messages that count as requests: `queries`, or `replies` if the capture contains no queries.
    pub requests_are: String,
    /// Number of messages that count as requests.
    pub requests: u64,
    /// Number of replies with an opcode other than QUERY or a return code other than NOERROR.
    pub failed: u64,
    /// Number of queries to which the capture contains no reply.
    #[serde(default)]
    pub unanswered: u64,
    /// Times from a query to its reply, in seconds.
    #[serde(default)]
    pub latency_s: Quantiles,
    /// Messages whose times are a year or more away from most messages, and left out of `start`,
    /// `duration_s`, `rates` and `series`: the first time of each group (RFC 3339), and its number
    /// of messages.
    #[serde(default)]
    pub other_times: Vec<(String, u64)>,
    /// Rates of the requests: the mean, and bursts.
    pub rates: TraceRates,
    /// Number of requests with opcode QUERY.
    pub query_requests: u64,
    /// Number of replies with opcode QUERY and a return code other than NOERROR.
    pub query_failed: u64,
    /// Number of requests with the RD bit.
    pub recursion_desired: u64,
    /// Number of replies with opcode QUERY and the RD bit.
    #[serde(default)]
    pub recursive_replies: u64,
    /// Number of replies to recursive queries with a return code other than NOERROR.
    #[serde(default)]
    pub recursive_failed: u64,
    /// Number of replies with the AA bit.
    pub authoritative: u64,
    /// Number of replies with the TC bit.
    pub truncated: u64,
    /// Counts of the queries alone.
    pub queries: TraceDirection,
    /// Counts of the replies alone.
    pub replies: TraceDirection,
    /// Counts of packets, and of unreadable ones.
    pub packets: TracePackets,
    /// Classes and types of opcode QUERY, most requests first.
    pub types: Vec<TraceType>,
    /// Replies by return code and messages by opcode other than QUERY, most first.
    pub return_codes: Vec<TraceCode>,
    /// Number of messages by opcode other than QUERY, most first.
    pub opcodes: Vec<TraceCode>,
    /// Distribution of requests over clients.
    pub clients: TraceClients,
    /// Number of messages over time, in bins.
    pub series: TraceSeries,
}

/// Rates of requests, a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRates {
    /// Mean rate over the whole capture.
    pub average: f64,
    /// Rate that 95 % of the windows do not exceed.
    pub p95_burst: f64,
    /// Rate of the busiest window.
    pub max_burst: f64,
    /// Length of a window, in seconds.
    pub window_s: f64,
}

/// Statistics of queries, or of replies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceDirection {
    /// Number of messages in this direction.
    pub messages: u64,
    /// Number of messages over TCP.
    pub tcp: u64,
    /// Number of messages over IPv6.
    pub ipv6: u64,
    /// Number of messages reassembled from IP fragments.
    pub fragmented: u64,
    /// Number of messages with an OPT record.
    pub edns: u64,
    /// Number of messages with the DO bit.
    pub dnssec_ok: u64,
    /// Mean length of a message, in bytes.
    pub size_mean: f64,
    /// Lengths that 50, 95, 99 and 100 % do not exceed, in bytes.
    pub size_p50_p95_p99_max: [u64; 4],
    /// Lengths in steps of 64 bytes: the smallest length of each step, and the number of messages.
    pub sizes: Vec<(u64, u64)>,
}

/// Packets, and those that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracePackets {
    /// Number of all packets in the capture.
    pub packets: u64,
    /// Bytes of all packets on the wire.
    pub bytes: u64,
    /// Number of TCP packets of the DNS ports.
    pub tcp: u64,
    /// Number of TCP connections of the DNS ports.
    pub tcp_sessions: u64,
    /// Number of TCP connections without FIN and RST.
    pub tcp_never_closed: u64,
    /// Number of gaps in TCP streams that were never filled.
    pub tcp_gaps: u64,
    /// Number of packets that are IP fragments.
    pub fragments: u64,
    /// Number of packets with missing fragments.
    pub unfinished: u64,
    /// Number of frames without IP.
    pub not_ip: u64,
    /// Number of IP packets of other protocols and ports.
    pub other: u64,
    /// Number of IP packets with unreadable headers.
    pub malformed: u64,
    /// Number of frames of unknown link types.
    pub unknown_link: u64,
    /// Number of messages shorter than a header.
    pub messages_headless: u64,
    /// Number of messages of whose header the capture has only a part.
    #[serde(default)]
    pub messages_cut_headers: u64,
    /// Number of messages that are shorter or longer than their header announces.
    pub messages_malformed: u64,
    /// Number of messages that the capture cut off.
    pub messages_cut: u64,
    /// The most frequent kinds of packets that are not DNS, most first.
    #[serde(default)]
    pub others: Vec<TraceCode>,
    /// Other ports whose packets look like DNS messages, with the number of these, most first.
    #[serde(default)]
    pub dns_ports: Vec<(u16, u64)>,
}

impl TracePackets {
    /// Returns the number of packets on other ports that look like DNS, with the option that reads
    /// them; `None` if there are none.
    pub fn other_ports_note(&self) -> Option<String> {
        let ports: Vec<_> = self.dns_ports.iter().map(|(port, _)| port.to_string()).collect();
        let packets: u64 = self.dns_ports.iter().map(|(_, packets)| packets).sum();
        let look = if packets == 1 { "packet looks" } else { "packets look" };
        (packets > 0).then(|| format!("{packets} {look} like DNS: --dns-port {}", ports.join(",")))
    }
}

/// Counts of one class and type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceType {
    /// Class: `IN`, `CH`, `CLASS7`, ...; empty if the question cannot be read.
    pub class: String,
    /// Type; empty if the question cannot be read.
    pub name: String,
    /// Number of queries of this type.
    pub queries: u64,
    /// Number of replies of this type.
    pub replies: u64,
    /// Number of replies with a return code other than NOERROR.
    pub failed: u64,
}

/// Count of one return code, opcode, or kind of packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceCode {
    /// Name of the return code, the opcode, or the kind of packets.
    pub name: String,
    /// Number of requests with the opcode, of replies with the return code, or of these packets.
    pub count: u64,
}

/// How requests spread over clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceClients {
    /// Number of distinct clients, up to the table's limit.
    pub distinct: u64,
    /// Number of requests of further clients, after the table was full.
    pub beyond: u64,
    /// Number of clients that send half of the requests.
    pub half: u64,
    /// Number of clients that send nine tenths of the requests.
    pub nine_tenths: u64,
    /// Busiest clients and their requests.
    pub busiest: Vec<(String, u64)>,
    /// Shares (0 to 1) of the requests that the busiest 1, 2, 4, ... clients send.
    pub curve: Vec<(u64, f64)>,
}

/// Number of messages over time, in bins of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSeries {
    /// Length of a bin, in seconds.
    pub bin_s: f64,
    /// Start of the first bin, RFC 3339.
    pub start: String,
    /// Number of queries in each bin.
    pub queries: Vec<u64>,
    /// Number of replies in each bin.
    pub replies: Vec<u64>,
}
