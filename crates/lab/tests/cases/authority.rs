//! What the lab takes for `dnsdyno auth` here: the least authority that a DNS64 server can work with.

use std::net::UdpSocket;

use wire::message::flag;
use wire::{Ipv4Prefix, Namespace, Owner, Pref64, Qtype, Query, Rcode, ReplyWriter};

/// Serves until it is killed.
pub(crate) fn serve(args: impl Iterator<Item = String>) {
    let (mut listen, mut prefix, mut pref64, mut always) = (vec![], None, None, false);
    let mut args = args;
    while let (Some(flag), Some(value)) = (args.next(), args.next()) {
        match flag.as_str() {
            "--listen" => listen.push(UdpSocket::bind(&value).unwrap()),
            "--namespace" => prefix = value.parse::<Ipv4Prefix>().ok(),
            "--pref64" => pref64 = value.parse::<Pref64>().ok(),
            "--aaaa" => always = value == "always",
            _ => {}
        }
    }
    let namespace = Namespace::with_default_zone(prefix.unwrap());
    let synthesise = always.then(|| pref64.unwrap());
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
