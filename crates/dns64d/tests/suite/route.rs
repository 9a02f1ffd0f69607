//! The way of packets: source addresses, the class of traffic, devices, and addresses that the host does not have yet.

use std::io::{IoSliceMut, Read};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};

use crate::faults::{MAX_WAIT, SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::client::Query;
use crate::kit::server::{Kind, Server, free_port};
use crate::nat64::{in_namespace, shell};

/// Receives a datagram; returns its sender and the octet with its class.
fn receive(socket: &UdpSocket) -> (IpAddr, u8) {
    let mut octets = [0; 512];
    let mut control = nix::cmsg_space!(u8);
    let mut parts = [IoSliceMut::new(&mut octets)];
    let fd = socket.as_raw_fd();
    let message = recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), MsgFlags::empty());
    let message = message.expect("a query");
    let class = message.cmsgs().expect("whole").find_map(|item| match item {
        ControlMessageOwned::Ipv4Tos(class) => Some(class),
        _ => None,
    });
    (message.address.expect("a sender").ip().into(), class.expect("its class"))
}

#[test]
fn queries_have_their_source_and_their_class() {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a port");
    upstream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    setsockopt(&upstream, sockopt::IpRecvTos, &true).expect("it is IPv4");
    let at = upstream.local_addr().expect("its address");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = format!(
        "[upstream]\nsource = [\"127.0.0.9\"]\nroute = {{ dscp = 46 }}\n\
         [[forward]]\nzones = [\"tcp.example\"]\nservers = [\"{}\"]\ntransport = \"tcp\"\nsource = [\"127.0.0.8\"]",
        tcp.local_addr().expect("its address")
    );
    let server = Server::start(Kind::Dns64d, &[at], &config).expect("it starts");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let query = |name: &[u8]| {
        [b"\0\x07\x01\0\0\x01\0\0\0\0\0\0", name, b"\x07example\0\0\x1c\0\x01"].concat()
    };
    client.send_to(&query(b"\x03www"), server.address()).expect("sends");
    assert_eq!(receive(&upstream), (IpAddr::from([127, 0, 0, 9]), 46 << 2));
    client.send_to(&query(b"\x03tcp"), server.address()).expect("sends");
    let (mut stream, from) = tcp.accept().expect("a connection");
    assert_eq!(from.ip(), IpAddr::from([127, 0, 0, 8]));
    // It is a query.
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
}

#[test]
fn addresses_need_not_be_there_yet() {
    in_namespace(&[], || {
        let upstream = ipv4_only();
        let later = SocketAddr::new([192, 0, 2, 77].into(), free_port());
        let config = format!("[server]\nlisten = [\"{later}\"]\nallow = [\"any\"]\n");
        let start = |config: &str| Server::start(Kind::Dns64d, &[upstream.address()], config);
        let said = start(&config).err().expect("there is no such address");
        assert!(said.contains("server.listen") && said.contains("192.0.2.77"), "{said}");
        let _server = start(&format!("{config}route = {{ freebind = true }}")).expect("it starts");
        shell("ip addr add 192.0.2.77/32 dev lo").expect("root may");
        for query in ["www.example AAAA", "www.example AAAA +tcp"] {
            let query = Query::parse(query);
            wait_for("an answer", || {
                query.ask(later, Duration::from_secs(1)).is_some_and(|reply| is_right(&reply))
            });
        }
    });
}

#[test]
fn link_local_addresses_have_their_interface() {
    let setup = [
        "ip link add one type veth peer name two",
        "ip link set one addrgenmode none up",
        "ip link set two up",
        "ip addr add fe80::1/64 dev one nodad",
    ];
    in_namespace(&setup, || {
        let (upstream, port) = (ipv4_only(), free_port());
        let start = |device: &str| {
            let at = format!("\"[fe80::1%{device}]:{port}\", \"fe80::1%{device}\"");
            let config = format!("[server]\nlisten = [{at}]\nallow = [\"any\"]\n");
            Server::start(Kind::Dns64d, &[upstream.address()], &config)
        };
        let said = start("none0").err().expect("there is no such interface");
        assert!(said.contains("[fe80::1%none0]"), "{said}");
        assert!(
            said.contains("there is no interface none0") && !said.contains("INTERFACE"),
            "{said}"
        );
        let _server = start("one").expect("it starts");
        let scope = nix::net::if_::if_nametoindex("one").expect("it is there");
        for port in [port, 53] {
            let at = SocketAddrV6::new("fe80::1".parse().expect("an address"), port, 0, scope);
            for query in ["www.example AAAA", "www.example AAAA +tcp"] {
                let reply = Query::parse(query).ask(at.into(), MAX_WAIT);
                assert!(reply.is_some_and(|reply| is_right(&reply)), "{query} at {at}");
            }
        }
    });
}

#[test]
fn sockets_belong_to_their_device() {
    let setup = [
        "ip link add one type veth peer name two",
        "ip link set one up",
        "ip addr add 198.51.100.1/24 dev one",
    ];
    in_namespace(&setup, || {
        let upstream = ipv4_only();
        let answers = |device: &str| {
            let server = dns64d(&[&upstream], &format!("[server.route]\ndevice = \"{device}\""));
            let query = Query::parse("www.example AAAA");
            let reply = query.ask(server.address(), MAX_WAIT);
            reply.is_some_and(|reply| reply.answer.iter().any(|seen| seen.data == SYNTHESISED))
        };
        assert!(answers("lo"));
        let start = |config| Server::start(Kind::Dns64d, &[upstream.address()], config).err();
        let said = start("[server.route]\ndevice = \"one\"").expect("the device has no ::1");
        assert!(said.contains("server.listen: cannot listen on UDP [::1]"), "{said}");
        let said = start("[server.route]\ndevice = \"none0\"").expect("there is no such device");
        assert!(said.contains("device"), "it names the setting: {said}");
    });
}
