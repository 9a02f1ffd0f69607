//! Addresses of a host, from the hosts file or from the name servers of this host.
//!
//! ```text
//! name ──> /etc/hosts ──> localhost, invalid (RFC 6761) ──> servers of /etc/resolv.conf, with its search list
//! ```
//!
//! The C library would load modules of the host for this (nsswitch.conf), which a static program
//! cannot do. So all builds use this resolver.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use answers::Raw;
use measure::any_address;
use wire::reply::chain::{Answers, ChainEvent};
use wire::{Header, Name, Qtype, QueryTemplate, Rcode, message, reply};

/// Most name servers, and most domains of the search list, that are used.
const MAX_SERVERS: usize = 3;
const MAX_SEARCH: usize = 6;

/// Configuration of name look-ups on this host: the hosts file, and the settings of its resolv.conf
/// (resolv.conf(5)).
#[derive(Debug)]
struct Resolver {
    hosts: String,
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    /// Names with fewer dots are looked up in the search list first.
    ndots: usize,
    timeout: Duration,
    /// Number of queries to each server.
    attempts: u64,
}

/// Why the addresses of a name are not known.
enum LookupError {
    /// The last server did not answer.
    Silent(String),
    /// The server gave no usable answer, or could not be queried.
    Failed(String),
}

/// Returns the addresses of a host, those that this host has a route to first, IPv6 before IPv4.
///
/// # Errors
/// If no source knows the name, or no name server answers.
pub(super) fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut found =
        Resolver::new(read("/etc/hosts"), &read("/etc/resolv.conf"), 53).addresses(host)?;
    found.sort_by_cached_key(|address| (!has_route(*address), address.is_ipv4()));
    Ok(found)
}

/// Returns whether this host has a route to an address; no packet is sent.
fn has_route(address: IpAddr) -> bool {
    UdpSocket::bind((any_address(address), 0))
        .is_ok_and(|socket| socket.connect((address, 53)).is_ok())
}

impl Resolver {
    /// Reads the texts of the two files; the name servers have the port `port`.
    fn new(hosts: String, conf: &str, port: u16) -> Self {
        let mut read = Resolver {
            hosts,
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in conf.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default()) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    read.servers.extend(address.map(|address| SocketAddr::new(address, port)));
                }
                Some("search" | "domain") => {
                    read.search = words.take(MAX_SEARCH).map(str::to_owned).collect();
                }
                Some("options") => words.for_each(|word| read.option(word)),
                _ => {}
            }
        }
        read.servers.truncate(MAX_SERVERS);
        if read.servers.is_empty() {
            read.servers.push((Ipv4Addr::LOCALHOST, port).into());
        }
        read
    }

    /// Reads one word of `options`; the bounds are those of resolv.conf(5).
    fn option(&mut self, word: &str) {
        let Some((name, number)) = word.split_once(':') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        match name {
            "ndots" => self.ndots = number.min(15) as usize,
            "timeout" => self.timeout = Duration::from_secs(number.clamp(1, 30)),
            "attempts" => self.attempts = number.clamp(1, 5),
            _ => {}
        }
    }

    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let bare = host.strip_suffix('.').unwrap_or(host);
        let of_line = |line: &str| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.eq_ignore_ascii_case(bare)).then_some(address)
        };
        let listed: Vec<IpAddr> = self.hosts.lines().filter_map(of_line).collect();
        if !listed.is_empty() {
            return Ok(listed);
        }
        let lower = bare.to_ascii_lowercase();
        if lower == "localhost" || lower.ends_with(".localhost") {
            return Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]);
        }
        let mut why = "no such host".to_owned();
        if lower == "invalid" || lower.ends_with(".invalid") {
            return Err(why);
        }
        // A name with a domain of the search list may be too long.
        for name in self.candidates(host).iter().filter_map(|name| name.parse::<Name>().ok()) {
            let mut found = Vec::new();
            for qtype in [Qtype::AAAA, Qtype::A] {
                match self.ask(&name, qtype) {
                    Ok(addresses) => found.extend(addresses),
                    // Servers that are silent once would be so for each name.
                    Err(LookupError::Silent(failed)) => return Err(failed),
                    Err(LookupError::Failed(failed)) => why = failed,
                }
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Err(why)
    }

    /// Returns the names to query, in order.
    fn candidates(&self, host: &str) -> Vec<String> {
        if host.ends_with('.') {
            return vec![host.to_owned()];
        }
        let mut names: Vec<String> =
            self.search.iter().map(|domain| format!("{host}.{domain}")).collect();
        let own = if host.matches('.').count() >= self.ndots { 0 } else { names.len() };
        names.insert(own, host.to_owned());
        names
    }

    /// Returns the addresses of one type that the first server with an answer has for a name.
    fn ask(&self, name: &Name, qtype: Qtype) -> Result<Vec<IpAddr>, LookupError> {
        let query = QueryTemplate::new(name, qtype, true, false, None);
        let mut last = LookupError::Silent(String::new());
        for server in (0..self.attempts).flat_map(|_| &self.servers) {
            // A random id, so that a stranger cannot guess it.
            let id = RandomState::new().hash_one(server) as u16;
            last = match answers::ask_one(*server, query.bytes(), id, self.timeout) {
                Raw::Message { bytes, .. } => {
                    match read_addresses(&bytes, &query.bytes()[query.question_range()], qtype) {
                        Ok(found) => return Ok(found),
                        Err(why) => LookupError::Failed(format!("{server}: {why}")),
                    }
                }
                Raw::Failed(why) => LookupError::Failed(format!("{server}: {why}")),
                _ => LookupError::Silent(format!("{server} does not answer")),
            };
        }
        Err(last)
    }
}

/// Reads the addresses of a reply; none if there is no such name.
fn read_addresses(bytes: &[u8], asked: &[u8], qtype: Qtype) -> Result<Vec<IpAddr>, String> {
    let header = Header::read(bytes).ok_or("the reply has no header")?;
    let question = reply::question(bytes).filter(|found| found.eq_ignore_ascii_case(asked));
    let (Some(question), Some(at)) = (question, message::question_end(bytes)) else {
        return Err("the reply is to another question".to_owned());
    };
    match Rcode(header.rcode().into()) {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Ok(Vec::new()),
        rcode => return Err(rcode.to_string()),
    }
    let mut found = Vec::new();
    let answers = Answers { reply: bytes, at, count: header.counts[1], question };
    let read = answers.follow(qtype, &mut |event| {
        match event {
            ChainEvent::Start => found.clear(),
            ChainEvent::Wanted(record) => {
                let four = <[u8; 4]>::try_from(record.rdata).map(IpAddr::from);
                found
                    .extend(four.or_else(|_| <[u8; 16]>::try_from(record.rdata).map(IpAddr::from)));
            }
            _ => {}
        }
        Ok(())
    });
    read.map(|_| found).map_err(|why| why.reason().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of two names at a free port: replies written by hand for the queries in this order.
    fn server(replies: &'static [&'static [u8]]) -> u16 {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let port = socket.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            let mut query = [0; 512];
            for reply in replies {
                let Ok((len, client)) = socket.recv_from(&mut query) else { return };
                let [flags, rcode, count, records @ ..] = reply else { return };
                let header = [query[0], query[1], *flags, *rcode, 0, 1, 0, *count, 0, 0, 0, 0];
                let _ = socket.send_to(&[&header[..], &query[12..len], records].concat(), client);
            }
        });
        port
    }

    fn resolver(hosts: &str, conf: &str, port: u16) -> Resolver {
        Resolver::new(hosts.to_owned(), conf, port)
    }

    const CONF: &str = "# ours\nnameserver 127.0.0.1\nsearch lab.test\noptions ndots:1 timeout:9\n";

    #[test]
    fn the_hosts_file_and_localhost_need_no_server() {
        let hosts = "192.0.2.7 ns1.example NS1 # 192.0.2.9 ns2\n2001:db8::7\tns1\n";
        let read = resolver(hosts, "nameserver 192.0.2.1\nnameserver broken", 1);
        assert_eq!(read.servers.len(), 1);
        let found = read.addresses("ns1").expect("a host");
        assert_eq!(found, ["192.0.2.7", "2001:db8::7"].map(|a| a.parse::<IpAddr>().expect(a)));
        assert_eq!(read.addresses("a.LOCALHOST").expect("RFC 6761").len(), 2);
    }

    #[test]
    fn a_short_name_is_looked_up_in_the_search_list_and_aliases_are_followed() {
        // AAAA: an alias of the name to `b`, and its address behind it; A: no data.
        let port = server(&[
            b"\x81\0\x02\xc0\x0c\0\x05\0\x01\0\0\0\x05\0\x03\x01b\0\x01b\0\0\x1c\0\x01\0\0\0\x05\0\x10\
              \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07",
            b"\x81\0\0",
        ]);
        let read = resolver("", CONF, port);
        assert_eq!(read.candidates("a"), ["a.lab.test", "a"]);
        assert_eq!(read.candidates("a.b"), ["a.b", "a.b.lab.test"]);
        assert_eq!(read.candidates("a."), ["a."]);
        assert_eq!(read.addresses("a"), Ok(vec!["2001:db8::7".parse().expect("an address")]));
    }

    #[test]
    fn a_failing_server_is_asked_again_and_a_missing_name_is_named() {
        const GONE: &[u8] = b"\x81\x03\0";
        const FAILED: &[u8] = b"\x81\x02\0";
        const FOUR: &[u8] = b"\x81\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\xc0\0\x02\x07";
        let port = server(&[FAILED, GONE, FOUR]);
        let found = resolver("", CONF, port).addresses("a.test.");
        assert_eq!(found, Ok(vec!["192.0.2.7".parse().expect("an address")]));
        let port = server(&[GONE, GONE, GONE, GONE]);
        assert_eq!(resolver("", CONF, port).addresses("a"), Err("no such host".to_owned()));
        const REFUSED: &[u8] = b"\x81\x05\0";
        let port = server(&[REFUSED; 4]);
        let error = resolver("", CONF, port).addresses("a.b.").expect_err("refused");
        assert!(error.ends_with("REFUSED"), "{error}");
    }
}
