//! Work of each AuthDNS on a host of its own: the number of its queries, and its share of each
//! server's queries.

use std::collections::BTreeMap;

use record::{AuthDnsShare, Run};

use crate::view::number::counted;
use crate::view::thousands;

/// Work of one AuthDNS in a run.
#[derive(Clone, Debug, Default)]
struct HostShare<'a> {
    /// Number of queries, by the server that asked.
    queries: BTreeMap<&'a str, u64>,
    /// Number of trials whose queries the AuthDNS did not report.
    unreported: usize,
    receive_drops: u64,
    /// Largest values of all trials: busy share of its cores, length of a stall.
    busy: f64,
    longest_stall_ms: f64,
}

impl<'a> HostShare<'a> {
    fn add(&mut self, server: &'a str, one: &AuthDnsShare) {
        *self.queries.entry(server).or_default() += one.queries.unwrap_or(0);
        self.unreported += usize::from(one.queries.is_none());
        self.receive_drops += one.receive_drops;
        self.busy = self.busy.max(one.busy);
        self.longest_stall_ms = self.longest_stall_ms.max(one.longest_stall_ms);
    }

    /// Returns a line; `all` are the queries that all AuthDNS had, by server.
    fn line(&self, host: &str, all: &BTreeMap<&str, u64>) -> String {
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let of = |server: &str| self.queries.get(server).copied().unwrap_or(0);
        let each = all
            .iter()
            .map(|(server, whole)| format!("{server} {:.0} %", percent(of(server), *whole)));
        let each = match all.len() {
            0 | 1 => String::new(),
            _ => format!("; of the queries of {}", each.collect::<Vec<_>>().join(", ")),
        };
        let (own, whole): (u64, u64) = (self.queries.values().sum(), all.values().sum());
        let unreported = match self.unreported {
            0 => String::new(),
            some => format!(", {} not counted", counted(some, "trial", "trials")),
        };
        format!(
            "{host}: {} queries{unreported} ({:.0} % of all{each}), cores up to {:.0} % busy{}",
            thousands(own as f64),
            percent(own, whole),
            self.busy * 100.0,
            problems(self.receive_drops, self.longest_stall_ms)
        )
    }
}

/// Returns a line on each AuthDNS that had a host of its own in the trials of the servers; none without such hosts.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let mut hosts: Vec<(&str, HostShare<'_>)> = Vec::new();
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for cell in &run.results {
        for one in cell.trials.iter().flat_map(|one| &one.trial.authdns) {
            let at = hosts.iter().position(|(host, _)| *host == one.host).unwrap_or_else(|| {
                hosts.push((&one.host, HostShare::default()));
                hosts.len() - 1
            });
            hosts[at].1.add(&cell.server, one);
            *all.entry(cell.server.as_str()).or_default() += one.queries.unwrap_or(0);
        }
    }
    hosts.iter().map(|(host, share)| share.line(host, &all)).collect()
}

/// Returns the work of one AuthDNS in a trial.
pub(crate) fn one(share: &AuthDnsShare) -> String {
    let queries =
        share.queries.map_or("the number of its queries is not known".to_owned(), |queries| {
            format!("{} queries", thousands(queries as f64))
        });
    let trouble = problems(share.receive_drops, share.longest_stall_ms);
    format!("{queries}, cores {:.0} % busy{trouble}", share.busy * 100.0)
}

/// Returns the problems on the host of an AuthDNS, if there were any.
fn problems(receive_drops: u64, longest_stall_ms: f64) -> String {
    let drops = match receive_drops {
        0 => String::new(),
        some => format!(", {} datagrams dropped", thousands(some as f64)),
    };
    let stall = match longest_stall_ms > 0.0 {
        true => format!(", stalls up to {longest_stall_ms:.1} ms"),
        false => String::new(),
    };
    drops + &stall
}

#[cfg(test)]
mod tests {
    use record::{CellRecord, Trial, TrialRecord};

    use super::*;

    #[test]
    fn each_authdns_has_a_line_with_its_share() {
        let trial = crate::tests::trial();
        let share = |host: &str, queries, busy| AuthDnsShare {
            host: host.to_owned(),
            queries,
            busy,
            ..AuthDnsShare::default()
        };
        let cell = |server: &str, authdns: Vec<AuthDnsShare>| {
            let mut cell = CellRecord::new(server, Default::default(), "search");
            let trial = Trial { authdns, ..trial.clone() };
            cell.trials = vec![TrialRecord { repeat: 0, rate_qps: 1.0, trial }; 2];
            cell
        };
        let run = |results| lines(&Run { results, ..Run::default() });
        assert!(run(vec![cell("unbound", Vec::new())]).is_empty());
        let even = cell("unbound", vec![share("b", Some(600), 0.5), share("c", Some(400), 0.25)]);
        let first =
            AuthDnsShare { receive_drops: 3, longest_stall_ms: 1.5, ..share("b", Some(500), 0.9) };
        let uneven = cell("dns64d", vec![first, share("c", None, 0.0)]);
        assert_eq!(
            run(vec![even.clone()]),
            [
                "b: 1,200 queries (60 % of all), cores up to 50 % busy",
                "c: 800 queries (40 % of all), cores up to 25 % busy"
            ]
        );
        assert_eq!(
            run(vec![even, uneven]),
            [
                "b: 2,200 queries (73 % of all; of the queries of dns64d 100 %, unbound 60 %), cores up to 90 % busy, 6 datagrams dropped, stalls up to 1.5 ms",
                "c: 800 queries, 2 trials not counted (27 % of all; of the queries of dns64d 0 %, unbound 40 %), cores up to 25 % busy"
            ]
        );
        assert_eq!(one(&share("c", Some(7), 0.5)), "7 queries, cores 50 % busy");
    }
}
