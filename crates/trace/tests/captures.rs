//! Captures in all forms give the same messages, and errors name the place.

use std::io::Write;

use measure::Nanos;
use pcap_parser::traits::PcapNGPacketBlock;
use proptest::prelude::*;
use trace::{Capture, Stats, Writer};
use wire::Qtype;

use crate::common::{FORMS, Form, START, capture, frame, framed, query, read, reply, tcp, udp};

/// Link types, each with or without a VLAN tag.
const LINKS: [(u16, bool); 6] =
    [(1, false), (1, true), (101, false), (113, false), (276, false), (0, false)];

/// Returns a query and its reply, over IPv4 and IPv6.
fn packets() -> Vec<Vec<u8>> {
    let (a, aaaa) = (query(1, Qtype::A), query(2, Qtype::AAAA));
    vec![
        udp(false, 1, false, &a),
        udp(false, 1, true, &reply(a, 3)),
        udp(true, 2, false, &aaaa),
        udp(true, 2, true, &reply(aaaa, 0)),
    ]
}

#[test]
fn all_forms_give_the_same_messages() {
    let expected = read(capture(FORMS[0], 101, &packets())).0;
    assert_eq!(expected.len(), 4);
    assert_eq!(expected[1].at, Nanos(START * 1_000_000_000 + 1_000_000));
    assert_eq!(
        (&*expected[3].from, &*expected[3].to),
        ("[2001:db8::c000:235]:53", "[2001:db8::a00:2]:4000")
    );
    for form in FORMS {
        for (link, vlan) in LINKS {
            let frames: Vec<_> = packets().iter().map(|ip| frame(link, vlan, ip)).collect();
            let (messages, counts, error) = read(capture(form, link, &frames));
            assert!(error.is_none() && counts.packets == 4, "{form:?} {link}");
            assert_eq!(messages, expected, "{form:?} {link} {vlan}");
        }
    }
}

#[test]
fn compressed_captures_give_the_same_messages() {
    let plain = capture(FORMS[0], 101, &packets());
    let expected = read(plain.clone()).0;
    let (half, rest) = plain.split_at(plain.len() / 2);
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).and_then(|()| out.finish()).expect("in memory")
    };
    let zstd = |bytes: &[u8]| {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let xz = |bytes: &[u8]| {
        let mut out = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1))
            .expect("options");
        out.write_all(bytes).expect("in memory");
        out.finish().expect("in memory")
    };
    let lz4 = |bytes: &[u8]| {
        let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
        out.write_all(bytes).expect("in memory");
        out.finish().expect("in memory")
    };
    // Compressed as a whole, and as two concatenated halves.
    for (name, whole, halves) in [
        ("gzip", gzip(&plain), [gzip(half), gzip(rest)].concat()),
        ("zstd", zstd(&plain), [zstd(half), zstd(rest)].concat()),
        ("xz", xz(&plain), [xz(half), xz(rest)].concat()),
        ("lz4", lz4(&plain), [lz4(half), lz4(rest)].concat()),
    ] {
        let cut = read(whole[..whole.len() - 9].to_vec());
        assert!(cut.2.is_some(), "{name}");
        for bytes in [whole, halves] {
            let (messages, _, error) = read(bytes);
            assert!(error.is_none(), "{name}: {error:?}");
            assert_eq!(messages, expected, "{name}");
        }
    }
}

/// `cat` and `zcat` of several files, of any byte orders, clocks and links.
#[test]
fn captures_that_follow_each_other_are_read_as_one() {
    let part = |form: usize, link| {
        let frames: Vec<_> = packets().iter().map(|ip| frame(link, false, ip)).collect();
        capture(FORMS[form], link, &frames)
    };
    let empty = || capture(FORMS[2], 101, &[]);
    let one = read(part(0, 101)).0;
    let pcap = [part(0, 101), empty(), empty(), part(3, 1), part(1, 113)].concat();
    for bytes in [pcap, [part(4, 101), part(5, 1), part(4, 276)].concat()] {
        let (messages, counts, error) = read(bytes);
        assert!(error.is_none() && counts.packets == 12, "{error:?} {counts:?}");
        assert!(messages.chunks(4).all(|part| part == one), "{messages:?}");
    }
}

#[test]
fn a_capture_cut_short_gives_the_messages_before() {
    for form in [Form::Pcap(false, false), Form::Pcapng(true)] {
        let whole = capture(form, 101, &packets());
        let all = read(whole.clone()).0;
        let mut before = 0;
        for len in 0..whole.len() {
            let (messages, counts, error) = read(whole[..len].to_vec());
            assert!(messages.len() >= before && messages[..] == all[..messages.len()]);
            before = messages.len();
            match error {
                None if before == 0 => assert_eq!(counts.packets, 0),
                None => assert_eq!(capture(form, 101, &packets()[..before]).len(), len),
                Some(error) if len < 4 => {
                    assert!(!error.is_partial() && error.to_string().contains("not a capture"))
                }
                Some(error) => {
                    let text = error.to_string();
                    assert!(
                        text.starts_with(
                            "test.pcap: the capture is cut short: it ends in the middle of "
                        ),
                        "{text}"
                    );
                    assert!(
                        text.ends_with(&match counts.packets {
                            1 => "after 1 whole packet".to_owned(),
                            many => format!("after {many} whole packets"),
                        }),
                        "{text}"
                    );
                    assert_eq!(error.is_partial(), counts.packets > 0);
                }
            }
        }
        assert_eq!(before, 3);
    }
}

#[test]
fn errors_in_damaged_captures_name_the_place() {
    let pcap = capture(Form::Pcap(false, false), 101, &packets());
    let pcapng = capture(Form::Pcapng(false), 101, &packets());
    let with = |bytes: &[u8], at: usize, new: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    for (bytes, message) in [
        (
            b"#!/bin/sh\n".to_vec(),
            "test.pcap: not a capture: it starts with the bytes [23, 21, 2f, 62]; use pcap, pcapng, snoop or dnstap, plain",
        ),
        (Vec::new(), "test.pcap: not a capture: it starts with no bytes"),
        (
            b"\x83\x65C-DNS\xa4\x00\x01".to_vec(),
            "not a capture: it starts with C-DNS (RFC 8618), which the `inspector` of DNS-STATS turns into pcap; use pcap",
        ),
        (
            with(&pcap, 34, &[0xff]),
            "damaged at byte 24, after 0 whole packets: a packet of 16711747 bytes; the largest has 262144",
        ),
        (
            with(&pcapng, 12 - 4, &[0]),
            "damaged at byte 0, after 0 whole packets: a section with the byte-order magic [00, 3c, 2b, 1a]",
        ),
        (
            with(&pcapng, 68, &[31]),
            "damaged at byte 64, after 0 whole packets: a block of 31 bytes",
        ),
        (
            with(&pcapng, 72, &[7]),
            "damaged at byte 64, after 0 whole packets: a packet of interface 7, but the section describes 1",
        ),
    ] {
        let error = read(bytes).2.expect("an error").to_string();
        assert!(error.contains(message), "{error}\n{message}");
    }
}

#[test]
fn before_version_2_4_the_lengths_of_a_packet_may_be_swapped() {
    for big in [false, true] {
        let new = capture(Form::Pcap(big, false), 101, &packets()[..1]);
        let mut old = new.clone();
        old[if big { 7 } else { 6 }] = 2;
        let long = 1_000_u32;
        old[32..36].copy_from_slice(&if big { long.to_be_bytes() } else { long.to_le_bytes() });
        assert_eq!(read(old).0, read(new).0);
    }
}

#[test]
fn captures_of_kuznetzov_have_more_about_each_packet() {
    for big in [false, true] {
        let usual = capture(Form::Pcap(big, false), 101, &packets());
        let mut other = usual[..24].to_vec();
        other[..4].copy_from_slice(&if big {
            [0xa1, 0xb2, 0xcd, 0x34]
        } else {
            [0x34, 0xcd, 0xb2, 0xa1]
        });
        let mut rest = &usual[24..];
        while let Some((header, packet)) = rest.split_first_chunk::<16>() {
            let octets = *header[8..].first_chunk().expect("16 octets");
            let octets = if big { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) };
            let (packet, next) = packet.split_at(octets as usize);
            // Interface, protocol, kind, and one octet to fill.
            other.extend([&header[..], &[0, 0, 0, 1, 8, 0, 0, 0], packet].concat());
            rest = next;
        }
        assert_eq!(read(other).0, read(usual).0);
    }
}

#[test]
fn statistics_match_the_messages_sent() {
    let mut frames = packets();
    frames.push(tcp(9, false, 99, "S", &[]));
    frames.push(tcp(9, false, 100, "", &framed(&query(3, Qtype::MX))));
    frames.push(tcp(9, true, 500, "F", &framed(&reply(query(3, Qtype::MX), 0))));
    // A message shorter than a header, and one with fewer records than its header announces.
    frames.push(udp(false, 3, false, b"short"));
    frames.push(udp(false, 3, false, &query(4, Qtype::A)[..20]));
    let mut stats = Stats::new(Nanos::from_secs(1));
    let mut messages = trace::Messages::new(vec![53]);
    let bytes = capture(FORMS[0], 101, &frames);
    let mut capture =
        Capture::new(Box::new(std::io::Cursor::new(bytes)), "x".as_ref()).expect("a capture");
    messages.read(&mut capture, |message| stats.add(message)).expect("whole");
    assert_eq!((stats.queries.counts.messages, stats.replies.counts.messages), (4, 3));
    let unread = &stats.counts.packets;
    assert_eq!((unread.messages_headless, unread.messages_malformed), (1, 1));
    assert_eq!(
        (stats.queries.counts.tcp, stats.queries.counts.ipv6, stats.counts.failed),
        (1, 1, 1)
    );
    assert_eq!(stats.rcodes[..4], [2, 0, 0, 1]);
    let types: Vec<_> =
        stats.types().iter().map(|(t, c)| (t.expect("known").1, c.queries, c.failed)).collect();
    assert_eq!(types, [(Qtype::A, 1, 1), (Qtype::MX, 1, 0), (Qtype::AAAA, 1, 0)]);
    assert_eq!(stats.no_question.queries, 1);
    let tcp = messages.counts();
    assert_eq!((tcp.tcp, tcp.tcp_sessions, tcp.tcp_never_closed, tcp.tcp_gaps), (3, 1, 0, 0));
    assert_eq!(stats.clients.spread(1).distinct, 4);
    // Queries and replies are a frame, a millisecond, apart.
    assert_eq!((stats.latency.count(), stats.unanswered()), (3, 1));
    assert_eq!(stats.latency.max().0 / 1_000_000, 1);
}

/// Returns the statistics of a capture in microseconds since 1970; a frame is cut after `snap` octets.
fn stats_of(frames: &[(u64, Vec<u8>)], snap: usize) -> record::TraceStats {
    let words =
        |words: &[u64]| words.iter().flat_map(|w| (*w as u32).to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101]);
    for (at, frame) in frames {
        let (len, caught) = (frame.len() as u64, frame.len().min(snap));
        bytes.extend(words(&[at / 1_000_000, at % 1_000_000, caught as u64, len]));
        bytes.extend(&frame[..caught]);
    }
    let mut capture =
        Capture::new(Box::new(std::io::Cursor::new(bytes)), "x".as_ref()).expect("a capture");
    let mut stats = Stats::new(Nanos::from_secs(1));
    let mut messages = trace::Messages::new(vec![53]);
    messages.read(&mut capture, |message| stats.add(message)).expect("whole");
    stats.summary(&messages.counts(), Nanos::from_secs(1))
}

#[test]
fn packets_of_other_years_are_named_and_not_in_rates() {
    let start = START * 1_000_000;
    let packet = |number, back| {
        let query = query(number, Qtype::A);
        udp(false, 1, back, &if back { reply(query, 0) } else { query })
    };
    for (wrong, named) in [(2_147_483_000, "2038-01-19T03:03:20"), (0, "1970-01-01T00:00:00")] {
        let wrong = wrong * 1_000_000;
        // 20 queries in 2 s, each with its reply 4 ms later; those of the 5th have a wrong time.
        let mut frames: Vec<_> = (0..20)
            .flat_map(|n: u32| {
                let at =
                    |after| if n == 5 { wrong } else { start + u64::from(n) * 100_000 + after };
                [(at(0), packet(n, false)), (at(4_000), packet(n, true))]
            })
            .collect();
        let stats = stats_of(&frames, usize::MAX);
        assert_eq!((stats.requests, stats.unanswered), (20, 0));
        assert!((stats.duration_s - 1.904).abs() < 1e-9, "{}", stats.duration_s);
        assert!((stats.rates.average - 19.0 / 1.904).abs() < 1e-9, "{}", stats.rates.average);
        assert_eq!(stats.series.queries.iter().sum::<u64>(), 19);
        assert_eq!(stats.other_times.len(), 1);
        assert!(stats.other_times[0].0.starts_with(named) && stats.other_times[0].1 == 2);
        // Where half are of either time, the later is taken.
        frames.retain(|(at, _)| *at == wrong || *at < start + 50_000);
        assert_eq!(stats_of(&frames, usize::MAX).other_times.len(), 1);
    }
}

/// Returns the statistics of 300 queries of a connection, 10 ms apart, each with its reply 1 ms
/// later; the capture lacks the query, or the reply, of number 100. Segments acknowledge what came
/// before, or nothing.
fn stats_with_a_lost_segment(of_reply: bool, acknowledge: bool) -> record::TraceStats {
    let (mut next, mut frames) = ([1_000u32, 5_000], Vec::new());
    for number in 0..300u32 {
        let query = query(number, Qtype::A);
        for (side, message) in [query.clone(), reply(query, 0)].iter().enumerate() {
            let (is_reply, payload) = (side == 1, framed(message));
            let mut segment = tcp(1, is_reply, next[side], "", &payload);
            if acknowledge {
                segment[28..32].copy_from_slice(&next[1 - side].to_be_bytes());
            }
            next[side] += payload.len() as u32;
            if (number, is_reply) != (100, of_reply) {
                let at = START * 1_000_000 + u64::from(number) * 10_000 + 1_000 * side as u64;
                frames.push((at, segment));
            }
        }
    }
    stats_of(&frames, usize::MAX)
}

#[test]
fn a_lost_segment_changes_no_times_of_other_messages() {
    for (of_reply, acknowledge) in [(false, true), (true, true), (false, false), (true, false)] {
        let stats = stats_with_a_lost_segment(of_reply, acknowledge);
        let found = (stats.requests, stats.replies.messages, stats.packets.tcp_gaps);
        assert_eq!(found, (299 + u64::from(of_reply), 300 - u64::from(of_reply), 1));
        assert_eq!((stats.unanswered, stats.latency_s.count), (u64::from(of_reply), 299));
        let latency = stats.latency_s;
        assert!((latency.p50 - 0.001).abs() < 1e-4, "{of_reply} {acknowledge} {latency:?}");
        assert!((latency.max - 0.001).abs() < 1e-4, "{of_reply} {acknowledge} {latency:?}");
        assert!(!acknowledge || stats.rates.max_burst <= 101.0, "{:?}", stats.rates);
    }
}

#[test]
fn length_fields_in_segments_of_their_own_are_found_in_open_connections() {
    let mut next = 1_000;
    let mut frames = Vec::new();
    for number in 0..3 {
        let framed = framed(&query(number, Qtype::A));
        for part in [&framed[..2], &framed[2..]] {
            frames.push((frames.len() as u64, tcp(1, false, next, "", part)));
            next += part.len() as u32;
        }
    }
    // The capture begins before a length field, and between it and its message.
    assert_eq!(stats_of(&frames, usize::MAX).requests, 3);
    assert_eq!(stats_of(&frames[1..], usize::MAX).requests, 2);
}

#[test]
fn receivers_of_replies_are_clients() {
    let replied = |client| udp(false, client, true, &reply(query(7, Qtype::A), 0));
    let frames = [(0, udp(false, 1, false, &query(1, Qtype::A))), (1, replied(2)), (2, replied(3))];
    let stats = stats_of(&frames, usize::MAX);
    assert_eq!((stats.requests, stats.clients.distinct), (1, 3));
    assert_eq!(stats_of(&frames[1..], usize::MAX).clients.distinct, 2);
}

#[test]
fn cut_headers_and_short_datagrams_have_names() {
    let query = udp(false, 1, false, &query(1, Qtype::A));
    for snap in 28..40 {
        let packets = stats_of(&[(0, query.clone())], snap).packets;
        assert_eq!((packets.messages_cut_headers, packets.messages_headless), (1, 0), "{snap}");
        assert_eq!(packets.messages_cut, 1);
    }
    // A datagram has eight octets of its own.
    for len in 0..8 {
        let mut short = query.clone();
        short[25] = len;
        let stats = stats_of(&[(0, short)], usize::MAX);
        assert_eq!((stats.requests, stats.packets.malformed), (0, 1), "{len}");
    }
}

#[test]
fn contradicting_fragments_leave_the_beginning_of_a_message() {
    let mut message = reply(query(1, Qtype::A), 0);
    message.resize(64, 0);
    let whole = udp(false, 1, true, &message);
    // Offsets in units of eight octets of the payload of IP; whether more follow.
    let part = |from: usize, to: usize, more: bool, at: usize| {
        let mut part = [&whole[..20], &whole[20 + from..20 + to]].concat();
        part[2..4].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        part[6..8].copy_from_slice(&((at / 8) as u16 | u16::from(more) << 13).to_be_bytes());
        part
    };
    let parts = [part(0, 40, true, 0), part(56, 72, false, 56), part(56, 72, false, 80)];
    let frames: Vec<_> = (0..).zip(parts).collect();
    let stats = stats_of(&frames, usize::MAX);
    let found = (stats.replies.messages, stats.packets.messages_cut, stats.packets.fragments);
    assert_eq!(found, (1, 1, 3));
}

#[test]
fn a_written_capture_reads_back() {
    let mut frames = packets();
    let long = vec![0; 65_535];
    for (number, part) in framed(&long).chunks(1_000).enumerate() {
        frames.push(tcp(9, true, 1 + 1_000 * number as u32, "", part));
    }
    frames.push(tcp(9, false, 100, "", &framed(&query(3, Qtype::MX))));
    let (bytes, mut writer) =
        (capture(FORMS[1], 101, &frames), Writer::new(Vec::new()).expect("memory"));
    let mut source = Capture::new(Box::new(std::io::Cursor::new(bytes.clone())), "x".as_ref())
        .expect("a capture");
    let mut messages = trace::Messages::new(vec![53]);
    messages.read(&mut source, |message| writer.write(message)).expect("whole");
    let (before, after) = (read(bytes), read(writer.finish().expect("in memory")));
    assert_eq!((before.0.len(), after.1.packets), (6, 7));
    assert!(after.2.is_none() && before.0 == after.0);
}

proptest! {
    /// A stream gives its messages for any segments, in any order, and with repetitions.
    #[test]
    fn streams_are_reassembled(
        cuts in prop::collection::vec(1usize..60, 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        first: u32,
    ) {
        let sent: Vec<_> = (0..6).map(|number| query(number, Qtype::A)).collect();
        let stream: Vec<u8> = sent.iter().flat_map(|message| framed(message)).collect();
        let (mut segments, mut at) = (Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            let end = (at + cut).min(stream.len());
            segments.push(tcp(1, false, first.wrapping_add(1 + at as u32), "", &stream[at..end]));
            at = end;
            if at == stream.len() {
                break;
            }
        }
        for (number, with) in order.iter().enumerate() {
            let with = with.index(segments.len());
            segments.swap(number % with.max(1), with);
        }
        for number in again {
            segments.push(segments[number.index(segments.len())].clone());
        }
        segments.insert(0, tcp(1, false, first, "S", &[]));
        let (messages, counts, _) = read(capture(FORMS[0], 101, &segments));
        prop_assert_eq!(counts.tcp_gaps, 0);
        let received: Vec<_> = messages.into_iter().map(|message| message.bytes).collect();
        prop_assert_eq!(received, sent);
    }

    /// The reader finds the same frames as another reader.
    #[test]
    fn frames_match_those_of_another_reader(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        form in 0..FORMS.len(),
    ) {
        let bytes = capture(FORMS[form], 101, &frames);
        let mut other = Vec::new();
        let mut reader = pcap_parser::create_reader(65_536, std::io::Cursor::new(bytes.clone())).expect("a capture");
        while let Ok((len, block)) = reader.next() {
            match block {
                pcap_parser::PcapBlockOwned::Legacy(packet) => other.push(packet.data.to_vec()),
                pcap_parser::PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(packet)) => {
                    other.push(packet.packet_data().to_vec());
                }
                _ => {}
            }
            reader.consume(len);
        }
        let mut capture = Capture::new(Box::new(std::io::Cursor::new(bytes)), "x".as_ref()).expect("a capture");
        let mut found = Vec::new();
        while let Some(frame) = capture.next_frame().expect("whole") {
            found.push(frame.bytes.to_vec());
        }
        prop_assert_eq!(&found, &frames);
        prop_assert_eq!(found, other);
    }
}
