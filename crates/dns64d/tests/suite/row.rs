//! One row: a rule, the data of upstream, the queries and the expected answers.
//!
//! Expectations are items separated by `;`:
//!
//! ```text
//!   NOERROR, NXDOMAIN, ...           the return code; always the first word
//!   www.example 60 A 192.0.2.1       a record of the answer; all records are listed, the TTL is optional
//!   none                             an empty answer
//!   soa 1                            SOA records in the authority section
//!   authority REC, additional REC    a record of that section
//!   no-authority                     nothing in the authority section
//!   no-additional                    only OPT in the additional section
//!   additionals 1                    number of records there besides OPT
//!   +ad -ad +tc -ra ...              header flags
//!   asked NAME TYPE [times]          a query that upstream received; without a number: at least once
//!   unasked NAME TYPE
//!   asked-with NAME TYPE +do +cd -do -cd ecs=NET cookie=OCTETS no-options tcp udp
//!   size 512                         at most this number of octets
//!   opt, no-opt, echo-do, ecs        EDNS of the reply
//!   scope 24                         scope of the client subnet of the reply
//!   options 0                        number of EDNS options of the reply
//!   ede 6                            an extended error of the reply (RFC 8914), for a server that sends them
//!   no-ede                           no extended error
//!   ttl 60                           all TTLs of the answer from 1 to this
//!   no-rrsig                         no signature in the answer
//!   lower-case                       no capital letter in owners and data, signatures excepted
//! ```

use std::time::Duration;

use domain::base::iana::Rtype;

use crate::kit::client::Query;
use crate::kit::message::{self, Reply, Seen};
use crate::kit::script::Script;
use crate::kit::server::{self, Kind, Server};

/// Configuration of another server for a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// The usual configuration with these lines.
    With(&'static str),
    /// The reason why it has no such setting or the rule does not apply to it.
    Cannot(&'static str),
}

/// A check beyond queries and answers; fails with the reason.
pub(crate) type Check = fn(&Server, &Script) -> Result<(), String>;

/// A rule of an RFC: what is configured, what upstream says, what a client gets.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Short text of the rule.
    pub(crate) name: &'static str,
    /// RFC and section that state the rule, or the page of ours.
    pub(crate) rfc: &'static str,
    /// Additional configuration of dns64d, TOML.
    pub(crate) config: &'static str,
    /// Additional configuration of Unbound, or why it cannot follow the rule.
    pub(crate) unbound: Peer,
    /// Additional configuration of BIND, or why it cannot follow the rule.
    pub(crate) bind: Peer,
    /// Data of upstream: question and reply.
    pub(crate) upstream: &'static [(&'static str, &'static str)],
    /// Whether upstream is queried over IPv6.
    pub(crate) upstream6: bool,
    /// Queries and expectations, in order.
    pub(crate) queries: &'static [(&'static str, &'static str)],
    /// A check beyond queries and answers.
    pub(crate) check: Option<Check>,
    /// Reasons why other servers behave otherwise.
    pub(crate) differs: &'static [(Kind, &'static str)],
}

impl Row {
    pub(crate) const NONE: Row = Row {
        name: "",
        rfc: "",
        config: "",
        unbound: Peer::With(""),
        bind: Peer::With(""),
        upstream: &[],
        upstream6: false,
        queries: &[],
        check: None,
        differs: &[],
    };

    /// Returns the reason why another server cannot run the row.
    pub(crate) fn cannot(&self, kind: Kind) -> Option<&'static str> {
        let peer = match kind {
            Kind::Dns64d => return None,
            Kind::Unbound => self.unbound,
            Kind::Bind => self.bind,
        };
        match peer {
            Peer::Cannot(why) => Some(why),
            Peer::With(_) => None,
        }
    }

    /// Runs the row.
    ///
    /// # Errors
    /// The expectation, and what was received.
    pub(crate) fn run(&self, kind: Kind) -> Result<(), String> {
        let script = Script::start_at(server::loopback(self.upstream6), self.upstream);
        let script = script.map_err(|e| e.to_string())?;
        let config = match (kind, self.unbound, self.bind) {
            (Kind::Dns64d, ..) => self.config,
            (Kind::Unbound, Peer::With(config), _) | (Kind::Bind, _, Peer::With(config)) => config,
            (_, _, _) => return Err("cannot".into()),
        };
        let server = Server::start(kind, &[script.address()], config)?;
        // The other servers wait longer for a silent upstream than dns64d is configured to.
        let timeout = Duration::from_secs(if kind == Kind::Dns64d { 30 } else { 15 });
        for (query, expected) in self.queries {
            let parsed = Query::parse(query);
            let address = if parsed.v6 { server.address6() } else { server.address() };
            let reply = parsed.ask(address, timeout);
            validate(expected, reply.as_ref(), &script).map_err(|why| {
                let came = reply.map_or("no reply".to_owned(), |reply| reply.to_string());
                format!("{query}: {why}\n    came: {came}\n    asked: {}", asked(&script))
            })?;
        }
        self.check.map_or(Ok(()), |check| check(&server, &script)).map_err(|why| {
            let log = if kind == Kind::Dns64d { server.log() } else { String::new() };
            format!("{why}\n    asked: {}\n{log}", asked(&script))
        })
    }
}

/// Returns the queries that upstream received, in one line.
fn asked(script: &Script) -> String {
    let asked = script.asked();
    let words = asked.iter().take(20).map(|a| {
        let by = if a.tcp { "/tcp" } else { "" };
        format!("{} {}{by}", a.name, a.rtype)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Compares a reply with its expectation.
fn validate(expected: &str, reply: Option<&Reply>, script: &Script) -> Result<(), String> {
    let mut items = expected.split(['\n', ';']).map(str::trim).filter(|item| !item.is_empty());
    let rcode = items.next().expect("an expectation");
    let Some(reply) = reply else {
        return if rcode == "no-reply" { Ok(()) } else { Err("no reply".into()) };
    };
    if rcode != reply.rcode {
        return Err(format!("{rcode} was expected"));
    }
    let mut answer: Option<Vec<Seen>> = None;
    for item in items {
        let (word, rest) = item.split_once(' ').unwrap_or((item, ""));
        if word == "none" {
            answer = Some(Vec::new());
        } else if let Some(ok) =
            about_reply(word, rest, reply).or_else(|| about_upstream(word, rest, script))
        {
            if !ok {
                return Err(format!("`{item}` was expected"));
            }
        } else {
            answer.get_or_insert_default().extend(message::as_seen(&[message::record(item)]));
        }
    }
    match answer {
        Some(answer) => same_records(&answer, &reply.answer),
        None => Ok(()),
    }
}

/// Compares the records: each expected one must be there, and no other.
fn same_records(expected: &[Seen], seen: &[Seen]) -> Result<(), String> {
    let mut left: Vec<&Seen> = seen.iter().collect();
    for record in expected {
        match left.iter().position(|seen| seen.is(record)) {
            Some(found) => drop(left.swap_remove(found)),
            None => return Err(format!("`{record}` was expected")),
        }
    }
    match left.first() {
        Some(record) => Err(format!("`{record}` was not expected")),
        None => Ok(()),
    }
}

/// Checks an expectation of the reply; `None` if the word is not one.
fn about_reply(word: &str, rest: &str, reply: &Reply) -> Option<bool> {
    let has = |section: &[Seen]| {
        let expected = &message::as_seen(&[message::record(rest)])[0];
        section.iter().any(|seen| seen.is(expected))
    };
    let number = || rest.parse::<usize>().expect("a number");
    Some(match word {
        "soa" => {
            let soas = reply.authority.iter().filter(|seen| seen.rtype == Rtype::SOA);
            soas.count() == number()
        }
        "authority" => has(&reply.authority),
        "additional" => has(&reply.additional),
        "no-authority" => reply.authority.is_empty(),
        "additionals" => reply.additional.len() == number(),
        "no-additional" => reply.additional.is_empty(),
        "size" => reply.octets <= number(),
        "opt" => reply.edns.is_some(),
        "no-opt" => reply.edns.is_none(),
        "echo-do" => reply.edns.as_ref().is_some_and(|edns| edns.dnssec),
        "ecs" => reply.edns.as_ref().is_some_and(|edns| edns.option(message::ECS).is_some()),
        "scope" => {
            let subnet = reply.edns.as_ref().and_then(|edns| edns.option(message::ECS));
            subnet.is_some_and(|subnet| usize::from(subnet[3]) == number())
        }
        "options" => reply.edns.as_ref().is_some_and(|edns| edns.options.len() == number()),
        "ede" => reply.errors().any(|code| usize::from(code) == number()),
        "no-ede" => reply.errors().next().is_none(),
        "ttl" => {
            let fits = |ttl: u32| (1..=number()).contains(&(ttl as usize));
            !reply.answer.is_empty() && reply.answer.iter().all(|seen| fits(seen.ttl))
        }
        "lower-case" => {
            let records = [&reply.answer, &reply.authority, &reply.additional];
            records.into_iter().flatten().all(|r| !r.mixed_case || r.rtype == Rtype::RRSIG)
        }
        "no-rrsig" => {
            let signature = |rtype: Rtype| rtype == Rtype::RRSIG;
            !reply.answer.is_empty() && !reply.answer.iter().any(|seen| signature(seen.rtype))
        }
        _ if word.starts_with(['+', '-']) => {
            reply.flags.contains(&&word[1..]) == word.starts_with('+')
        }
        _ => return None,
    })
}

/// Checks an expectation of upstream queries; `None` if the word is not one.
fn about_upstream(word: &str, rest: &str, script: &Script) -> Option<bool> {
    if !["asked", "unasked", "asked-with"].contains(&word) {
        return None;
    }
    let words: Vec<&str> = rest.split(' ').collect();
    let (name, rtype) = message::question(&words[..2].join(" "));
    let asked = script.asked();
    let asked: Vec<_> = asked.iter().filter(|a| a.name == name && a.rtype == rtype).collect();
    Some(match word {
        "asked" => match words.get(2) {
            Some(times) => asked.len() == times.parse::<usize>().expect("a number"),
            None => !asked.is_empty(),
        },
        "unasked" => asked.is_empty(),
        _ => words[2..].iter().all(|word| {
            asked.iter().any(|a| {
                let edns = a.edns.as_ref();
                let dnssec = edns.is_some_and(|edns| edns.dnssec);
                match *word {
                    "+do" => dnssec,
                    "-do" => !dnssec,
                    "+cd" => a.cd,
                    "-cd" => !a.cd,
                    "tcp" => a.tcp,
                    "udp" => !a.tcp,
                    "no-opt" => edns.is_none(),
                    "no-options" => edns.is_none_or(|edns| edns.options.is_empty()),
                    _ if word.starts_with("cookie=") => {
                        let len = word["cookie=".len()..].parse().ok();
                        edns.and_then(|e| e.option(message::COOKIE)).map(<[u8]>::len) == len
                    }
                    _ => {
                        let network = word.strip_prefix("ecs=").expect("a known word");
                        let wanted = message::ecs(network);
                        edns.is_some_and(|e| e.option(message::ECS) == Some(&wanted))
                    }
                }
            })
        }),
    })
}
