//! The Measurer's command line: `dnsdyno load` for one trial.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use experiment::TrialSpec;
use measure::Pacing;

use super::LabBench;
use crate::enter::program;
use crate::testbed::Host;

/// More clients than this take a good part of the Tester's ports.
const MANY: u32 = 1_000;

impl LabBench<'_> {
    /// The Measurer's command line for one trial.
    pub(super) fn command(&self, spec: &TrialSpec, json: &Path) -> Vec<OsString> {
        let mut args = self.asking(spec.first_name, Some(spec.names));
        let mut option = |flag: &str, value: &dyn fmt::Display| {
            args.extend([OsString::from(flag), value.to_string().into()]);
        };
        match spec.pacing {
            Pacing::Constant { rate } => option("--rate", &rate.get()),
            Pacing::Poisson { rate } => {
                option("--pacing", &"poisson");
                option("--rate", &rate.get());
            }
            Pacing::Window { outstanding } => {
                option("--pacing", &"window");
                option("--window", &outstanding);
            }
            Pacing::Ramp { from, to } => {
                option("--pacing", &"ramp");
                option("--from", &from.get());
                option("--to", &to.get());
            }
            // Run by `lockstep`, whose result is a table.
            Pacing::LockStep { .. } => {}
        }
        option("--duration", &spec.duration);
        option("--timeout", &spec.timeout);
        if let Some(goal) = &spec.goal {
            option("--goal", goal);
        }
        if self.shares_core() && !matches!(spec.pacing, Pacing::Window { .. }) {
            // The AuthDNS needs the core while the Measurer waits. Asleep, the Measurer comes back late:
            // with 99 % within 0.9 ms instead of 0.1 ms, measured at 10,000 qps into Unbound.
            option("--wait", &"yield");
        }
        option("--json", &json.display());
        args
    }

    /// What loads over connections have beside.
    fn connecting(&self, option: &mut impl FnMut(&str, &dyn fmt::Display)) {
        let (t, authority) = (&self.target.tester, &self.target.authority);
        if let Some(queries) = t.queries_per_connection {
            option("--queries-per-connection", &queries);
        }
        if t.queries_per_connection.is_some() || t.clients.is_some_and(|clients| clients > MANY) {
            // The Tester's ports must not wait a minute after each connection. With half of them waiting the next trial
            // got 150 a second: the kernel looks through all of them for one that is free.
            option("--close", &"reset");
        }
        if t.transport.uses_http() {
            // Knot Resolver 5 refuses requests that are interleaved with the bodies of others.
            option("--http-method", &"get");
        }
        if let Some(clients) = t.clients {
            option("--clients", &clients);
        }
        if let Some(outstanding) = t.outstanding {
            option("--outstanding", &outstanding);
        }
        if let Some(authority) = authority {
            option("--ca", &authority.display());
        }
    }

    /// What every load has in common: whom it asks for which names, and through which sockets.
    pub(super) fn asking(&self, first_name: u64, names: Option<u64>) -> Vec<OsString> {
        let t = &self.target;
        let mut args: Vec<OsString> =
            vec![program().into(), "load".into(), t.address.to_string().into()];
        let mut option = |flag: &str, value: &dyn fmt::Display| {
            args.extend([OsString::from(flag), value.to_string().into()]);
        };
        match &t.queries {
            Some(queries) => option("--queries", &queries.file.display()),
            None => {
                option("--namespace", &t.namespace.prefix());
                option("--zone", t.namespace.zone());
                option("--type", &t.qtype);
                if let Some(pref64) = &t.expect_pref64 {
                    option("--expect-pref64", pref64);
                }
            }
        }
        option("--seed", &t.seed);
        option("--cpus", self.testbed.cpus(Host::Tester));
        if t.tester.transport.is_datagram() {
            // All trials send in the same way, whatever their rates.
            option("--gso", if t.tester.gso { &"on" } else { &"off" });
        } else {
            option("--transport", &t.tester.transport);
        }
        let datagrams = t.tester.transport.is_datagram();
        // A client of UDP is a port.
        if let Some(ports) =
            t.tester.ports.map(u32::from).or(t.tester.clients.filter(|_| datagrams))
        {
            option("--sockets", &ports);
        }
        if !datagrams {
            self.connecting(&mut option);
        }
        if self.watcher.is_some() {
            option("--live", &self.live_file().display());
        }
        if t.repeats.0 > 0.0 && t.queries.is_none() {
            option("--repeat-share", &t.repeats.0);
            option("--repeat-names", &t.repeats.1);
        }
        if t.queries.is_some() {
            // The file has its own order.
        } else if t.reuse_names {
            // A range that ends with the namespace, wherever the budget's count has come to.
            option("--first-name", &(first_name % t.namespace.size()));
        } else {
            option("--first-name", &first_name);
            if let Some(names) = names {
                option("--names", &names);
            }
        }
        let flags = [
            (t.reuse_names && t.queries.is_none(), "--reuse-names"),
            (t.queries.as_ref().is_some_and(|queries| queries.dnssec), "--dnssec"),
            (!t.recursion, "--no-recursion"),
            (!t.tester.gro, "--no-gro"),
            (self.shares_core(), "--shared-core"),
        ];
        args.extend(flags.iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag.into()));
        let private = t.authority.is_some();
        let flags = [
            (t.tester.resume && private, "--resume"),
            (t.tester.early_data && private, "--early-data"),
        ];
        args.extend(flags.iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag.into()));
        args
    }
}
