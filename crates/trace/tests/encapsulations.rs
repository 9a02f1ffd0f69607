//! A query is found below every link layer and in every encapsulation that is read, and other packets are named.

use std::path::PathBuf;

use etherparse::PacketBuilder;
use measure::Nanos;
use proptest::prelude::*;
use trace::{Capture, Frames, Merge};
use wire::Qtype;

use crate::common::{FORMS, START, capture, frame, framed, query, read, reply, tcp, udp};

/// Returns an IPv4 packet of this protocol.
fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let packet = PacketBuilder::ipv4([10, 1, 0, 1], [10, 1, 0, 2], 64);
    packet.write(&mut out, protocol.into(), payload).expect("fits");
    out
}

/// Returns a datagram to this port.
fn datagram(port: u16, head: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let packet = PacketBuilder::ipv4([10, 1, 0, 1], [10, 1, 0, 2], 64).udp(40_000, port);
    packet.write(&mut out, &[head, inner].concat()).expect("fits");
    out
}

/// Returns a packet of UDP as one of UDP-Lite, over IPv4.
fn lite(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[9] = 136;
    packet
}

/// Returns the frames of a packet below each link layer and in each encapsulation: a name, the link type, the frame.
fn forms(packet: &[u8]) -> Vec<(&'static str, u16, Vec<u8>)> {
    let ether = frame(1, false, packet);
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], packet].concat();
    let with = |head: &[u8]| [head, packet].concat();
    let over = |head: &[u8], inner: &[u8]| [head, inner].concat();
    let gre = |head: &[u8], inner: &[u8]| ip(47, &[head, inner].concat());
    let ethernet = |kind: [u8; 2], payload: &[u8]| [&[2; 12][..], &kind, payload].concat();
    let erspan = over(&[0x10, 0, 0, 0, 0, 0, 0, 0], &ether);
    let mut nflog = vec![2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 0, 0];
    nflog.extend(((packet.len() + 4) as u16).to_le_bytes());
    nflog.extend([9, 0]);
    let vxlan = datagram(4_789, &[8, 0, 0, 0, 0, 0, 1, 0], &ether);
    vec![
        ("Q-in-Q", 1, ethernet([0x88, 0xa8], &with(&[0, 1, 0x81, 0, 0, 2, 8, 0]))),
        ("LLC in Ethernet", 1, ethernet([0, 80], &snap)),
        ("LLC", 100, snap.clone()),
        ("FDDI", 10, over(&[0x50; 13], &snap)),
        ("Token Ring", 6, over(&[&[0x10, 0x40][..], &[0; 12]].concat(), &snap)),
        ("ARCNET", 7, with(&[1, 2, 212, 0, 0, 1])),
        ("ARCNET of RFC 1051", 7, with(&[1, 2, 240])),
        ("PPP", 9, with(&[0xff, 3, 0, 0x21])),
        ("PPP, compressed", 9, with(&[0x21])),
        ("PPP with direction", 204, with(&[1, 0xff, 3, 0, 0x21])),
        ("Cisco HDLC", 104, with(&[0x0f, 0, 8, 0])),
        ("PPPoE", 1, ethernet([0x88, 0x64], &with(&[0x11, 0, 0, 1, 0, 9, 0, 0x21]))),
        ("MPLS", 1, ethernet([0x88, 0x47], &with(&[0, 1, 0, 64, 0, 2, 1, 64]))),
        (
            "Ethernet over MPLS",
            1,
            ethernet([0x88, 0x47], &over(&[0, 1, 1, 64, 0, 0, 0, 0], &ether)),
        ),
        ("frame relay", 107, with(&[0x18, 0x41, 3, 0xcc])),
        ("802.11", 105, over(&[&[8, 2][..], &[0; 22]].concat(), &snap)),
        ("802.11 with quality of service", 105, over(&[&[0x88, 1][..], &[0; 24]].concat(), &snap)),
        ("radiotap", 127, over(&[&[0, 0, 8, 0, 0, 0, 0, 0, 8, 2][..], &[0; 22]].concat(), &snap)),
        ("PKTAP", 258, over(&[&[12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..]].concat(), &ether)),
        ("PPI", 192, over(&[0, 0, 8, 0, 1, 0, 0, 0], &ether)),
        ("NFLOG", 239, over(&nflog, packet)),
        ("IP in IP", 101, ip(4, packet)),
        ("6in4 around IPv4", 101, ip(41, packet)),
        ("GRE", 101, gre(&[0, 0, 8, 0], packet)),
        (
            "GRE with key, sum and number",
            101,
            gre(&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], packet),
        ),
        (
            "PPTP",
            101,
            gre(&[0x30, 1, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21], packet),
        ),
        ("bridged GRE", 101, gre(&[0, 0, 0x65, 0x58], &ether)),
        ("ERSPAN I", 101, gre(&[0, 0, 0x88, 0xbe], &ether)),
        ("ERSPAN II", 101, gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1], &erspan)),
        ("ERSPAN III", 101, gre(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1], &over(&[0x20; 12], &ether))),
        ("EtherIP", 101, ip(97, &over(&[0x30, 0], &ether))),
        ("VXLAN", 101, vxlan.clone()),
        (
            "VXLAN in VXLAN",
            101,
            datagram(4_789, &[8, 0, 0, 0, 0, 0, 2, 0], &frame(1, false, &vxlan)),
        ),
        ("Geneve", 101, datagram(6_081, &[1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0], packet)),
        ("GTP", 101, datagram(2_152, &[0x30, 255, 0, 0, 0, 0, 0, 1], packet)),
        (
            "GTP with an extension",
            101,
            datagram(2_152, &[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], packet),
        ),
        ("L2TP", 101, datagram(1_701, &[0x40, 2, 0, 0, 0, 1, 0, 1, 0xff, 3, 0, 0x21], packet)),
        ("MPLS over UDP", 101, datagram(6_635, &[0, 1, 1, 64], packet)),
        ("MACsec in clear", 1, ethernet([0x88, 0xe5], &with(&[0, 0, 0, 0, 0, 1, 8, 0]))),
        (
            "MACsec with a channel",
            1,
            ethernet([0x88, 0xe5], &with(&[0x20, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 0, 1, 8, 0])),
        ),
        ("802.1ah", 1, ethernet([0x88, 0xe7], &over(&[0, 0, 0, 9], &ether))),
        ("Cisco metadata", 1, ethernet([0x89, 0x09], &with(&[1, 1, 0, 1, 0, 7, 8, 0]))),
        ("HSR", 1, ethernet([0x89, 0x2f], &with(&[0, 60, 0, 1, 8, 0]))),
        (
            "NSH",
            1,
            ethernet(
                [0x89, 0x4f],
                &with(&[0, 6, 1, 1, 0, 0, 1, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ),
        ),
        (
            "NSH around Ethernet",
            1,
            ethernet([0x89, 0x4f], &over(&[0, 2, 2, 3, 0, 0, 1, 255], &ether)),
        ),
        (
            "NSH in VXLAN-GPE",
            101,
            datagram(4_790, &[12, 0, 0, 4, 0, 0, 1, 0], &with(&[0, 2, 2, 1, 0, 0, 1, 255])),
        ),
        ("CAPWAP", 101, datagram(5_247, &[0, 16, 2, 0, 0, 0, 0, 0], &ether)),
        ("LISP", 101, datagram(4_341, &[0x88, 0, 0, 1, 0, 0, 0, 1], packet)),
        ("TZSP", 101, datagram(37_008, &[1, 0, 0, 1, 10, 1, 0xc3, 0, 1], &ether)),
        ("UDP-Lite", 101, lite(packet)),
        ("GRE over UDP", 101, datagram(4_754, &[0, 0, 8, 0], packet)),
    ]
}

#[test]
fn messages_are_found_in_every_encapsulation() {
    let (asked, answer) = (query(1, Qtype::A), reply(query(1, Qtype::A), 3));
    let packets = [udp(false, 1, false, &asked), udp(false, 1, true, &answer)];
    let expected = read(capture(FORMS[0], 101, &packets)).0;
    let all: Vec<_> = packets.iter().map(|packet| forms(packet)).collect();
    for (number, (name, link, _)) in all[0].iter().enumerate() {
        let frames: Vec<_> = all.iter().map(|forms| forms[number].2.clone()).collect();
        let (messages, counts, error) = read(capture(FORMS[0], *link, &frames));
        assert!(error.is_none() && counts.packets == 2, "{name}");
        assert_eq!(messages, expected, "{name}: {counts:?}");
        assert_eq!(counts.others, [], "{name}");
    }
    // TCP in GRE, and IPv6 in Teredo.
    let segment = ip(47, &[&[0, 0, 8, 0][..], &tcp(9, false, 100, "", &framed(&asked))].concat());
    assert_eq!(read(capture(FORMS[0], 101, &[segment])).0.len(), 1);
    let teredo = datagram(3_544, &[0, 0, 1, 2, 3, 4, 5, 6], &udp(true, 1, false, &asked));
    assert_eq!(read(capture(FORMS[0], 101, &[teredo])).0.len(), 1);
}

/// Behind a load balancer queries have a header of its own in front, over TCP once for a connection. The client is the one that it
/// names, also of the replies.
#[test]
fn a_proxy_header_is_no_part_of_a_message() {
    let addresses = [0, 12, 192, 0, 2, 9, 192, 0, 2, 53, 1, 0, 0, 53];
    let asked = query(1, Qtype::A);
    let answered = reply(asked.clone(), 0);
    let with =
        |message: &[u8]| [&b"\r\n\r\n\0\r\nQUIT\n\x21\x12"[..], &addresses, message].concat();
    let two = [framed(&asked), framed(&asked)].concat();
    let packets = [
        udp(false, 1, false, &with(&asked)),
        tcp(2, false, 99, "S", &[]),
        tcp(2, false, 100, "", &with(&two)),
        udp(false, 1, true, &answered),
        tcp(2, true, 500, "", &framed(&answered)),
    ];
    let (messages, _, error) = read(capture(FORMS[0], 101, &packets));
    assert!(error.is_none() && messages.len() == 5, "{messages:?}");
    for (number, message) in messages.iter().enumerate() {
        let (octets, client_end) = match number {
            0..3 => (&asked, &message.from),
            _ => (&answered, &message.to),
        };
        assert_eq!(
            (&message.bytes, client_end),
            (octets, &"192.0.2.9:256".to_owned()),
            "{messages:?}"
        );
    }
}

#[test]
fn the_depth_of_encapsulations_is_bounded() {
    let nested = |levels| {
        (0..levels).fold(udp(false, 1, false, &query(1, Qtype::A)), |packet, _| ip(4, &packet))
    };
    assert_eq!(read(capture(FORMS[0], 101, &[nested(8)])).0.len(), 1);
    let (messages, counts, _) = read(capture(FORMS[0], 101, &[nested(9)]));
    assert_eq!((messages.len(), counts.other), (0, 1));
}

#[test]
fn packets_without_dns_are_named() {
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    let web = frame(1, false, &datagram(443, b"x", b""));
    let frames = [
        arp.clone(),
        web.clone(),
        web,
        frame(1, false, &ip(89, b"x")),
        [&[2; 12][..], &[9, 9, 0]].concat(),
    ];
    let (messages, counts, _) = read(capture(FORMS[0], 1, &frames));
    assert!(messages.is_empty());
    let others: Vec<_> = counts.others.iter().map(|other| (other.count, &*other.name)).collect();
    assert_eq!(others, [(2, "UDP of port 443"), (1, "ARP"), (1, "EtherType 0x0909"), (1, "OSPF")]);
    // A datagram of 65,536 octets or more has no length in IPv6 nor in UDP.
    let mut jumbogram = udp(true, 1, false, &query(1, Qtype::A));
    jumbogram[4..7].fill(0);
    jumbogram.splice(40..40, [17, 0, 0xc2, 4, 0, 1, 0, 8]);
    jumbogram[52..54].fill(0);
    let counts = read(capture(FORMS[0], 101, &[jumbogram])).1;
    assert_eq!((counts.other, &*counts.others[0].name), (1, "IPv6 jumbograms"));
    let counts = read(capture(FORMS[0], 189, &[arp])).1;
    assert_eq!(
        (counts.unknown_link, &*counts.others[0].name),
        (1, "frames of the link type 189 (USB_LINUX)")
    );
}

/// The first fragment of a reply is a message that is cut short, if the other fragments do not come.
#[test]
fn a_first_fragment_alone_is_a_cut_message() {
    let mut long = reply(query(1, Qtype::TXT), 0);
    long.resize(2_000, 0);
    let mut packet = udp(false, 1, true, &long);
    packet.truncate(20 + 1_480);
    packet[2..4].copy_from_slice(&1_500u16.to_be_bytes());
    packet[6] = 0x20;
    let (messages, counts, error) = read(capture(FORMS[0], 101, &[packet]));
    assert!(error.is_none());
    assert_eq!(
        (messages.len(), counts.fragments, counts.unfinished, counts.messages_cut),
        (1, 1, 1, 1)
    );
    assert_eq!((messages[0].bytes.len(), messages[0].at), (1_472, Nanos(START * 1_000_000_000)));
}

#[test]
fn snoop_is_read() {
    let asked = frame(1, false, &udp(false, 1, false, &query(1, Qtype::A)));
    let mut file = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec();
    let padding = asked.len().next_multiple_of(4) - asked.len();
    for number in 0..2u32 {
        let len = asked.len() as u32;
        for word in [len, len, 24 + len + padding as u32, 0, START as u32, number * 1_000] {
            file.extend(word.to_be_bytes());
        }
        file.extend(&asked);
        file.extend(vec![0; padding]);
    }
    let expected = read(capture(FORMS[0], 1, &[asked.clone(), asked])).0;
    assert_eq!(read(file.clone()).0, expected);
    let error = read(file[..file.len() - 5].to_vec()).2.expect("cut short");
    assert!(error.to_string().contains("in the middle of a packet"), "{error}");
    file[15] = 9;
    let bad =
        Capture::new(Box::new(std::io::Cursor::new(file)), "x".as_ref()).err().expect("refused");
    assert!(bad.to_string().contains("unknown data link type 9"), "{bad}");
}

#[test]
fn captures_that_overlap_are_merged_by_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, at: &[u32]| {
        let path = dir.path().join(name);
        std::fs::write(&path, queries(at)).expect("writes");
        path
    };
    let paths = [
        write("last", &[500, 501, 502]),
        write("even", &[0, 1, 2, 3]),
        write("odd", &[2, 3, 4, 5]),
    ];
    assert_eq!(merged(&paths), (vec![0, 1, 2, 2, 3, 3, 4, 5, 500, 501, 502], None));
    let many: Vec<_> = vec![paths[0].clone(); 65];
    let mut merged = Merge::open(&many).expect("captures");
    let error = merged.next_frame().expect_err("too many").to_string();
    assert!(error.contains("more than 64 captures overlap"), "{error}");
}

/// Returns a capture with a query in each of these milliseconds.
fn queries(at: &[u32]) -> Vec<u8> {
    let packets: Vec<_> = at.iter().map(|n| udp(false, 1, false, &query(*n, Qtype::A))).collect();
    let mut bytes = capture(FORMS[1], 101, &packets);
    let mut place = 24;
    for millisecond in at {
        bytes[place + 4..place + 8].copy_from_slice(&(millisecond * 1_000_000).to_le_bytes());
        place += 16 + u32::from_le_bytes([bytes[place + 8], bytes[place + 9], 0, 0]) as usize;
    }
    bytes
}

/// Reads captures to the end; returns the milliseconds of the packets, and the error.
fn merged(paths: &[PathBuf]) -> (Vec<u64>, Option<String>) {
    let mut merged = Merge::open(paths).expect("captures");
    let mut times = Vec::new();
    loop {
        match merged.next_frame() {
            Ok(Some(frame)) => times.push((frame.at.0 - START * 1_000_000_000) / 1_000_000),
            Ok(None) => return (times, None),
            Err(error) => return (times, Some(error.to_string())),
        }
    }
}

#[test]
fn a_capture_that_is_cut_short_does_not_end_the_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("writes");
        path
    };
    let cut = |bytes: Vec<u8>, octets: usize| bytes[..bytes.len() - octets].to_vec();
    let whole = write("whole", &queries(&[1, 4, 7, 900]));
    let late = write("late", &queries(&[800, 801]));
    let short = write("short", &cut(queries(&[2, 3, 5]), 9));
    let (times, error) = merged(&[whole.clone(), short.clone(), late.clone()]);
    assert_eq!(times, [1, 2, 3, 4, 7, 800, 801, 900]);
    let error = error.expect("an error at the end");
    assert!(
        error.contains("short: the capture is cut short")
            && error.contains("after 2 whole packets"),
        "{error}"
    );
    // One without a whole packet, and another.
    let empty = write("empty", &cut(queries(&[6]), 9));
    let (times, error) = merged(&[empty, short, whole, late]);
    assert_eq!(times, [1, 2, 3, 4, 7, 800, 801, 900]);
    let error = error.expect("both errors at the end");
    assert!(error.contains("empty: the capture is cut short") && error.contains("; "), "{error}");
    assert!(error.contains("short: the capture is cut short"), "{error}");
}

#[test]
fn pipes_are_opened_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let writers = [[1, 4, 900], [2, 3, 800]].map(|at| {
        let path = dir.path().join(format!("pipe-{}", at[0]));
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        let (to, bytes) = (path.clone(), queries(&at));
        (path, std::thread::spawn(move || std::fs::write(to, bytes)))
    });
    let paths: Vec<PathBuf> = writers.iter().map(|(path, _)| path.clone()).collect();
    let (times, error) = merged(&paths);
    assert_eq!((times, error), (vec![1, 2, 3, 4, 800, 900], None));
    for (_, writer) in writers {
        writer.join().expect("ends").expect("a reader that stays");
    }
}

proptest! {
    /// Any octets after the start of a snoop file are read to their end or refused.
    #[test]
    fn any_snoop_file_is_read_or_refused(bytes: Vec<u8>, lens in proptest::collection::vec(0u32..80, 3)) {
        let mut file = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec();
        file.extend(lens.iter().flat_map(|len| len.to_be_bytes()));
        file.extend(bytes);
        let (_, counts, error) = read(file);
        prop_assert!(counts.packets > 0 || error.is_some());
    }

    /// Octets of any link type, and octets in a place of an encapsulation, are read or counted, each frame once.
    #[test]
    fn any_frame_is_counted_once(
        link in prop_oneof![0u16..300, proptest::sample::select(vec![1, 9, 10, 100, 105, 107, 127, 192, 239, 258])],
        bytes: Vec<u8>,
        form in 0usize..37,
        at in 0usize..120,
    ) {
        let packet = udp(false, 1, false, &query(1, Qtype::A));
        let (_, known, mut frame) = forms(&packet).swap_remove(form);
        let at = at.min(frame.len());
        let end = (at + bytes.len()).min(frame.len());
        frame[at..end].copy_from_slice(&bytes[..end - at]);
        for (link, frame) in [(link, bytes), (known, frame)] {
            let (messages, counts, error) = read(capture(FORMS[0], link, &[frame]));
            prop_assert!(error.is_none());
            let all = counts.not_ip + counts.unknown_link + counts.malformed + counts.other + counts.fragments + counts.tcp;
            prop_assert!(messages.len() as u64 + all >= 1, "{:?}", counts);
            prop_assert!(messages.len() <= 1 || counts.tcp > 0);
        }
    }
}
