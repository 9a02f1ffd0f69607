//! Visits to a server that the user runs: the lab starts no server process, and probes only the network, or its host too by
//! an agent.
//!
//! ```text
//!   lab's own network namespace: that of its caller (enter::Network::Outside)
//!     └─ dnsdyno load ADDRESS ...     on the Tester's cores; the hosts of the testbed stand idle
//! ```
//!
//! Queries go only to an address that the user has named, in the experiment's file or by a flag.

use experiment::{Circumstances, Method, OneHost, Visit};
use measure::Path;
use udp::sys::is_own_address;

use crate::bench::measurer::carried_by;
use crate::bench::{Away, LabBench};
use crate::netns::Namespace;
use crate::query_stream::Prepared;
use crate::ready::{Question, answers};
use crate::run::Event;
use crate::server::Installed;
use crate::session::{Cell, Session, Shortfall};
use crate::visit::{Started, unlike_rfc8219};

/// Note on a server that is not in the lab.
const NOT_SEEN: &str = "the server is remote: its processor, memory, drops and configuration were not seen, nor was it \
                        started anew";
/// Note on a server that an agent probed.
const PROBED: &str = "the server is remote: an agent saw its processor, drops and stalls; its memory and configuration were not seen, \
                      nor was it started anew";
/// Settings of a server or its host that cannot be varied here.
const OUT_OF_REACH: [&str; 4] = ["cores", "threads", "cpu-limit", "link"];

impl Session<'_> {
    /// Measures a server at its address with the method of the experiment.
    pub(crate) fn measure_remote(
        &mut self,
        v: &Visit,
        cell: &mut Cell,
        installed: &Installed,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Shortfall> {
        let stream = self.stream(v.point)?;
        let point = &self.checked.experiment.points[v.point];
        let settings = &point.settings;
        if settings.method == Method::ZoneLoad {
            let why = "a remote server cannot be started: its zone is its own".to_owned();
            return Err(Shortfall::Cannot(why));
        }
        if let Some(name) = OUT_OF_REACH.iter().find(|name| point.varied.contains_key(**name)) {
            return Err(Shortfall::Cannot(format!("`{name}` of a remote server is out of reach")));
        }
        let failed = |e: std::io::Error| Shortfall::Failed(e.to_string());
        let (asked, outside) = (self.checked.questions[v.point], Namespace::own().map_err(failed)?);
        let target = installed.address();
        let base = asked.request(point, stream.as_ref(), self.options.seed, target, None);
        let base = carried_by(self.engines[v.point], base);
        if settings.tester.transport.is_datagram() {
            let origin = stream.as_ref().and_then(Prepared::origin);
            let questions = Question::of(origin.as_ref(), &asked.namespace, asked.ask());
            answers(&outside, target, &questions)
                .map_err(|why| Shortfall::Failed(format!("{why}: {}", asked.elsewhere(point))))?;
        }
        let names = asked.budget(settings.role, stream.as_ref(), true);
        let seed = self.options.seed;
        let replayed = asked.replayed(point, stream.as_ref(), seed).map_err(Shortfall::Failed)?;
        let tester = &settings.tester;
        let dut = self.options.elsewhere.agents.dut.clone();
        let note = if dut.is_some() { PROBED } else { NOT_SEEN };
        let away = Away { outside: Some(outside), dut, ..Away::default() };
        let path = if tester.gso { Path::HostOffload } else { Path::Wire };
        let tcp = !tester.transport.is_datagram();
        let loopback = OneHost { link: None, path, gso: tester.gso, gro: tester.gro, tcp };
        let differs = unlike_rfc8219(settings, stream.is_some());
        let started = Started {
            bench: LabBench::elsewhere(self.lab, &self.testbed, self.dir, base, None, away)
                .replaying(replayed),
            title: format!("{} at {target}", installed.adapter().title),
            version: None,
            names,
            circumstances: Circumstances {
                over_ipv6: target.is_ipv6(),
                one_host: is_own_address(target).then_some(loopback),
                ..Circumstances::default()
            },
            differs,
            conforms: settings.method == Method::Search,
        };
        let found = self.measure_started(v, cell, started, notify)?;
        if !cell.record.notes.iter().any(|other| other == note) {
            cell.record.notes.push(note.to_owned());
        }
        self.visited(v, cell, &found, notify);
        Ok(())
    }
}
