//! Sentences about cores and connections, and longer advice; void trials and proofs use some of
//! them too.

use super::CoreUser;

/// Returns the sentence about other processes on the server's cores, in percent of these cores.
pub(crate) fn foreign_on_server(percent: &str) -> String {
    format!("processes that are not of the testbed used {percent} % of the server's cores")
}

/// Returns the sentence about a server that waited, in percent of the time.
pub(crate) fn server_waited(percent: &str) -> String {
    format!("the server waited {percent} % of the time for its cores while others ran there")
}

/// Returns the sentence about a server's slow cores, in percent of their speed.
pub(crate) fn slow_core(percent: &str) -> String {
    format!("the server's core was {percent} % slower than at its best")
}

/// Returns the sentence about connections without a reply, of all attempted ones.
pub(crate) fn places(unanswered: &str, connections: u64, at_once: u64) -> String {
    format!(
        "{unanswered} of {connections} connections got no reply at all; at most {at_once} were answered at the same time"
    )
}

/// Names cores: `its core 1`, `the server's cores 1, 2`; `its cores` where they are not known.
pub(crate) fn cores(whose: &str, cpus: &[usize]) -> String {
    let numbers: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    match numbers.len() {
        0 => format!("{whose} cores"),
        1 => format!("{whose} core {}", numbers[0]),
        _ => format!("{whose} cores {}", numbers.join(", ")),
    }
}

/// Returns the sentence about processes on the Tester's cores, in percent of these.
pub(super) fn core_taken(by: &str, cpus: &[usize], percent: &str) -> String {
    format!("{by} used {percent} % of {}", cores("the Tester's", cpus))
}

/// Returns the sentence about one process on the Tester's cores, which may be the server.
pub(super) fn core_user(by: &CoreUser, is_server: bool, cpus: &[usize], percent: &str) -> String {
    let who = if is_server { ", the measured server," } else { "" };
    core_taken(&format!("{by}{who}"), cpus, percent)
}

/// Largest number of programs that are named; of more only their number.
const MAX_NAMES: usize = 4;

/// Lists names, each once: "cc, ld, and 2 more".
pub(super) fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    let more = once.split_off(once.len().min(MAX_NAMES)).len();
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{rest}", once.join(", "))
}

/// Returns advice about cores that `it` uses; `free` is a core that others do not use.
pub(super) fn other_core(free: Option<usize>, it: &str) -> String {
    match free {
        Some(free) => {
            format!(
                "keep {it} away, or give the Tester a core that others do not use: --cpus {free}"
            )
        }
        None => format!("keep {it} away, or stop {it}"),
    }
}

/// Returns advice about the measured server, process `pid`, on the Tester's cores `cpus`.
pub(super) fn core_for_server(pid: u32, cpus: &[usize], free: Option<usize>) -> String {
    match (cpus, free) {
        ([first, .., last], _) => format!(
            "give each a core of its own: `taskset -acp {last} {pid}` for the server, --cpus {first} for the Tester"
        ),
        (_, Some(free)) => format!("give it a core of its own: `taskset -acp {free} {pid}`"),
        (_, None) => "give it a core of its own".to_owned(),
    }
}

/// Returns the sentence about a core that the Tester did not use.
pub(super) fn core_avoided(by: &CoreUser, cpu: usize, instead: usize) -> String {
    format!("{by} is bound to core {cpu}: the Tester ran on core {instead}")
}

/// Returns advice about too few places for connections.
pub(super) fn more_places(at_once: u64) -> String {
    format!(
        "the server has a limit of connections (Unbound: incoming-num-tcp, BIND: tcp-clients, \
        NSD: tcp-count): raise it, or give --clients {at_once}"
    )
}

/// Returns a number, or a range, with the noun for one thing or that for several.
pub(super) fn counted(number: &str, [one, several]: [&str; 2]) -> String {
    format!("{number} {}", if number == "1" { one } else { several })
}

/// Returns the sentence about this number of connections that failed.
pub(super) fn connections_failed(connections: &str, why: &str) -> String {
    format!("{} failed: {why}", counted(connections, ["connection", "connections"]))
}

/// Returns the sentence about this number of queries that failed.
pub(super) fn queries_failed(queries: &str, why: &str) -> String {
    format!("{} failed: {why}", counted(queries, ["query", "queries"]))
}

/// Returns the sentence about a target at which no program listened.
pub(super) fn nobody_listened(times: &str, target: &str) -> String {
    format!("{} no program listened at {target} (ICMP)", counted(times, ["time", "times"]))
}

/// Returns the sentence about planned queries that were not sent.
pub(super) fn not_offered(queries: &str) -> String {
    counted(queries, ["planned query was", "planned queries were"]) + " not sent in time"
}

/// Returns the sentence about datagrams that never left.
pub(super) fn not_sent(datagrams: &str) -> String {
    let datagrams = counted(datagrams, ["datagram", "datagrams"]);
    format!("the kernel did not take {datagrams} for sending")
}

/// Returns the sentence about replies without a query.
pub(super) fn unexpected(replies: &str) -> String {
    counted(replies, ["reply belongs", "replies belong"]) + " to no query"
}

/// Returns the sentence about a server that fell behind by this number of queries.
pub(super) fn not_sustained(queries: &str) -> String {
    let queries = counted(queries, ["more query was", "more queries were"]);
    format!("{queries} outstanding at the end than in the middle")
}

/// Returns the sentence about streams that the server refused.
pub(super) fn streams_refused(streams: &str) -> String {
    let streams = counted(streams, ["stream, which was", "streams, which were"]);
    format!("the server refused {streams} opened again")
}

/// Advice if no port is free.
pub(super) const FREE_PORTS: &str = "this host's ports are used up: use more --source addresses, --close reset, or set \
                                     net.ipv4.tcp_tw_reuse=1 and widen net.ipv4.ip_local_port_range";
