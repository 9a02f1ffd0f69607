//! The command line of `dnsdyno load` that repeats a trial of the lab; its record keeps the line.

use std::fmt::Display;

use measure::Nanos;
use record::TrialRequest;
use record::request::{
    Connecting, Engine, Expect, Names, NamespaceExpect, Query, Sockets, Workload,
};

use crate::arguments::choice::word;
use crate::arguments::sockets::{GSO, WAIT};
use crate::arguments::transport::{CLOSE, HTTP_METHOD, PICK, TLS_VERSION, WRITE};
use crate::arguments::workload::EXPECT;
use crate::output::quoted;

/// Returns the command line of `dnsdyno load` for a request, without the arguments that have their defaults.
pub(crate) fn load_line(request: &TrialRequest) -> String {
    let mut line = Line(vec!["dnsdyno".into(), "load".into(), request.target.to_string()]);
    line.workload(&request.workload);
    if !matches!(request.workload, Workload::Replay { .. }) {
        line.option("--pacing", request.pacing);
        if request.pacing.is_timed() {
            line.option("--duration", request.duration);
        }
    }
    line.option("--timeout", request.timeout);
    line.maybe("--goal", request.goal.as_ref());
    line.option("--seed", request.seed);
    line.sockets(&request.sockets);
    if let Engine::Streams(connecting) = &request.engine {
        line.connections(connecting);
    }
    line.list("--dut-cpus", &request.dut_cpus);
    line.list("--auth-cpus", &request.auth_cpus);
    line.0.join(" ")
}

/// Words of a command line, each quoted.
struct Line(Vec<String>);

impl Line {
    fn option(&mut self, flag: &str, value: impl Display) {
        self.0.extend([flag.to_owned(), quoted(&value.to_string())]);
    }

    fn maybe(&mut self, flag: &str, value: Option<impl Display>) {
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
            self.0.push(flag.to_owned());
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
            Workload::QueryFile { path, expect, query } => {
                self.option("--queries", path.display());
                self.query(None, *expect, query);
            }
            Workload::Name { name, qtype, expect, query } => {
                self.option("--name", name);
                self.query(Some(qtype), *expect, query);
            }
            Workload::RandomSubdomain { zone, qtype, expect, query } => {
                self.option("--random-subdomain", zone);
                self.query(Some(qtype), *expect, query);
            }
            Workload::Mix { zone, names, exponent, repeats, missing, qtype, expect, query } => {
                self.option("--mix", zone);
                self.option("--mix-names", names);
                self.option("--mix-exponent", exponent);
                self.option("--mix-repeats", repeats);
                self.option("--mix-missing", missing);
                self.query(Some(qtype), *expect, query);
            }
            Workload::Replay { capture, speed, ports } => {
                self.option("--replay", capture.display());
                self.option("--speed", speed);
                let ports: Vec<usize> = ports.iter().map(|port| usize::from(*port)).collect();
                self.list("--replay-port", &ports);
            }
        }
    }

    fn names(&mut self, names: &Names) {
        self.option("--namespace", names.prefix);
        self.unless("dns64perf.test", "--zone", names.zone.trim_end_matches('.'));
        self.flag(names.unpadded, "--unpadded");
        self.option("--type", &names.qtype);
        match names.expect {
            NamespaceExpect::Embedded(prefix) => self.option("--expect-pref64", prefix),
            NamespaceExpect::AnyPrefix => {}
            NamespaceExpect::Same(Expect::NoError)
                if !["A", "AAAA"].contains(&names.qtype.as_str()) => {}
            NamespaceExpect::Same(expect) => self.option("--expect", word(&EXPECT, expect)),
            NamespaceExpect::Address => {}
        }
        self.unless(0, "--first-name", names.first);
        self.maybe("--names", names.names);
        self.flag(names.reuse, "--reuse-names");
        if let Some(repeats) = names.repeats {
            self.option("--repeat-share", repeats.share);
            self.option("--repeat-names", repeats.names);
        }
        self.composed(&names.query);
    }

    fn query(&mut self, qtype: Option<&String>, expect: Expect, query: &Query) {
        self.maybe("--type", qtype);
        self.unless("answered", "--expect", word(&EXPECT, expect));
        self.composed(query);
    }

    fn composed(&mut self, query: &Query) {
        self.flag(!query.recursion, "--no-recursion");
        let Some(edns) = &query.edns else { return };
        self.maybe("--edns", edns.udp_size);
        self.flag(edns.dnssec, "--dnssec");
        edns.options.iter().for_each(|option| self.option("--edns-option", option));
    }

    fn sockets(&mut self, sockets: &Sockets) {
        let usual = Sockets::default();
        self.list("--cpus", &sockets.cpus);
        self.maybe("--sockets", sockets.count);
        self.maybe("--ports-per-thread", sockets.per_worker);
        self.maybe("--source", sockets.source);
        self.unless("auto", "--wait", word(&WAIT, sockets.wait));
        let micros = |time: Nanos| time.0 / 1_000;
        self.unless(micros(usual.max_burst), "--max-burst-us", micros(sockets.max_burst));
        self.unless("off", "--gso", word(&GSO, sockets.gso));
        self.flag(!sockets.gro, "--no-gro");
        self.flag(!sockets.timestamps, "--no-timestamps");
        self.unless(usual.buffer, "--buffer", sockets.buffer);
        self.flag(sockets.shared_core, "--shared-core");
    }

    fn connections(&mut self, c: &Connecting) {
        let usual = Connecting::default();
        match &c.transports[..] {
            [one] if one.port.is_none() => self.option("--transport", one.transport),
            parts => {
                let part = |part: &record::request::TransportShare| {
                    let port = part.port.map_or(String::new(), |port| format!(":{port}"));
                    format!("{}{port}={}", part.transport, part.share)
                };
                self.option("--transports", parts.iter().map(part).collect::<Vec<_>>().join(","));
            }
        }
        self.option("--clients", c.clients);
        self.maybe("--queries-per-connection", c.queries_per_connection);
        self.maybe("--outstanding", c.outstanding);
        self.maybe("--connection-rate", c.connection_rate.map(measure::Qps::exact));
        self.unless(usual.opening, "--opening", c.opening);
        self.flag(c.on_demand, "--on-demand");
        self.unless(usual.connect_timeout, "--connect-timeout", c.connect_timeout);
        self.flag(c.fast_open, "--fast-open");
        self.unless("fin", "--close", word(&CLOSE, c.close));
        self.unless("each", "--write", word(&WRITE, c.write));
        self.unless(usual.max_reply, "--max-reply", c.max_reply);
        if let Some(http) = &c.http {
            self.unless("post", "--http-method", word(&HTTP_METHOD, http.method));
            self.maybe("--http-path", http.path.as_ref());
        }
        if let Some(tls) = &c.tls {
            self.maybe("--tls-name", tls.name.as_ref());
            self.maybe("--ca", tls.ca.as_ref().map(|path| path.display()));
            self.maybe("--tls-version", tls.version.map(|version| word(&TLS_VERSION, version)));
            self.maybe("--alpn", tls.alpn.as_ref().map(|words| words.join(",")));
            self.flag(tls.resume, "--resume");
            self.flag(tls.early_data, "--early-data");
        }
        self.unless("turn", "--pick", word(&PICK, c.pick));
        self.maybe("--close-idle", c.close_idle);
        self.flag(c.cookies, "--cookies");
        self.maybe("--subnets", c.subnets);
        self.flag(c.keepalive, "--keepalive");
        self.unless(0, "--pad", c.padding);
        if let Some(proxy) = c.proxy {
            self.option("--proxy", proxy.clients);
            self.flag(proxy.within_tls, "--proxy-within-tls");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::load::LoadArgs;

    /// `dnsdyno load` alone.
    #[derive(Parser)]
    struct Load {
        #[command(flatten)]
        args: LoadArgs,
    }

    /// Parses the request of a command line, whose words end at spaces outside of quotes.
    fn request(line: &str) -> TrialRequest {
        let mut words = vec![String::new()];
        let mut within = false;
        for c in line.chars() {
            match c {
                '\'' => within = !within,
                ' ' if !within => words.push(String::new()),
                c => words.last_mut().expect("a word").push(c),
            }
        }
        assert_eq!(words[..2], ["dnsdyno", "load"], "{line}");
        let load = Load::try_parse_from(&words[1..]).unwrap_or_else(|e| panic!("{line}: {e}"));
        load.args.request().expect(line)
    }

    #[test]
    fn a_line_is_the_request_that_it_was_made_of() {
        for line in [
            "dnsdyno load 127.0.0.1",
            "dnsdyno load [fd00::1]:5300 --namespace 10.0.0.0/12 --type AAAA --rate 100k --expect-pref64 64:ff9b::/96 \
             --first-name 7 --names 9 --reuse-names --repeat-share 0.5 --repeat-names 77 --no-recursion",
            "dnsdyno load 127.0.0.1 --namespace 10.0.0.0/12 --zone x.test --unpadded --type A --goal zero-loss --duration 1500ms",
            "dnsdyno load 127.0.0.1 --type A --expect nxdomain --pacing ramp --from 1k --to 3k",
            "dnsdyno load 127.0.0.1 --queries 'a b.txt' --pacing window --window 7 --goal 'p99 < 5ms, loss < 0.1%'",
            "dnsdyno load 127.0.0.1 --name x.test --edns --dnssec --edns-option 10:aa --expect noerror",
            "dnsdyno load 127.0.0.1 --random-subdomain x.test --pacing poisson --rate 33333.3 --timeout 20ms",
            "dnsdyno load 127.0.0.1 --mix x.test --mix-names 5 --mix-exponent 1.5 --mix-missing 0.25",
            "dnsdyno load 127.0.0.1 --replay x.pcap --speed 2x --replay-port 53,5300 --source 10.9.0.5/24",
            "dnsdyno load 127.0.0.1 --pacing lockstep --threads 4 --experiments 2 --dut-cpus 0-2 --auth-cpus 3",
            "dnsdyno load 127.0.0.1 --cpus 0,2 --ports-per-thread 7",
            "dnsdyno load 127.0.0.1 --cpus 0,2 --ports 9 --wait yield --max-burst-us 20 --gso on --no-gro \
             --no-timestamps --buffer 4096 --shared-core --seed 5",
            "dnsdyno load 127.0.0.1 --transport tls --clients 3 --queries-per-connection 5 --resume --alpn dot,x \
             --tls-version 1.3 --tls-name x.test --ca ca.pem --close reset --write together --connection-rate 7 --opening 2 --on-demand",
            "dnsdyno load 127.0.0.1 --transports udp=6,tcp=1,tls:8853=3 --pick chance --close-idle 3s --cookies \
             --subnets 198.51.100.0/24 --keepalive --pad --proxy 10.0.0.0/8 --proxy-within-tls --max-reply 512",
            "dnsdyno load 127.0.0.1:443 --transport https --http-method get --http-path /q --early-data --fast-open \
             --connect-timeout 2s --outstanding 9 --alpn ''",
        ] {
            let wanted = request(line);
            assert_eq!(request(&load_line(&wanted)), wanted, "{}", load_line(&wanted));
        }
    }
}
