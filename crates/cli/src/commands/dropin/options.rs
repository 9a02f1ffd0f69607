//! Options that dnsperf and resperf share.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use clap::{ArgAction, Args};
use measure::{HttpMethod, Transport};
use record::request::{Engine, Http, Sockets};
use update::AheadKey;
use wire::Edns;

use super::data::{self, Data, Form, MessageFile};
use super::verbose::Texts;
use super::{Sending, connecting, cores, source};
use crate::arguments::address::{Family, ServerArg, SourceArg, Target, on_link};
use crate::arguments::choice::{Choice, choice};
use crate::failure::Failure;

/// UDP size that dnsperf and resperf send in EDNS, in octets.
const UDP_SIZE: u16 = 4_096;

/// Options of dnsperf and of resperf.
#[derive(Args, Clone, Debug)]
pub(super) struct Common {
    /// Address family of the server: inet, inet6 or any
    #[arg(short = 'f', value_name = "family", value_parser = choice(&FAMILY), default_value = "any")]
    family: Family,
    /// The server: an address or a name
    #[arg(short = 's', value_name = "server_addr", default_value = "127.0.0.1")]
    server: String,
    /// The port of the server [default: 53, with TLS 853, with HTTPS 443]
    #[arg(short = 'p', value_name = "port", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The local address
    #[arg(short = 'a', value_name = "local_addr")]
    local: Option<SourceArg>,
    /// The first local port
    #[arg(short = 'x', value_name = "local_port")]
    local_port: Option<u16>,
    /// The data file [default: the standard input]
    #[arg(short = 'd', value_name = "datafile")]
    data: Option<PathBuf>,
    /// Size of the sockets' buffers, in kilobytes [default: 16384]
    #[arg(short = 'b', value_name = "bufsize", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buffer_kb: Option<u32>,
    /// Send EDNS
    #[arg(short = 'e')]
    edns: bool,
    /// Send an EDNS option: its code and its value in hexadecimal
    #[arg(short = 'E', value_name = "code:value")]
    edns_option: Option<String>,
    /// Set the DO bit
    #[arg(short = 'D')]
    dnssec: bool,
    /// Sign with TSIG [default algorithm: hmac-md5]
    #[arg(short = 'y', value_name = "[alg:]name:secret")]
    key: Option<String>,
    /// Report more about the test: dnsperf prints each query
    #[arg(short = 'v')]
    verbose: bool,
    /// Write warnings to the standard output
    #[arg(short = 'W')]
    log_stdout: bool,
    /// Set a long option, see -H
    #[arg(short = 'O', value_name = "option=value", action = ArgAction::Append)]
    long: Vec<LongOption>,
    /// List the long options
    #[arg(short = 'H')]
    long_help: bool,
    /// Print help
    #[arg(short = 'h', action = ArgAction::Help)]
    help: Option<bool>,
}

const FAMILY: [Choice<Family>; 3] = [
    ("any", "IPv4 or IPv6", Family::Any),
    ("inet", "IPv4", Family::Inet),
    ("inet6", "IPv6", Family::Inet6),
];

/// Transport modes; `tls` is the old word for `dot`.
pub(super) const MODE: [Choice<Transport>; 5] = [
    ("udp", "DNS over UDP", Transport::Udp),
    ("tcp", "DNS over TCP", Transport::Tcp),
    ("dot", "DNS over TLS", Transport::Tls),
    ("tls", "DNS over TLS", Transport::Tls),
    ("doh", "DNS over HTTPS", Transport::Https),
];

/// A long option and its value.
#[derive(Clone, Debug, PartialEq)]
enum LongOption {
    /// Name of the server, perhaps with its port, and path of the requests.
    DohUri {
        target: Target,
        path: String,
    },
    DohMethod(HttpMethod),
    QueriesPerConnection(u64),
    TlsSni(String),
    LatencyHistogram,
    /// An option that changes nothing here, and the reason.
    Ignored {
        name: String,
        why: &'static str,
    },
}

/// Help for the long options.
pub(super) const LONG_OPTIONS: &str = "Long options, each after -O:
  doh-uri=URI                    the URI of DNS over HTTPS (https://localhost/dns-query)
  doh-method=GET|POST            the HTTP method (GET)
  num-queries-per-conn=N         number of queries on each connection
  tls-sni=NAME                   the name that TLS sends
  latency-histogram              print the latencies by buckets
  suppress=MESSAGE,...           accepted: there are no messages about single queries
  verbose-interval-stats         accepted: -S prints the answers a second
  qps-threshold-wait=MICROS      accepted: queries leave when they are due";

impl FromStr for LongOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let bad =
            |wanted: &str| Err(format!("invalid long option: `{text}`: write {name}={wanted}"));
        let ignored = |why| Ok(LongOption::Ignored { name: name.to_owned(), why });
        match name {
            "doh-uri" => match value.parse() {
                Ok(ServerArg { transport: Some(Transport::Https), target, path }) => {
                    let path = path.unwrap_or_else(|| "/".to_owned());
                    Ok(LongOption::DohUri { target, path })
                }
                _ => bad("https://NAME/PATH"),
            },
            "doh-method" => match value {
                "GET" => Ok(LongOption::DohMethod(HttpMethod::Get)),
                "POST" => Ok(LongOption::DohMethod(HttpMethod::Post)),
                _ => bad("GET or POST"),
            },
            "num-queries-per-conn" => match value.parse() {
                Ok(n) if n > 0 => Ok(LongOption::QueriesPerConnection(n)),
                _ => bad("NUMBER, from 1 on"),
            },
            "tls-sni" if !value.is_empty() => Ok(LongOption::TlsSni(value.to_owned())),
            "tls-sni" => bad("NAME"),
            "latency-histogram" => Ok(LongOption::LatencyHistogram),
            "suppress" => ignored("there are no messages about single queries"),
            "verbose-interval-stats" => ignored("-S prints the answers a second"),
            "qps-threshold-wait" => ignored("queries leave when they are due"),
            _ => Err(format!("invalid long option: `{text}`; -H lists them")),
        }
    }
}

impl Common {
    /// Prints the long options if the arguments request them.
    pub(super) fn wants_long_help(&self) -> bool {
        self.long_help
    }

    /// Prints a warning or a note of `tool`.
    pub(super) fn say(&self, tool: &str, text: &str) {
        if self.log_stdout {
            println!("Warning: {tool}: {text}")
        } else {
            eprintln!("Warning: {tool}: {text}")
        }
    }

    /// Returns whether more is reported about the test.
    pub(super) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Prints which options have no effect here.
    pub(super) fn say_ignored(&self, transport: Transport, say: &mut dyn FnMut(String)) {
        if self.local_port.is_some_and(|port| port > 0) && transport != Transport::Udp {
            say("-x: the kernel chooses the ports of connections".to_owned());
        }
        for option in &self.long {
            if let LongOption::Ignored { name, why } = option {
                say(format!("-O {name}: {why}"));
            }
        }
    }

    /// Returns address and port of the server.
    pub(super) fn target(&self, transport: Transport) -> Result<SocketAddr, Failure> {
        let of_uri = self.long.iter().rev().find_map(|option| match option {
            LongOption::DohUri { target, .. } if transport.uses_http() => target.port,
            _ => None,
        });
        let port = self.port.or(of_uri).unwrap_or(transport.default_port());
        let target = Target::of_host(&self.server).resolve(port, self.family);
        target.and_then(|target| on_link(target, self.local)).map_err(Failure::BadInput)
    }

    /// Returns the engine of `clients` over `transport`.
    pub(super) fn engine(&self, transport: Transport, clients: u32) -> Engine {
        if transport == Transport::Udp {
            return Engine::Udp;
        }
        let mut connecting = connecting(transport, clients);
        if let Some(tls) = &mut connecting.tls
            && transport.uses_http()
        {
            tls.name = Some("localhost".to_owned());
        }
        if let Some(http) = &mut connecting.http {
            http.method = HttpMethod::Get;
        }
        for option in &self.long {
            match (option, &mut connecting.http, &mut connecting.tls) {
                (LongOption::DohUri { target, path }, Some(http), Some(tls)) => {
                    *http = Http { path: Some(path.clone()), ..http.clone() };
                    tls.name = Some(target.host.clone());
                }
                (LongOption::DohMethod(method), Some(http), _) => http.method = *method,
                (LongOption::TlsSni(name), _, Some(tls)) => tls.name = Some(name.clone()),
                (LongOption::QueriesPerConnection(n), ..) => {
                    connecting.queries_per_connection = Some(*n);
                }
                _ => {}
            }
        }
        Engine::Streams(Box::new(connecting))
    }

    /// Returns the sockets of `clients` on `threads` threads.
    pub(super) fn sockets(
        &self,
        target: SocketAddr,
        clients: u32,
        threads: u32,
        say: &mut dyn FnMut(String),
    ) -> Result<Sockets, Failure> {
        let cpus = cores(threads, clients, say);
        let most = udp::MAX_SOCKETS * cpus.len().max(1);
        let count = u16::try_from(clients).ok().filter(|n| (1..=most).contains(&usize::from(*n)));
        let count =
            count.ok_or_else(|| Failure::input(anyhow!("{clients} clients: it is 1 to {most}")))?;
        let usual = Sockets::default();
        Ok(Sockets {
            cpus,
            count: Some(count),
            first_port: self.local_port.filter(|port| *port > 0),
            source: source(self.local, target)?,
            buffer: self.buffer_kb.map_or(usual.buffer, |kb| kb as usize * 1_024),
            ..usual
        })
    }

    /// Returns the data file; `None` is the standard input.
    pub(super) fn data(&self) -> Option<&Path> {
        self.data.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Returns whether the latencies are printed by buckets.
    pub(super) fn latency_histogram(&self) -> bool {
        self.long.contains(&LongOption::LatencyHistogram)
    }

    /// Makes the file of messages of the data file.
    pub(super) fn messages(
        &self,
        form: Form,
        sending: &Sending,
        tool: &'static str,
        texts: Option<Texts>,
    ) -> Result<MessageFile, Failure> {
        let edns = self.edns()?;
        let key = self.key.as_deref().map(key).transpose()?;
        if form == Form::Binary && (edns.is_some() || key.is_some()) {
            return Err(Failure::input(anyhow!(
                "-B sends messages as they are: it does not go with -D, -e, -E and -y"
            )));
        }
        let common = self.clone();
        let warn = Box::new(move |text: String| common.say(tool, &text));
        let (most, runs) = (sending.longest_message(), sending.runs);
        let data = Data { form, recursion: true, edns, key, most, runs, warn, texts };
        data::messages(self.data.as_deref(), data)
    }

    fn edns(&self) -> Result<Option<Edns>, Failure> {
        if !self.edns && !self.dnssec && self.edns_option.is_none() {
            return Ok(None);
        }
        let mut edns = Edns { udp_size: UDP_SIZE, dnssec_ok: self.dnssec, ..Edns::default() };
        if let Some(option) = &self.edns_option {
            edns.add_option(option).map_err(Failure::input)?;
        }
        Ok(Some(edns))
    }
}

fn key(text: &str) -> Result<AheadKey, Failure> {
    text.parse().map_err(|e| Failure::input(anyhow::Error::new(e).context("-y")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_options() {
        let uri = |target: &str, path: &str| LongOption::DohUri {
            target: target.parse().expect("a target"),
            path: path.into(),
        };
        for (text, wanted) in [
            ("doh-uri=https://dns.example/q", uri("dns.example", "/q")),
            ("doh-uri=https://dns.example:8443/dns-query", uri("dns.example:8443", "/dns-query")),
            ("doh-uri=https://[::1]:8443/q", uri("[::1]:8443", "/q")),
            ("doh-uri=https://dns.example", uri("dns.example", "/")),
            ("doh-method=POST", LongOption::DohMethod(HttpMethod::Post)),
            ("num-queries-per-conn=7", LongOption::QueriesPerConnection(7)),
            ("latency-histogram", LongOption::LatencyHistogram),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for text in [
            "doh-uri=http://x/",
            "doh-uri=https:///",
            "doh-method=PUT",
            "num-queries-per-conn=0",
            "tls-sni",
            "x=1",
        ] {
            assert!(text.parse::<LongOption>().is_err(), "{text}");
        }
    }
}
