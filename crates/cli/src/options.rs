//! From arguments to a request for a trial, and from a field of the request back to its argument.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::bail;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::{Nanos, OpenPacing, Pacing, Transport};
use record::TrialRequest;
use record::request::{
    self, Connecting, Edns, Engine, Expect, Http, Names, NamespaceExpect, Proxy, Query, Repeats,
    Sockets, Tls, Workload,
};
use tester::{Invalid, TesterError};
use wire::{Ipv4Prefix, Pref64, Qtype};

use crate::args::{LoadArgs, PacingArg, PacingKind, SocketArgs, StreamArgs, WorkloadArgs};
use crate::failure::Failure;

/// A server, perhaps without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    ip: IpAddr,
    port: Option<u16>,
}

impl Target {
    /// With this port if it has none.
    pub(crate) fn or_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1`, `[2001:db8::1]:53`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let whole = |a: SocketAddr| Target { ip: a.ip(), port: Some(a.port()) };
        text.parse()
            .map(whole)
            .or_else(|_| bare.parse().map(|ip| Target { ip, port: None }))
            .map_err(|_| {
                format!("`{text}` is not an address such as 192.0.2.1:53 or [2001:db8::1]:53 (names are not looked up)")
            })
    }
}

/// Reads a [`Target`] of DNS over UDP.
pub(crate) fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let port = Transport::Udp.default_port();
    text.parse().map(|target: Target| target.or_port(port))
}

/// Reads a source address, or a prefix of them.
pub(crate) fn parse_source(text: &str) -> Result<IpNet, String> {
    let one = |address: IpAddr| IpNet::from(address);
    text.parse()
        .or_else(|_| text.parse().map(one))
        .map_err(|_| format!("`{text}` is not a source such as 10.9.0.1, 10.9.0.0/24 or fd00::/64"))
}

/// A prefix of IPv4 in a request.
pub(crate) fn ipv4_net(prefix: Ipv4Prefix) -> Ipv4Net {
    Ipv4Net::new(prefix.first(), prefix.prefix_len()).expect("no longer than 32")
}

/// A prefix of RFC 6052 in a request.
pub(crate) fn ipv6_net(pref64: Pref64) -> Ipv6Net {
    Ipv6Net::new(pref64.first(), pref64.prefix_len()).expect("no longer than 128")
}

impl LoadArgs {
    /// The request that the arguments mean (lock-step: with the first number of threads).
    pub(crate) fn request(&self) -> anyhow::Result<TrialRequest> {
        let workload = match self.replay.request() {
            Some(replay) => replay,
            None => self.workload.request()?,
        };
        Ok(TrialRequest {
            version: request::VERSION,
            target: self.target.or_port(self.streams.port()),
            engine: self.streams.engine()?,
            workload,
            pacing: self.pacing()?,
            duration: self.duration,
            timeout: self.timeout,
            goal: self.goal.clone(),
            sockets: self.sockets.request(),
            seed: self.workload.seed,
            live: None,
            dut_cpus: self.dut_cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec()),
        })
    }

    fn pacing(&self) -> anyhow::Result<Pacing> {
        if self.duration == Nanos::ZERO || self.timeout == Nanos::ZERO {
            bail!("--duration and --timeout are longer than nothing");
        }
        let kind = match self.pacing {
            PacingArg::Kind(kind) => Some(kind),
            PacingArg::Whole(_) => None,
        };
        let needs_rate = matches!(kind, Some(PacingKind::Constant | PacingKind::Poisson));
        if self.rate.is_some() && !needs_rate {
            bail!(
                "--rate goes with constant and poisson pacing; a ramp has --from and --to, a window --window"
            );
        }
        if (self.from.is_some() || self.to.is_some()) && kind != Some(PacingKind::Ramp) {
            bail!("--from and --to go with --pacing ramp");
        }
        let kind = match self.pacing {
            PacingArg::Whole(pacing) => return Ok(pacing),
            PacingArg::Kind(kind) => kind,
        };
        let rate = self.rate.unwrap_or_else(|| "1k".parse().expect("a rate"));
        Ok(match kind {
            PacingKind::Constant => OpenPacing::Constant.at(rate),
            PacingKind::Poisson => OpenPacing::Poisson.at(rate),
            PacingKind::Ramp => match (self.from, self.to) {
                (Some(from), Some(to)) => Pacing::Ramp { from, to },
                _ => bail!("a ramp needs --from and --to"),
            },
            PacingKind::Window if self.window == 0 => {
                bail!("--window 0: at least one query is outstanding")
            }
            PacingKind::Window => Pacing::Window { outstanding: self.window },
            PacingKind::Lockstep if self.experiments == 0 => {
                bail!("--experiments 0: at least one is run")
            }
            PacingKind::Lockstep => {
                Pacing::LockStep { threads: self.threads[0], experiments: self.experiments }
            }
        })
    }
}

impl SocketArgs {
    /// What is asked of sockets and threads.
    pub(crate) fn request(&self) -> Sockets {
        Sockets {
            cpus: self.cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec()),
            count: self.sockets,
            source: self.source,
            wait: self.wait.into(),
            max_burst: Nanos::from_micros(self.max_burst_us),
            gso: self.gso.into(),
            gro: !self.no_gro,
            timestamps: !self.no_timestamps,
            buffer: self.buffer,
            shared_core: self.shared_core,
        }
    }
}

impl WorkloadArgs {
    /// What is asked.
    pub(crate) fn request(&self) -> anyhow::Result<Workload> {
        let expect = self.expect.map_or(Expect::Answered, Expect::from);
        let qtype = self.qtype.unwrap_or(Qtype::AAAA).to_string();
        let query = self.query();
        let other = self.queries.is_some()
            || self.name.is_some()
            || self.random_subdomain.is_some()
            || self.mix.is_some();
        if self.expect_pref64.is_some() && other {
            bail!("--expect-pref64 needs names that tell their addresses: use it with --namespace");
        }
        if let Some(path) = &self.queries {
            if self.qtype.is_some() {
                bail!("--type does not go with --queries: the file says the type of each query");
            }
            return Ok(Workload::QueryFile { path: path.clone(), expect, query });
        }
        if let Some(name) = &self.name {
            return Ok(Workload::Name { name: name.to_string(), qtype, expect, query });
        }
        if let Some(zone) = &self.random_subdomain {
            return Ok(Workload::RandomSubdomain { zone: zone.to_string(), qtype, expect, query });
        }
        if let Some(zone) = &self.mix {
            return Ok(Workload::Mix {
                zone: zone.to_string(),
                names: self.mix_names,
                exponent: self.mix_exponent,
                repeats: self.mix_repeats,
                missing: self.mix_missing,
                qtype,
                expect,
                query,
            });
        }
        Ok(Workload::Namespace(self.names(qtype, query)))
    }

    fn names(&self, qtype: String, query: Query) -> Names {
        let prefix = self.namespace.unwrap_or_else(|| "10.0.0.0/8".parse().expect("a prefix"));
        let expect = match (self.expect_pref64, self.expect, self.qtype) {
            (Some(pref64), _, _) => NamespaceExpect::Embedded(ipv6_net(pref64)),
            (None, Some(expect), _) => NamespaceExpect::Same(expect.into()),
            (None, None, Some(Qtype::A)) => NamespaceExpect::Address,
            (None, None, _) => NamespaceExpect::Same(Expect::NoError),
        };
        let repeats = Repeats { share: self.repeat_share, names: self.repeat_names };
        Names {
            prefix: ipv4_net(prefix),
            zone: self.zone.to_string(),
            qtype,
            expect,
            first: self.first_name,
            names: self.names,
            reuse: self.reuse_names,
            repeats: (self.repeat_share != 0.0).then_some(repeats),
            query,
        }
    }

    fn query(&self) -> Query {
        let wanted = self.edns.is_some() || self.dnssec || !self.edns_option.is_empty();
        let edns =
            Edns { udp_size: self.edns, dnssec: self.dnssec, options: self.edns_option.clone() };
        Query { recursion: !self.no_recursion, edns: wanted.then_some(edns) }
    }
}

impl StreamArgs {
    /// What moves the messages: sockets of UDP where nobody wants to tell clients apart, else connections.
    fn engine(&self) -> anyhow::Result<Engine> {
        let transports = self.parts();
        let any = |has: fn(Transport) -> bool| transports.iter().any(|part| has(part.transport));
        if let Some(flag) = self.first_tls_flag()
            && !any(Transport::uses_tls)
        {
            bail!("{flag} goes with --transport {}", Transport::words(Transport::uses_tls));
        }
        if let Some(flag) = self.first_http_flag()
            && !any(Transport::uses_http)
        {
            bail!("{flag} goes with --transport {}", Transport::words(Transport::uses_http));
        }
        let only_udp = transports.iter().all(|part| part.transport.is_datagram());
        if only_udp && !self.wants_clients() && !self.fast_open {
            return Ok(Engine::Udp);
        }
        let http = Http {
            method: self.http_method.map(Into::into).unwrap_or_default(),
            path: self.http_path.clone(),
        };
        let proxy = self.proxy.map(|clients| Proxy { clients, within_tls: self.proxy_within_tls });
        let connecting = Connecting {
            clients: self.clients.unwrap_or(Connecting::default().clients),
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            connection_rate: self.connection_rate,
            opening: self.opening,
            on_demand: self.on_demand,
            connect_timeout: self.connect_timeout,
            close: self.close.into(),
            max_reply: self.max_reply,
            fast_open: self.fast_open,
            http: any(Transport::uses_http).then_some(http),
            tls: any(Transport::uses_tls).then(|| self.tls()),
            pick: self.pick.map(Into::into).unwrap_or_default(),
            close_idle: self.close_idle,
            cookies: self.cookies,
            subnets: self.subnets,
            keepalive: self.keepalive,
            padding: self.pad.unwrap_or(0),
            proxy,
            transports,
        };
        Ok(Engine::Streams(Box::new(connecting)))
    }

    fn tls(&self) -> Tls {
        let words = |text: &str| {
            text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        Tls {
            name: self.tls_name.clone(),
            ca: self.ca.clone(),
            version: self.tls_version.map(Into::into),
            alpn: self.alpn.as_deref().map(words),
            resume: self.resume,
            early_data: self.early_data,
        }
    }
}

/// Arguments of fields whose last word is not their flag.
const FLAGS: [(&str, &str); 18] = [
    ("workload.namespace.prefix", "--namespace"),
    ("workload.namespace.repeats", "--repeat-share and --repeat-names"),
    ("workload.namespace.reuse", "--reuse-names"),
    ("workload.namespace.expect.embedded", "--expect-pref64"),
    ("workload.query.edns.options", "--edns-option"),
    ("workload.qtype", "--type"),
    ("workload.mix.repeats", "--mix-repeats"),
    ("workload.mix.missing", "--mix-missing"),
    ("workload.replay.capture", "--replay"),
    ("workload", "the workload"),
    ("engine.streams.transports", "--transports"),
    ("engine.streams.padding", "--pad"),
    ("engine.streams.http.path", "--http-path"),
    ("engine.streams.proxy.within_tls", "--proxy-within-tls"),
    ("engine.streams.tls.name", "--tls-name"),
    ("engine.streams.tls.version", "--tls-version"),
    ("engine.streams.tls.ca", "--ca"),
    ("sockets.count", "--sockets"),
];

/// The argument that a field of a request comes from.
fn flag(field: &str) -> String {
    let known = FLAGS.iter().find(|(known, _)| *known == field).map(|(_, flag)| *flag);
    let last = || field.rsplit('.').next().unwrap_or(field).replace('_', "-");
    known.map_or_else(|| format!("--{}", last()), str::to_owned)
}

impl From<TesterError> for Failure {
    /// Names the argument instead of the field that it became.
    fn from(error: TesterError) -> Self {
        let words = match &error {
            TesterError::Invalid(Invalid::Value { field, why }) => {
                format!("{}: {why}", flag(field))
            }
            TesterError::Invalid(Invalid::Transport { field, wanted, because }) => {
                format!("{} goes with --transport {wanted}{because}", flag(field))
            }
            other => other.to_string(),
        };
        let bad = error.is_bad_input();
        let error = anyhow::anyhow!(words);
        if bad { Failure::BadInput(error) } else { Failure::Failed(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5300", "192.0.2.1:5300"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("[2001:db8::1]:5300", "[2001:db8::1]:5300"),
        ] {
            assert_eq!(parse_target(text), Ok(address.parse().expect(address)));
        }
        assert!(parse_target("localhost").is_err());
    }

    #[test]
    fn sources() {
        for (text, read) in [
            ("10.9.0.1", "10.9.0.1/32"),
            ("10.9.0.5/24", "10.9.0.5/24"),
            ("fd00::/64", "fd00::/64"),
        ] {
            assert_eq!(parse_source(text).expect(text).to_string(), read);
        }
        for bad in ["x", "10.9.0.0/33", "10.9.0.0/x"] {
            assert!(parse_source(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_have_their_flags() {
        assert_eq!(flag("engine.streams.queries_per_connection"), "--queries-per-connection");
        assert_eq!(flag("engine.streams.tls.ca"), "--ca");
        assert_eq!(flag("timeout"), "--timeout");
    }
}
