//! The characterisation of a capture.

use serde::{Deserialize, Serialize};

/// What a capture holds (ISC-TN-2008-1 section 5.1, and beside it sizes and clients).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceStats {
    /// The version of this form.
    pub schema: u32,
    /// The captures read, in order.
    pub captures: Vec<String>,
    /// Why reading ended before the end, if it did: the rest stands for what was read.
    pub incomplete: Option<String>,
    /// The first message's time, RFC 3339.
    pub start: String,
    /// From the first message to the last, seconds.
    pub duration_s: f64,
    /// `queries`, or `replies` in a capture that holds no queries: what stands for a request.
    pub requests_are: String,
    /// Requests.
    pub requests: u64,
    /// Replies of another opcode than QUERY or another return code than NOERROR.
    pub failed: u64,
    /// Requests per second.
    pub rates: TraceRates,
    /// Requests of opcode QUERY.
    pub query_requests: u64,
    /// Replies of opcode QUERY with another return code than NOERROR.
    pub query_failed: u64,
    /// Queries with the RD bit.
    pub recursion_desired: u64,
    /// Replies with the AA bit.
    pub authoritative: u64,
    /// Replies with the TC bit.
    pub truncated: u64,
    /// Queries.
    pub queries: TraceDirection,
    /// Replies.
    pub replies: TraceDirection,
    /// Packets, and what could not be read.
    pub packets: TracePackets,
    /// By class and type of opcode QUERY, most requests first.
    pub types: Vec<TraceType>,
    /// Replies by return code and messages by opcode other than QUERY, most first.
    pub return_codes: Vec<TraceCode>,
    /// Opcodes other than QUERY.
    pub opcodes: Vec<TraceCode>,
    /// Who asked.
    pub clients: TraceClients,
    /// Messages in time.
    pub series: TraceSeries,
}

/// Requests per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRates {
    /// Over the whole capture.
    pub average: f64,
    /// Which 95 % of the windows do not exceed.
    pub p95_burst: f64,
    /// Of the fullest window.
    pub max_burst: f64,
    /// The length of a window, seconds.
    pub window_s: f64,
}

/// Queries, or replies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceDirection {
    /// Messages.
    pub messages: u64,
    /// Over TCP.
    pub tcp: u64,
    /// Over IPv6.
    pub ipv6: u64,
    /// Put together from IP fragments.
    pub fragmented: u64,
    /// With an OPT record.
    pub edns: u64,
    /// With the DO bit.
    pub dnssec_ok: u64,
    /// The mean length, bytes.
    pub size_mean: f64,
    /// Lengths that 50, 95, 99 and 100 % do not exceed, bytes.
    pub size_p50_p95_p99_max: [u64; 4],
    /// Lengths in steps of 64 bytes: the least length of each step, and messages.
    pub sizes: Vec<(u64, u64)>,
}

/// Packets, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TracePackets {
    /// All.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// TCP of the ports of DNS.
    pub tcp: u64,
    /// Its connections.
    pub tcp_sessions: u64,
    /// Of them without FIN and RST.
    pub tcp_never_closed: u64,
    /// Gaps in its streams that nothing filled.
    pub tcp_gaps: u64,
    /// IP fragments.
    pub fragments: u64,
    /// Packets whose fragments did not all come.
    pub unfinished: u64,
    /// Frames without IP.
    pub not_ip: u64,
    /// IP of other protocols and ports.
    pub other: u64,
    /// IP whose headers cannot be read.
    pub malformed: u64,
    /// Frames of unknown link types.
    pub unknown_link: u64,
    /// Messages shorter than a header.
    pub messages_headless: u64,
    /// Messages that do not hold what their header announces, or more.
    pub messages_malformed: u64,
    /// Messages of which the capture holds the beginning only.
    pub messages_cut: u64,
}

/// A class and type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceType {
    /// `IN`, `CH`, `CLASS7`, ...; empty where the question cannot be read.
    pub class: String,
    /// The type; empty where the question cannot be read.
    pub name: String,
    /// Queries.
    pub queries: u64,
    /// Replies.
    pub replies: u64,
    /// Replies with another return code than NOERROR.
    pub failed: u64,
}

/// A return code or an opcode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceCode {
    /// Its name.
    pub name: String,
    /// Requests with it (of a return code: replies).
    pub count: u64,
}

/// Who asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceClients {
    /// Clients told apart.
    pub distinct: u64,
    /// Requests of further clients, when the table was full.
    pub beyond: u64,
    /// So many clients make half of the requests.
    pub half: u64,
    /// So many make nine in ten.
    pub nine_tenths: u64,
    /// The busiest ones and their requests.
    pub busiest: Vec<(String, u64)>,
    /// Shares of the requests that the busiest 1, 2, 4, ... clients make.
    pub curve: Vec<(u64, f64)>,
}

/// Messages in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSeries {
    /// The length of a bin, seconds.
    pub bin_s: f64,
    /// When the first bin begins, RFC 3339.
    pub start: String,
    /// Queries in each bin.
    pub queries: Vec<u64>,
    /// Replies in each bin.
    pub replies: Vec<u64>,
}
