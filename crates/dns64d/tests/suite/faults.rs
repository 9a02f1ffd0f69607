//! dns64d with faults: upstreams that are silent, slow, forged, cut off or dead; clients that flood; reloads
//! under load.
//!
//! The tests assert the outcome, never the time it takes: who gets which answer, and which limits hold.

mod clients;
mod operation;
mod upstreams;

use std::time::{Duration, Instant};

use crate::kit::client::Query;
use crate::kit::message::Reply;
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// Longest wait for an event that must happen: longer than it takes on the busiest machine.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);
/// Address of every name in these scripts, and the address synthesised from it.
pub(crate) const A: &str = "$ 60 A 192.0.2.33";
pub(crate) const SYNTHESISED: &str = "2001:db8:64::c000:221";

/// Starts an upstream with A but no AAAA for every name.
pub(crate) fn ipv4_only() -> Script {
    let script = Script::start(&[]);
    script.others(domain::base::iana::Rtype::A, A);
    script
}

/// Starts dns64d with these upstreams.
pub(crate) fn dns64d(upstreams: &[&Script], config: &str) -> Server {
    let upstreams: Vec<_> = upstreams.iter().map(|script| script.address()).collect();
    Server::start(Kind::Dns64d, &upstreams, config).expect("it starts")
}

/// Returns whether a reply has the right synthesised address and nothing else.
pub(crate) fn is_right(reply: &Reply) -> bool {
    let [seen] = &reply.answer[..] else { return false };
    reply.rcode == "NOERROR" && seen.data == SYNTHESISED
}

/// Waits until a condition is true.
pub(crate) fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    let mut is_so = is_so;
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < MAX_WAIT, "not within {MAX_WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Queries new names until one gets the right answer: the service continues.
fn recovers(server: &Server, label: &str) {
    let mut n = 0;
    wait_for("a right answer", || {
        n += 1;
        // A query may still be dropped if that is the policy.
        let query = Query::parse(&format!("{label}-{n}.example AAAA"));
        query.ask(server.address(), Duration::from_secs(1)).is_some_and(|reply| is_right(&reply))
    });
}
