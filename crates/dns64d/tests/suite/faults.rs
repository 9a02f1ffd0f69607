//! dns64d among faults: upstreams that are silent, slow, lie, cut short or die; clients that flood; reloads under load.
//!
//! What is asserted is what comes of it, never how quickly: who is answered, with what, and what is bounded.

mod clients;
mod operation;
mod upstreams;

use std::time::{Duration, Instant};

use crate::kit::client::Query;
use crate::kit::message::Reply;
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// How long something that must happen is waited for: longer than it takes on the busiest of machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// What every name has in these scripts, and the address that is made of it.
const A: &str = "$ 60 A 192.0.2.33";
pub(crate) const SYNTHESISED: &str = "2001:db8:64::c000:221";

/// An upstream that has A and no AAAA for every name.
pub(crate) fn ipv4_only() -> Script {
    let script = Script::start(&[]);
    script.others(domain::base::iana::Rtype::A, A);
    script
}

/// dns64d before some upstreams.
pub(crate) fn dns64d(upstreams: &[&Script], config: &str) -> Server {
    let upstreams: Vec<_> = upstreams.iter().map(|script| script.address()).collect();
    Server::start(Kind::Dns64d, &upstreams, config).expect("it starts")
}

/// Whether a reply is the synthesised address that it should be, and nothing else.
pub(crate) fn is_right(reply: &Reply) -> bool {
    let [seen] = &reply.answer[..] else { return false };
    reply.rcode == "NOERROR" && seen.data == SYNTHESISED
}

/// Waits until something is so.
pub(crate) fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    let mut is_so = is_so;
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks for fresh names until one is answered rightly: service goes on.
fn recovers(server: &Server, label: &str) {
    let mut n = 0;
    wait_for("a right answer", || {
        n += 1;
        // A query may still be dropped, where that is the policy.
        let query = Query::parse(&format!("{label}-{n}.example AAAA"));
        query.ask(server.address(), Duration::from_secs(1)).is_some_and(|reply| is_right(&reply))
    });
}
