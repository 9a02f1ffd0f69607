//! What the lab takes for its AuthDNS here: the least authority that a DNS64 server can work with.

use std::net::{SocketAddr, UdpSocket};

use lab::authdns::Serves;
use lab::{AuthAnswers, Task};
use wire::message::flag;
use wire::{Namespace, Owner, Pref64, Qtype, Query, Rcode, ReplyWriter};

/// Serves as the AuthDNS of the lab until it is killed.
pub(crate) fn serve(task: Task) {
    let Task::Auth(task) = task else { panic!("no AuthDNS: {task:?}") };
    let AuthAnswers::Namespace { prefix, pref64, serves, .. } = task.answers else {
        panic!("no namespace: {:?}", task.answers)
    };
    let synthesise = (serves == Serves::SelfTest).then_some(pref64.as_str());
    serve_at(&task.listen, &prefix, synthesise);
}

/// Serves as a server under test: with an address, the IPv4 prefix of its names, and the prefix of its AAAA records.
pub(crate) fn serve_words(words: &[String]) {
    let [address, prefix, pref64] = words else { panic!("not three words: {words:?}") };
    serve_at(&[address.parse().unwrap()], prefix, Some(pref64));
}

fn serve_at(listen: &[SocketAddr], prefix: &str, synthesise: Option<&str>) {
    let namespace = Namespace::with_default_zone(prefix.parse().unwrap());
    let synthesise = synthesise.map(|prefix| prefix.parse::<Pref64>().unwrap());
    let listen = listen.iter().map(|address| UdpSocket::bind(address).unwrap());
    let listen: Vec<UdpSocket> = listen.collect();
    let serving = listen.into_iter().map(|socket| {
        std::thread::spawn(move || {
            let (mut buffer, mut out) = ([0; 2048], [0; 2048]);
            loop {
                let (len, peer) = socket.recv_from(&mut buffer).unwrap();
                if let Some(len) = answer(&buffer[..len], &mut out, &namespace, synthesise) {
                    socket.send_to(&out[..len], peer).unwrap();
                }
            }
        })
    });
    serving.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

fn answer(
    message: &[u8],
    out: &mut [u8],
    namespace: &Namespace,
    synthesise: Option<Pref64>,
) -> Option<usize> {
    let query = Query::parse(message).ok()?;
    let mut writer = ReplyWriter::new(out, 1232, &query)?;
    writer.flag(flag::AA, true);
    if let Some(edns) = &query.edns {
        writer.opt(1232, edns.do_bit);
    }
    let zone = namespace.zone().as_wire();
    match (namespace.address(query.qname), query.qtype) {
        (Some(address), Qtype::A) => {
            writer.answer(Owner::Question, Qtype::A, 3600, &address.octets());
        }
        (Some(address), Qtype::AAAA) if synthesise.is_some() => {
            let aaaa = synthesise?.embed(address).octets();
            writer.answer(Owner::Question, Qtype::AAAA, 3600, &aaaa);
        }
        (found, _) => {
            if found.is_none() && query.qname != zone {
                writer.rcode(Rcode::NXDOMAIN);
            }
            let numbers: Vec<u8> =
                [1u32, 3600, 600, 604_800, 300].iter().flat_map(|n| n.to_be_bytes()).collect();
            writer.authority(Owner::Name(zone), Qtype::SOA, 3600, &[zone, zone, &numbers]);
        }
    }
    Some(writer.finish())
}
