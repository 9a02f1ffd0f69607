//! The example server with threads, against an upstream on the loopback.

#[path = "../examples/threads/server.rs"]
mod server;

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use clap::Parser;
use wire::message::HEADER;
use wire::{Header, Owner, Qtype, Query, QueryTemplate, Rcode, ReplyWriter};

use server::{Args, MESSAGE, Server, addresses};

/// Starts an upstream server on the loopback: names have A records only, `six.test` has an AAAA record, `no.test`
/// does not exist. It does not answer the first `silent` queries.
fn upstream(silent: usize) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut buffer, mut out) = ([0; MESSAGE], [0; MESSAGE]);
        for number in 0.. {
            let (len, client) = socket.recv_from(&mut buffer).expect("receives");
            let query = Query::parse(&buffer[..len]).expect("a query");
            if number < silent {
                continue;
            }
            let name = wire::message::name_at(query.question, 0).expect("a name").to_string();
            let mut reply = ReplyWriter::new(&mut out, 512, &query).expect("fits");
            match (name.trim_end_matches('.'), query.qtype) {
                ("no.test", _) => reply.rcode(Rcode::NXDOMAIN),
                ("six.test", Qtype::AAAA) => {
                    reply.answer(Owner::Question, Qtype::AAAA, 60, &Ipv6Addr::LOCALHOST.octets());
                }
                (_, Qtype::A) => {
                    reply.answer(Owner::Question, Qtype::A, 60, &[192, 0, 2, 33]);
                }
                _ => {}
            }
            let len = reply.finish();
            socket.send_to(&out[..len], client).expect("sends");
        }
    });
    address
}

/// Time to wait for an upstream server that answers: on a busy machine it may take a while.
const LONG: &str = "2s";
/// The same for one that is silent.
const SHORT: &str = "100ms";

/// Starts the server with these upstream servers, the time to wait for them and further arguments; returns its address.
fn start(upstream: &[SocketAddr], timeout: &str, more: &[&str]) -> SocketAddr {
    let mut words = vec!["threads".to_owned(), "--listen".into(), "127.0.0.1:0".into()];
    words.extend(["--prefix", "64:ff9b::/96", "--timeout", timeout].map(str::to_owned));
    upstream.iter().for_each(|u| words.extend(["--upstream".into(), u.to_string()]));
    words.extend(more.iter().map(|word| (*word).to_owned()));
    let server = Server::new(Args::parse_from(words));
    let socket = UdpSocket::bind(server.args.listen[0]).expect("a port");
    let address = socket.local_addr().expect("an address");
    let pool = server.args.pool.map(|threads| server.start_pool(threads));
    std::thread::spawn(move || server.serve(socket, pool.as_ref()));
    address
}

/// Asks for the AAAA record of a name; returns the response code and the addresses.
fn ask(server: SocketAddr, name: &str) -> (u8, Vec<String>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let query = QueryTemplate::new(&name.parse().expect("a name"), Qtype::AAAA, true, false, None);
    let mut buffer = [0; MESSAGE];
    let len = query.write(77, &mut buffer);
    socket.send_to(&buffer[..len], server).expect("sends");
    let len = socket.recv(&mut buffer).expect("a reply");
    let header = Header::read(&buffer[..len]).expect("a header");
    assert_eq!((header.id, header.is_response()), (77, true));
    let found = addresses(&buffer[..len], Qtype::AAAA).into_iter().map(|(_, data)| {
        Ipv6Addr::from(<[u8; 16]>::try_from(data).expect("an address")).to_string()
    });
    (header.rcode(), found.collect())
}

#[test]
fn addresses_are_synthesised_with_a_thread_for_each_query_and_by_a_pool() {
    for more in [&[][..], &["--pool", "2"]] {
        let server = start(&[upstream(0)], LONG, more);
        assert_eq!(ask(server, "a.test"), (0, vec!["64:ff9b::c000:221".to_owned()]));
        assert_eq!(ask(server, "six.test"), (0, vec!["::1".to_owned()]));
        assert_eq!(ask(server, "no.test"), (3, vec![]));
    }
}

#[test]
fn a_query_is_sent_again_and_then_fails() {
    let server = start(&[upstream(2)], "500ms", &[]);
    assert_eq!(ask(server, "a.test").0, 0);
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = start(&[silent.local_addr().expect("an address")], SHORT, &["--resend", "1"]);
    assert_eq!(ask(server, "a.test"), (2, vec![]));
    // Two attempts, both for AAAA.
    silent.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; MESSAGE];
    assert!((0..2).all(|_| silent.recv(&mut buffer).is_ok()) && silent.recv(&mut buffer).is_err());
}

#[test]
fn both_policies_use_the_servers_as_they_say() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let servers = [silent.local_addr().expect("an address"), upstream(0)];
    let server = start(&servers, LONG, &["--choose", "round-robin"]);
    for name in ["a.test", "b.test", "c.test"] {
        assert_eq!(ask(server, name).0, 0);
    }
    // Only the first message went to the silent server; all others to the one that answers.
    silent.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; MESSAGE];
    assert!(silent.recv(&mut buffer).is_ok() && silent.recv(&mut buffer).is_err());
    let server = start(&servers, SHORT, &["--choose", "random", "--resend", "30"]);
    let asked = |n: u8| ask(server, &format!("{}.test", char::from(b'a' + n))).0;
    assert!((0..12).all(|n| asked(n) == 0));
    assert!(silent.recv(&mut buffer).is_ok(), "24 messages, none to one of two servers");
}

#[test]
fn malformed_queries_get_formerr() {
    let server = start(&[upstream(0)], LONG, &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    socket.send_to(&[0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63], server).expect("sends");
    let mut buffer = [0; 64];
    let len = socket.recv(&mut buffer).expect("a reply");
    assert_eq!((&buffer[..2], buffer[3] & 15, len), (&[0, 9][..], 1, HEADER));
}
