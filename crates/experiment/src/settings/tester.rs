//! What the Tester can do: the rates that it is certified for, and the trials that its programs in the kernel carry (docs/kernel.md).

use measure::stats::median;
use measure::{Path, Qps, Transport};
use record::{Capacity, CellRecord, Certificate};

use super::{Method, Settings};
use crate::known::Known;
use crate::search::Rule;

impl Settings {
    /// Returns these settings with a search that stays within the Tester's certified rate; a number of clients is no rate.
    pub fn within(&self, certificate: Option<&Certificate>) -> Settings {
        let mut settings = self.clone();
        let certificate = certificate.filter(|_| self.method == Method::Search);
        let certified =
            certificate.and_then(|c| Qps::new(c.certified_qps)).filter(|q| q.get() > 0.0);
        if let (Some(search), Some(certified)) = (&mut settings.search, certified)
            && certified.get() < search.max.get()
        {
            search.max = certified;
            search.min = if search.min.get() > certified.get() { certified } else { search.min };
            search.start =
                if search.start.get() > certified.get() { certified } else { search.start };
        }
        settings
    }

    /// Returns these settings with a search that begins near what earlier repeats found, if its rule is probabilistic bisection.
    pub fn near(mut self, found: &[Capacity]) -> Settings {
        let found: Vec<f64> = found.iter().filter_map(|capacity| capacity.qps).collect();
        let method = self.method;
        if let (Some(search), Some(start)) = (&mut self.search, median(&found).and_then(Qps::new))
            && search.rule(method) == Ok(Rule::Probabilistic)
        {
            (search.start, search.near) = (start, true);
        }
        self
    }

    /// Returns these settings with what the earlier rounds of a cell found.
    pub fn knowing(mut self, cell: &CellRecord) -> Settings {
        if self.method == Method::Capacity {
            self.capacity.known = Known::of(cell);
        }
        self
    }

    /// Returns why the engine `kernel` cannot carry the trials, as the key and the reason; `None` if it can.
    pub fn needs_sockets(&self) -> Option<(&'static str, &'static str)> {
        let (tester, workload) = (&self.tester, &self.workload);
        let all = [
            (
                tester.transport != Transport::Udp,
                "tester.transport",
                "the engine `kernel` sends over udp",
            ),
            (
                !matches!(self.method, Method::Search | Method::Load),
                "method",
                "the engine `kernel` sends at a rate: it has the methods search and load",
            ),
            (
                workload.replay.is_some(),
                "workload.replay",
                "the engine `kernel` has no times of a capture",
            ),
            (
                workload.repeat_share > 0.0,
                "workload.repeat-share",
                "the engine `kernel` repeats no names on purpose",
            ),
            (
                workload.unpadded,
                "workload.unpadded",
                "the engine `kernel` sends names with leading zeros",
            ),
            (tester.gso, "tester.gso", "the engine `kernel` sends each query as a packet"),
            (
                self.host.path == Path::HostOffload,
                "host.path",
                "the engine `kernel` sends each query as a packet: its path is `wire`",
            ),
        ];
        all.into_iter().find(|(needed, ..)| *needed).map(|(_, key, why)| (key, why))
    }
}
