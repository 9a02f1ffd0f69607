//! Readiness: a server is ready when it answers the first and the last name of the namespace correctly.
//!
//! The queries are repeated within the time limit; there is no fixed wait. If the server ends
//! before that, the error is returned at once.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::Transport;
use measure::any_address;
use wire::message::{Header, Record, question_end, records};
use wire::{Expect, Name, Namespace, Pref64, Qtype, QueryTemplate, reply};

use crate::testbed::netns::Namespace as Netns;
use crate::testbed::process::{Process, ProcessError, TimeLimit};

/// Time to wait for a reply before the next query.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for a remote server to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of queries to a remote server for each question that it must answer correctly.
const TRIES: u16 = 20;

/// Transport of the questions that show whether a server is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A datagram for each question.
    Udp,
    /// A connection for each question.
    Tcp,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Over::Udp { "UDP" } else { "TCP" })
    }
}

impl Over {
    /// Returns the protocol of questions for a transport; `None` for transports with their own
    /// handshake.
    pub fn of(transport: Transport) -> Option<Self> {
        match transport {
            Transport::Udp => Some(Over::Udp),
            Transport::Tcp => Some(Over::Tcp),
            _ => None,
        }
    }
}

/// Address at which a server is queried.
#[derive(Clone, Debug)]
pub struct At {
    /// Address and port of the server.
    pub server: SocketAddr,
    /// Transport that carries the question, without an encrypted handshake.
    pub over: Over,
    /// Advice if the server does not answer, after `; `; may be empty.
    pub remedy: String,
}

/// A question and its correct answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name and type of the question, for messages.
    what: String,
    /// The query; its id of 0 is replaced when it is sent.
    query: QueryTemplate,
    /// Content of a correct reply.
    expect: Expect,
}

/// Record that is queried for every name of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The A record: the IPv4 address in the name.
    A,
    /// The AAAA record: the IPv4 address embedded in the prefix.
    Aaaa(Pref64),
    /// Any AAAA record, since the zone has its own addresses.
    AnyAaaa,
}

impl Question {
    /// Makes the questions for a server that has the zone `origin`, or the names of `namespace` without one.
    pub fn of(origin: Option<&Name>, namespace: &Namespace, ask: Ask) -> Vec<Self> {
        origin.map_or_else(|| Self::first_and_last(namespace, ask), |zone| vec![Self::soa(zone)])
    }

    /// Makes the questions for the first and the last name of a namespace.
    pub fn first_and_last(namespace: &Namespace, ask: Ask) -> Vec<Self> {
        let indices = [0, namespace.size() - 1];
        let question = |index| {
            let address = namespace.nth(index);
            let name = namespace.name(address);
            let (qtype, expect) = match ask {
                Ask::A => (Qtype::A, Expect::A(address)),
                Ask::Aaaa(pref64) => (Qtype::AAAA, Expect::Aaaa(pref64.embed(address))),
                Ask::AnyAaaa => (Qtype::AAAA, Expect::AnyAaaa),
            };
            let query = QueryTemplate::new(&name, qtype, true, false, None);
            Self { what: format!("{name} {qtype}"), query, expect }
        };
        indices.into_iter().map(question).collect()
    }

    /// Makes the question for the SOA record of a zone, which any answer without an error satisfies.
    pub fn soa(zone: &Name) -> Self {
        let query = QueryTemplate::new(zone, Qtype::SOA, true, false, None);
        Self { what: format!("{zone} SOA"), query, expect: Expect::NoError }
    }
}

/// Waits until `process` answers every question correctly; the queries come from the host `client`.
///
/// # Errors
/// If it ends, is late, or the run is interrupted; with its last answer and the remedy.
pub fn wait_ready(
    process: &mut Process,
    client: &Netns,
    at: &At,
    questions: &[Question],
    limit: Duration,
    interrupted: &AtomicBool,
) -> Result<(), ProcessError> {
    let At { server, over, remedy } = at;
    let mut time_limit = TimeLimit::new(limit);
    let mut id = 0;
    for question in questions {
        let mut last = "no answer".to_owned();
        loop {
            process.check()?;
            if interrupted.load(Ordering::Relaxed) {
                return Err(process.interrupted());
            }
            if time_limit.is_over() {
                let what = format!(
                    "answer {} correctly over {over} at {server} ({last}{remedy})",
                    question.what
                );
                return Err(process.late(&what, limit));
            }
            id += 1;
            match client.run(|| ask(*server, *over, question, id)).and_then(|asked| asked) {
                Ok(None) => break,
                Ok(Some(wrong)) => {
                    last = wrong;
                    // The server answers, but not correctly yet; wait before the next query.
                    std::thread::sleep(crate::testbed::process::POLL);
                }
                Err(e) => {
                    last = e.to_string();
                    std::thread::sleep(crate::testbed::process::POLL);
                }
            }
        }
    }
    Ok(())
}

/// Checks that a remote server answers every question correctly, with a few queries from `client` for each.
///
/// # Errors
/// The last answer, or why the server could not be queried.
pub fn answers(
    client: &Netns,
    server: SocketAddr,
    over: Over,
    questions: &[Question],
) -> Result<(), String> {
    for question in questions {
        let mut last = String::new();
        let right = (1..=TRIES).any(|id| {
            match client.run(|| ask(server, over, question, id)).and_then(|asked| asked) {
                Ok(None) => return true,
                Ok(Some(wrong)) => last = wrong,
                Err(e) => last = e.to_string(),
            }
            std::thread::sleep(crate::testbed::process::POLL);
            false
        });
        if !right {
            return Err(format!(
                "{server} does not answer {} correctly over {over} ({last})",
                question.what
            ));
        }
    }
    Ok(())
}

/// Checks that a remote server accepts connections from `client`.
///
/// # Errors
/// If it does not, with the reason.
pub fn accepts(client: &Netns, server: SocketAddr) -> Result<(), String> {
    let connected = client.run(|| TcpStream::connect_timeout(&server, CONNECT_TIMEOUT));
    let connected = connected.and_then(|connected| connected.map(drop));
    connected.map_err(|e| {
        format!("{server} accepts no connection ({e}): is it up, and is this its port?")
    })
}

/// Queries once from a new socket; returns `None` for the correct answer, otherwise the error in
/// it.
fn ask(server: SocketAddr, over: Over, question: &Question, id: u16) -> io::Result<Option<String>> {
    let mut query = question.query.bytes().to_vec();
    question.query.set_id(&mut query, id);
    let answer = match over {
        Over::Udp => exchange(server, &query, REPLY_TIMEOUT),
        Over::Tcp => exchange_on_connection(server, &query, REPLY_TIMEOUT),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Some("no answer".to_owned())),
        Err(e) => return Err(e),
    };
    if reply::id(&answer) != Some(id) {
        return Ok(Some("an answer to another question".to_owned()));
    }
    let sent = &query[question.query.question_range()];
    let wrong = reply::check(&answer, sent, &question.expect).err();
    Ok(wrong.map(|e| e.reason().to_owned() + &addresses(&answer, &question.expect)))
}

/// Returns the expected address and those in an answer, in words; empty without both.
fn addresses(answer: &[u8], expect: &Expect) -> String {
    let wanted: IpAddr = match *expect {
        Expect::A(address) => address.into(),
        Expect::Aaaa(address) => address.into(),
        _ => return String::new(),
    };
    let address = |record: Record<'_>| -> Option<String> {
        match record.rtype {
            Qtype::A => Some(Ipv4Addr::from(<[u8; 4]>::try_from(record.rdata).ok()?).to_string()),
            Qtype::AAAA => {
                Some(Ipv6Addr::from(<[u8; 16]>::try_from(record.rdata).ok()?).to_string())
            }
            _ => None,
        }
    };
    let count = Header::read(answer).map_or(0, |header| header.counts[1]);
    let answers = question_end(answer).into_iter().flat_map(|end| records(answer, end));
    let found: Vec<_> = answers.take(count.into()).filter_map(address).collect();
    if found.is_empty() {
        return String::new();
    }
    format!(": expected {wanted}, received {}", found.join(", "))
}

/// Sends a query on a new connection; returns the first message that comes back.
///
/// # Errors
/// `WouldBlock` if no more of the message arrives within `timeout`; errors of the connection.
fn exchange_on_connection(
    server: SocketAddr,
    query: &[u8],
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect_timeout(&server, timeout)?;
    connection.set_read_timeout(Some(timeout))?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    connection.write_all(&[&length.to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    connection.read_exact(&mut length)?;
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    connection.read_exact(&mut reply)?;
    Ok(reply)
}

/// Sends a query from a new socket; returns the first datagram that comes back.
///
/// # Errors
/// `WouldBlock` if none comes within `timeout`; errors of the socket.
pub(crate) fn exchange(server: SocketAddr, query: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((any_address(server.ip()), 0))?;
    socket.set_read_timeout(Some(timeout))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut reply = vec![0; usize::from(u16::MAX)];
    let len = socket.recv(&mut reply)?;
    reply.truncate(len);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_ends_of_a_namespace() {
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().unwrap());
        let questions =
            Question::first_and_last(&namespace, Ask::Aaaa("2001:db8:64::/96".parse().unwrap()));
        let words: Vec<&str> = questions.iter().map(|q| q.what.as_str()).collect();
        assert_eq!(
            words[0].trim_end_matches(" AAAA").trim_end_matches('.'),
            "010-000-000-000.dns64perf.test"
        );
        assert!(words[1].starts_with("010-255-255-255."));
        assert_eq!(questions[1].expect, Expect::Aaaa("2001:db8:64::aff:ffff".parse().unwrap()));
    }

    fn question() -> Question {
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().unwrap());
        Question::first_and_last(&namespace, Ask::A).remove(0)
    }

    #[test]
    fn one_answer_is_checked() {
        let server = UdpSocket::bind("[::1]:0").unwrap();
        let (address, question) = (server.local_addr().unwrap(), question());
        // A query sent back is no answer.
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (len, peer) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..len], peer).unwrap();
        });
        let found = ask(address, Over::Udp, &question, 7).unwrap();
        assert_eq!(found.as_deref(), Some("not-a-response"));
        echo.join().unwrap();
        // No server listens any more.
        assert!(ask(address, Over::Udp, &question, 8).is_err());
    }

    #[test]
    fn a_wrong_address_is_named_beside_the_expected_one() {
        let question = question();
        let mut reply = question.query.bytes().to_vec();
        (reply[2], reply[7]) = (0x84, 1);
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
        let said = addresses(&reply, &question.expect);
        assert_eq!(said, ": expected 10.0.0.0, received 192.0.2.7");
        assert_eq!(addresses(question.query.bytes(), &question.expect), "");
        assert_eq!(addresses(&reply, &Expect::NoError), "");
    }

    #[test]
    fn a_server_that_takes_no_connection_is_told() {
        let server = TcpListener::bind("[::1]:0").unwrap();
        let (address, own) = (server.local_addr().unwrap(), Netns::own().unwrap());
        assert_eq!(accepts(&own, address), Ok(()));
        drop(server);
        let why = accepts(&own, address).unwrap_err();
        assert!(why.contains("accepts no connection") && why.contains("refused"), "{why}");
    }

    #[test]
    fn one_answer_on_a_connection_is_checked() {
        let server = TcpListener::bind("[::1]:0").unwrap();
        let (address, question) = (server.local_addr().unwrap(), question());
        // A query sent back on the first connection; the second ends at once.
        let echo = std::thread::spawn(move || {
            let (mut connection, _) = server.accept().unwrap();
            let mut length = [0; 2];
            connection.read_exact(&mut length).unwrap();
            let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
            connection.read_exact(&mut query).unwrap();
            connection.write_all(&[&length[..], &query].concat()).unwrap();
            drop(server.accept().unwrap());
        });
        let found = ask(address, Over::Tcp, &question, 7).unwrap();
        assert_eq!(found.as_deref(), Some("not-a-response"));
        assert!(ask(address, Over::Tcp, &question, 8).is_err());
        echo.join().unwrap();
    }
}
