//! The command line of `dnsdyno load` that repeats a trial of the lab; its record keeps the line.

use std::fmt::{self, Display};

use measure::{ClockBound, HttpMethod, Nanos, Slice, TlsVersion, WaitMode, WriteMode};
use record::TrialRequest;
use record::request::{
    Close, Connecting, Engine, Expect, Gso, Names, NamespaceExpect, Pick, Query, Sockets,
    TransportShare, Workload,
};

use crate::view::quoted;

/// A command line of `dnsdyno load` in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadLine {
    /// Common options of trials with the same settings.
    pub shared: String,
    /// Options in which the trials differ: the names and the pacing.
    pub own: String,
}

impl Display for LoadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.shared, if self.own.is_empty() { "" } else { " " }, self.own)
    }
}

/// Returns the command line of `dnsdyno load` for a request, without the arguments that have their defaults.
pub fn load_line(request: &TrialRequest) -> LoadLine {
    let words = vec!["dnsdyno".into(), "load".into(), request.target.to_string()];
    let mut line = CommandWords { words, own: Vec::new() };
    line.workload(&request.workload);
    if !matches!(request.workload, Workload::Replay { .. }) {
        line.own_option("--pacing", request.pacing);
        if request.pacing.is_timed() {
            line.option("--duration", request.duration);
        }
    }
    line.option("--timeout", request.timeout);
    line.optional("--goal", request.goal.as_ref());
    line.optional("--stop-outstanding", request.most_outstanding);
    line.flag(request.keep_places, "--keep-places");
    line.optional("--step", request.step);
    line.unless(Slice::default(), "--slice", request.slice);
    line.optional("--start-at", request.start_at);
    if request.start_at.is_some() {
        line.unless(ClockBound::default(), "--clock-bound", request.clock_bound);
    }
    line.option("--seed", request.seed);
    line.sockets(&request.sockets);
    match &request.engine {
        Engine::Udp => {}
        Engine::Streams(connecting) => {
            // A replay has the clients of its file.
            let replayed = matches!(request.workload, Workload::Replay { .. });
            line.connections(connecting, (!replayed).then_some(connecting.clients));
            let datagrams = connecting.transports.iter().all(|part| part.transport.is_datagram());
            line.flag(replayed && datagrams, "--own-ports");
        }
        Engine::Kernel(way) => {
            line.option("--engine", "kernel");
            line.optional("--device", way.device.as_ref());
            line.optional("--neighbour", way.neighbour);
        }
    }
    line.list("--dut-cpus", &request.dut_cpus);
    line.list("--auth-cpus", &request.auth_cpus);
    LoadLine { shared: line.words.join(" "), own: line.own.join(" ") }
}

/// Returns the options that choose the queries of a workload and their replies, each after a space,
/// without the options for the used part of a namespace.
pub fn workload_options(workload: &Workload) -> String {
    let mut line = CommandWords { words: Vec::new(), own: Vec::new() };
    line.workload(workload);
    line.words.iter().map(|word| format!(" {word}")).collect()
}

/// Words of a command line, each quoted.
struct CommandWords {
    words: Vec<String>,
    /// Options in which trials with the same settings differ.
    own: Vec<String>,
}

impl CommandWords {
    fn option(&mut self, flag: &str, value: impl Display) {
        self.words.extend([flag.to_owned(), quoted(&value.to_string())]);
    }

    fn own_option(&mut self, flag: &str, value: impl Display) {
        self.own.extend([flag.to_owned(), quoted(&value.to_string())]);
    }

    fn optional(&mut self, flag: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.option(flag, value);
        }
    }

    /// Adds an option unless its value is the default.
    fn unless<T: Display + PartialEq>(&mut self, default: T, flag: &str, value: T) {
        if value != default {
            self.option(flag, value);
        }
    }

    fn flag(&mut self, wanted: bool, flag: &str) {
        if wanted {
            self.words.push(flag.to_owned());
        }
    }

    fn list(&mut self, flag: &str, list: &[usize]) {
        if !list.is_empty() {
            self.option(flag, list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        }
    }

    fn workload(&mut self, workload: &Workload) {
        match workload {
            Workload::Namespace(names) => self.names(names),
            Workload::QueryFile { path, expect, query, runs, probability, skip_bad } => {
                self.option("--queries", path.display());
                self.optional("--runs", *runs);
                self.optional("--probability", *probability);
                self.flag(*skip_bad, "--skip-bad");
                self.query(None, expect, query);
            }
            Workload::Messages { path, expect, runs } => {
                self.option("--messages", path.display());
                self.optional("--runs", *runs);
                self.unless("answered", "--expect", expect.word());
            }
            Workload::Name { name, qtype, expect, query } => {
                self.option("--name", name);
                self.query(Some(qtype), expect, query);
            }
            Workload::RandomSubdomain { zone, qtype, expect, query } => {
                self.option("--random-subdomain", zone);
                self.query(Some(qtype), expect, query);
            }
            Workload::Mix { zone, names, exponent, repeats, missing, qtype, expect, query } => {
                self.option("--mix", zone);
                self.option("--mix-names", names);
                self.option("--mix-exponent", exponent);
                self.option("--mix-repeats", repeats);
                self.option("--mix-missing", missing);
                self.query(Some(qtype), expect, query);
            }
            Workload::Replay { capture, speed, ports, loops } => {
                self.option("--replay", capture.display());
                self.option("--speed", speed);
                let ports: Vec<usize> = ports.iter().map(|port| usize::from(*port)).collect();
                self.list("--dns-port", &ports);
                self.unless(1, "--runs", *loops);
            }
        }
    }

    fn names(&mut self, names: &Names) {
        self.option("--namespace", names.prefix);
        self.unless("dns64perf.test", "--zone", names.zone.trim_end_matches('.'));
        self.flag(names.unpadded, "--unpadded");
        self.option("--type", &names.qtype);
        match &names.expect {
            NamespaceExpect::Embedded(prefix) => self.option("--expect-pref64", prefix),
            NamespaceExpect::AnyPrefix => {}
            NamespaceExpect::Same(Expect::NoError)
                if !["A", "AAAA"].contains(&names.qtype.as_str()) => {}
            NamespaceExpect::Same(expect) => self.option("--expect", expect.word()),
            NamespaceExpect::Address => {}
        }
        if names.first != 0 {
            self.own_option("--first-name", names.first);
        }
        if let Some(count) = names.names {
            self.own_option("--names", count);
        }
        self.flag(names.reuse, "--reuse-names");
        if let Some(repeats) = names.repeats {
            self.option("--repeat-share", repeats.share);
            self.option("--repeat-names", repeats.names);
        }
        self.composed(&names.query);
    }

    fn query(&mut self, qtype: Option<&String>, expect: &Expect, query: &Query) {
        self.optional("--type", qtype);
        self.unless("answered", "--expect", expect.word());
        self.composed(query);
    }

    fn composed(&mut self, query: &Query) {
        self.flag(!query.recursion, "--no-recursion");
        self.optional("--class", query.class.as_ref());
        let Some(edns) = &query.edns else { return };
        self.optional("--edns", edns.udp_size);
        self.flag(edns.dnssec, "--dnssec");
        edns.options.iter().for_each(|option| self.option("--edns-option", option));
    }

    fn sockets(&mut self, sockets: &Sockets) {
        let usual = Sockets::default();
        self.list("--cpus", &sockets.cpus);
        self.optional("--ports", sockets.count);
        self.optional("--ports-per-thread", sockets.per_worker);
        self.optional("--source", sockets.source);
        self.optional("--source-port", sockets.first_port);
        self.unless(WaitMode::Auto.word(), "--wait-mode", sockets.wait.word());
        let micros = |time: Nanos| time.0 / 1_000;
        self.unless(micros(usual.max_burst), "--max-burst-us", micros(sockets.max_burst));
        self.unless(Gso::Off.word(), "--gso", sockets.gso.word());
        self.flag(!sockets.gro, "--no-gro");
        self.flag(!sockets.timestamps, "--no-timestamps");
        self.unless(usual.buffer, "--buffer", sockets.buffer);
        self.flag(sockets.shared_core, "--shared-core");
    }

    fn connections(&mut self, c: &Connecting, clients: Option<u32>) {
        let usual = Connecting::default();
        match &c.transports[..] {
            [one] if one.port.is_none() => self.option("--transport", one.transport),
            parts => {
                let part = |part: &TransportShare| {
                    let port = part.port.map_or(String::new(), |port| format!(":{port}"));
                    format!("{}{port}={}", part.transport, part.share)
                };
                self.option("--transports", parts.iter().map(part).collect::<Vec<_>>().join(","));
            }
        }
        self.optional("--clients", clients);
        self.optional("--queries-per-connection", c.queries_per_connection);
        self.optional("--outstanding", c.outstanding);
        self.optional("--connection-rate", c.connection_rate.map(measure::Qps::exact));
        self.unless(usual.opening, "--opening", c.opening);
        self.flag(c.on_demand, "--on-demand");
        self.unless(usual.connect_timeout, "--connect-timeout", c.connect_timeout);
        self.flag(c.fast_open, "--fast-open");
        self.unless(Close::Fin.word(), "--close", c.close.word());
        self.unless(WriteMode::Each.word(), "--write", c.write.word());
        self.unless(usual.max_reply, "--max-reply", c.max_reply);
        if let Some(http) = &c.http {
            self.unless(HttpMethod::Post.word(), "--http-method", http.method.word());
            self.optional("--http-path", http.path.as_ref());
        }
        if let Some(tls) = &c.tls {
            self.optional("--tls-name", tls.name.as_ref());
            self.optional("--ca", tls.ca.as_ref().map(|path| path.display()));
            self.optional("--tls-version", tls.version.map(TlsVersion::word));
            self.optional("--alpn", tls.alpn.as_ref().map(|words| words.join(",")));
            self.flag(tls.resume, "--tls-resume");
            self.flag(tls.early_data, "--early-data");
        }
        self.unless(Pick::Turn.word(), "--pick", c.pick.word());
        self.optional("--close-idle", c.close_idle);
        self.flag(c.cookies, "--cookies");
        self.flag(c.tcp_fallback, "--tcp-fallback");
        self.unless(0, "--resend", c.resends);
        self.optional("--retry", c.retry);
        self.optional("--subnets", c.subnets);
        self.flag(c.keepalive, "--keepalive");
        self.unless(0, "--pad", c.padding);
        if let Some(proxy) = c.proxy {
            self.option("--proxy", proxy.clients);
            self.flag(proxy.within_tls, "--proxy-within-tls");
        }
    }
}
