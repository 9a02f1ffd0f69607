//! Populations with hidden addresses: nothing of an address is left in the file, and the load that it makes is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use measure::Nanos;
use trace::{Anonymiser, Writer};
use wire::Name;

use crate::kit::capture::write_udp;
use crate::kit::command::{load, run_in};

/// Number of clients, and of queries of each.
const CLIENTS: u8 = 30;
const QUERIES: u8 = 12;

/// The address of a client; no part of it is like that of a name, a number or another address.
fn address(client: u8) -> IpAddr {
    if client.is_multiple_of(2) {
        Ipv4Addr::new(203, 177, 201, 100 + client).into()
    } else {
        Ipv6Addr::new(
            0x2a0d,
            0xf3c1,
            0x9ee7,
            0xb500 + u16::from(client),
            0xd1c2,
            0xe3f4,
            0xa5b6,
            0xc7d8,
        )
        .into()
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// A query of a client, with its whole address as EDNS client subnet.
fn query(client: u8, number: u8) -> Vec<u8> {
    let name: Name = format!("n{number}.c{client}.example").parse().expect("a name");
    let mut query = vec![0, number, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    query.extend_from_slice(name.as_wire());
    query.extend_from_slice(&[0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0]);
    let address = octets(address(client));
    let (len, family) = (address.len() as u8, if address.len() == 4 { 1 } else { 2 });
    query.extend_from_slice(&[0, 8 + len, 0, 8, 0, 4 + len, 0, family, 8 * len, 0]);
    query.extend_from_slice(&address);
    query
}

/// Writes a capture of all clients, whose queries alternate.
fn capture(path: &Path) {
    let mut out = Writer::new(Vec::new()).expect("in memory");
    for number in 0..QUERIES {
        for client in 0..CLIENTS {
            let bytes = query(client, number);
            let at_ms = u64::from(number) * 50 + u64::from(client);
            let server: IpAddr = match address(client) {
                IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 53).into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            let source = (address(client), 20_000 + u16::from(number));
            write_udp(&mut out, Nanos::from_millis(at_ms), source, (server, 53), &bytes);
        }
    }
    std::fs::write(path, out.finish().expect("in memory")).expect("written");
}

/// Makes a population of the folder's `c.pcap`; returns its decompressed octets.
fn population(dir: &Path, name: &str, key: Option<&str>) -> Vec<u8> {
    let with_key = key.map_or("", |_| "--key-file key");
    std::fs::write(dir.join("key"), key.unwrap_or_default()).expect("written");
    let (code, _, err) = run_in(dir, &format!("trace clients c.pcap --output {name} {with_key}"));
    assert_eq!(code, 0, "{err}");
    let mut plain = Vec::new();
    let mut source = trace::source::open(&dir.join(name)).expect("written");
    source.read_to_end(&mut plain).expect("whole");
    plain
}

fn has(octets: &[u8], part: &[u8]) -> bool {
    octets.windows(part.len()).any(|window| window == part)
}

#[test]
fn nothing_of_an_address_is_left_and_the_load_stays_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    capture(&dir.path().join("c.pcap"));
    let keys = ["0123456789abcdef".repeat(4), "fedcba9876543210".repeat(4)];
    let open = population(dir.path(), "open", None);
    let [hidden, again, other] = [("first", 0), ("again", 0), ("other", 1)]
        .map(|(name, key)| population(dir.path(), name, Some(&keys[key])));
    assert_eq!(hidden, again, "the same key gives the same addresses");
    let mut pseudonyms = keys.clone().map(|key| Anonymiser::new(&key.parse().expect("a key")));
    for client in 0..CLIENTS {
        let address = address(client);
        let plain = octets(address);
        // The network alone tells much too.
        let network = &plain[..plain.len().min(6)];
        assert!(has(&open, &plain));
        let text = address.to_string();
        for file in [&hidden, &other] {
            assert!(!has(file, network) && !has(file, text.as_bytes()), "{address}");
        }
        let [ours, theirs] = pseudonyms.each_mut().map(|key| octets(key.address(address)));
        assert!(has(&hidden, &ours) && !has(&hidden, &theirs), "{address}");
        assert!(has(&other, &theirs) && !has(&other, &ours), "{address}");
    }
    assert_eq!((hidden.len(), other.len()), (open.len(), open.len()));
    // The replay of the hidden clients.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = socket.local_addr().expect("an address").to_string();
    let all = usize::from(CLIENTS) * usize::from(QUERIES);
    let server = std::thread::spawn(move || {
        let mut came: BTreeMap<String, (Vec<u8>, BTreeSet<SocketAddr>)> = BTreeMap::new();
        let mut buffer = [0; 512];
        for _ in 0..all {
            let (len, peer) = socket.recv_from(&mut buffer).expect("a query");
            let name = wire::message::name_at(&buffer[..len], 12).expect("a name").to_string();
            let (number, client) = name.split_once('.').expect("two labels");
            let (numbers, peers) = came.entry(client.to_owned()).or_default();
            numbers.push(number[1..].parse().expect("a number"));
            peers.insert(peer);
            assert!((0..CLIENTS).all(|c| !has(&buffer[..len], &octets(address(c))[..4])), "{name}");
            buffer[2] |= 0x80;
            socket.send_to(&buffer[..len], peer).expect("loopback");
        }
        came
    });
    let first = dir.path().join("first");
    let args = format!("--own-ports --timeout 60s --replay {}", first.display());
    let trial = load(&target, &args);
    assert_eq!((&trial["sent"], &trial["valid"]), (&all.into(), &all.into()), "{trial}");
    let came = server.join().expect("it ends");
    assert_eq!(came.len(), usize::from(CLIENTS));
    for (client, (numbers, peers)) in came {
        let port = peers.len();
        assert_eq!((numbers, port), ((0..QUERIES).collect(), 1), "{client}");
    }
}
