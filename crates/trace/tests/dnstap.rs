//! Streams of dnstap: whole, cut anywhere, of several servers, damaged.

use std::io::Cursor;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::Nanos;
use proptest::prelude::*;
use trace::{Capture, Frames, Merge, Messages};
use wire::Qtype;
use wire::dnstap::{Kind, Message, Protocol};
use wire::frame_stream::Control;

use crate::common;
use crate::common::{START, query, read, reply};

/// Returns the frame of a message, with its length.
fn frame(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0; 4];
    message.write(b"server", b"1", &mut octets);
    let len = (octets.len() - 4) as u32;
    octets[..4].copy_from_slice(&len.to_be_bytes());
    octets
}

/// Returns the frames of a query and of its response, a millisecond later, of the client with this number.
fn exchange(number: u32, protocol: Protocol) -> [Vec<u8>; 2] {
    let (asked, answered) = (query(number, Qtype::A), reply(query(number, Qtype::A), 3));
    let client = match number % 2 {
        0 => IpAddr::from([10, 0, 0, number as u8]),
        _ => "2001:db8::7".parse().expect("an address"),
    };
    let at = Duration::new(START, number * 1_000_000);
    let query = Message {
        kind: Kind::CLIENT_QUERY,
        protocol,
        client: Some(client),
        client_port: Some(4_000),
        server_port: (number > 0).then_some(5_353),
        query_time: Some(at),
        query: Some(&asked),
        ..Message::default()
    };
    let response = Message {
        kind: Kind::CLIENT_RESPONSE,
        query: None,
        response_time: Some(at + Duration::from_micros(500)),
        response: Some(&answered),
        ..query
    };
    [frame(&query), frame(&response)]
}

/// Returns a stream of these frames.
fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    [Control::Start.frame(), frames.concat(), Control::Stop.frame()].concat()
}

/// Returns the frames of `count` exchanges, over all protocols in turn.
fn exchanges(count: u32) -> Vec<Vec<u8>> {
    let protocols = [Protocol::UDP, Protocol::TCP, Protocol::DOT, Protocol::DOH, Protocol::DOQ];
    (0..count).flat_map(|n| exchange(n, protocols[n as usize % 5])).collect()
}

#[test]
fn messages_have_their_ends_times_and_transports() {
    let (messages, counts, error) = read(stream(&exchanges(10)));
    assert!(error.is_none(), "{error:?}");
    assert_eq!((messages.len(), counts.packets, counts.malformed), (20, 20, 0));
    let [first, second, third] = &messages[..3] else { panic!("three") };
    assert_eq!((&*first.from, &*first.to), ("10.0.0.0:4000", "0.0.0.0:53"));
    assert_eq!((&*second.from, &*second.to), ("0.0.0.0:53", "10.0.0.0:4000"));
    assert_eq!((&*third.from, &*third.to), ("[2001:db8::7]:4000", "[::]:5353"));
    assert_eq!(first.at, Nanos::from_secs(START));
    assert_eq!(second.at, Nanos::from_secs(START) + Nanos::from_micros(500));
    assert_eq!((&first.bytes, &second.bytes), (&query(0, Qtype::A), &reply(query(0, Qtype::A), 3)));
    let tcp: Vec<bool> = messages.iter().step_by(2).map(|message| message.tcp).collect();
    assert_eq!(tcp[..5], [false, true, true, true, false]);
}

/// Some servers add the query to its response (Knot DNS: `responses-with-queries`), and have a frame for it besides or not.
#[test]
fn a_response_may_have_its_query() {
    let (asked, answered) = (query(7, Qtype::A), reply(query(7, Qtype::A), 0));
    let at = Duration::from_secs(START);
    let both = Message {
        kind: Kind::CLIENT_RESPONSE,
        protocol: Protocol::UDP,
        client: Some(IpAddr::from([10, 0, 0, 1])),
        query_time: Some(at),
        query: Some(&asked),
        response_time: Some(at + Duration::from_millis(3)),
        response: Some(&answered),
        ..Message::default()
    };
    let own = Message { kind: Kind::CLIENT_QUERY, response: None, response_time: None, ..both };
    let expected =
        [(Nanos::from(at), &asked), (Nanos::from(at) + Nanos::from_millis(3), &answered)];
    for frames in [vec![frame(&both)], vec![frame(&own), frame(&both)]] {
        let (messages, _, error) = read(stream(&frames));
        let found: Vec<_> = messages.iter().map(|message| (message.at, &message.bytes)).collect();
        assert!(error.is_none() && found == expected, "{found:?}");
        assert_eq!(messages[0].from, messages[1].to);
    }
}

#[test]
fn a_stream_that_is_cut_keeps_what_was_read() {
    let whole = stream(&exchanges(3));
    let (all, ..) = read(whole.clone());
    let ends: Vec<usize> = exchanges(3)
        .iter()
        .scan(Control::Start.frame().len(), |at, frame| {
            *at += frame.len();
            Some(*at)
        })
        .collect();
    for len in 1..whole.len() {
        let source = trace::source::decompress(Cursor::new(whole[..len].to_vec())).expect("memory");
        let capture = Capture::new(source, Path::new("tap"));
        if len < Control::Start.frame().len() {
            let error = capture.err().expect("no header").to_string();
            assert!(error.contains("tap: "), "{len} {error}");
            continue;
        }
        let (messages, _, error) = read(whole[..len].to_vec());
        let read = ends.iter().filter(|end| **end <= len).count();
        assert_eq!(messages[..], all[..read], "{len}");
        let error = error.expect("it has no STOP");
        assert_eq!(error.is_partial(), read > 0);
        let what = if ends.contains(&len) || len == Control::Start.frame().len() {
            "a stream of frames, which has no STOP"
        } else {
            "a frame"
        };
        let text = error.to_string();
        assert!(text.contains(&format!("it ends in the middle of {what} at byte")), "{len} {text}");
    }
}

#[test]
fn streams_follow_each_other_and_merge_with_captures_by_time() {
    let frames = exchanges(6);
    let two = [stream(&frames[..4]), stream(&frames[4..])].concat();
    let (messages, _, error) = read(two);
    assert!(error.is_none() && messages.len() == 12, "{error:?}");
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let odd: Vec<_> = frames.chunks(2).skip(1).step_by(2).flatten().cloned().collect();
    let even: Vec<_> = frames.chunks(2).step_by(2).flatten().cloned().collect();
    let packets: Vec<_> =
        (0..6).map(|n| common::udp(false, n, false, &query(n.into(), Qtype::A))).collect();
    let pcap = common::capture(common::Form::Pcap(false, true), 101, &packets);
    let paths = [put("odd", &stream(&odd)), put("even", &stream(&even)), put("pcap", &pcap)];
    let mut merge = Merge::open(&paths).expect("captures");
    let mut times = Vec::new();
    Messages::new(vec![53]).read(&mut merge, |message| times.push(message.at)).expect("whole");
    assert_eq!(times.len(), 18);
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn what_is_no_dnstap_is_told() {
    let table: [(Vec<u8>, &str); 6] = [
        (vec![0; 20], "a control frame other than"),
        (Control::Ready.frame(), "a control frame of a connection in a file"),
        (Control::Stop.frame(), "a STOP frame without START"),
        ([Control::Start.frame(), Control::Start.frame()].concat(), "a second START frame"),
        ([Control::Start.frame(), vec![1; 8]].concat(), "a frame of 16843009 octets"),
        (
            String::from_utf8(Control::Start.frame())
                .expect("ASCII")
                .replace("Dnstap", "Others")
                .into_bytes(),
            "another content type than protobuf:dnstap.Dnstap",
        ),
    ];
    for (bytes, what) in table {
        let capture = Capture::new(Box::new(Cursor::new(bytes)), Path::new("tap"));
        let error = capture.and_then(|mut capture| Frames::next_frame(&mut capture).map(drop));
        let error = error.expect_err(what).to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    // A frame that is damaged, and one without a message, do not end the reading.
    let frames = [vec![0, 0, 0, 2, 0xff, 0xff], vec![0, 0, 0, 2, 0x78, 2], exchanges(1)[0].clone()];
    let (messages, counts, error) = read(stream(&frames));
    assert!(error.is_none(), "{error:?}");
    assert_eq!((messages.len(), counts.malformed, counts.other), (1, 1, 1));
    assert_eq!(counts.others[0].name, "dnstap without a message");
}

proptest! {
    #[test]
    fn changed_streams_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut: prop::sample::Index
    ) {
        let mut bytes = stream(&exchanges(4));
        for (place, value) in changes {
            let len = bytes.len();
            bytes[place.index(len)] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let Ok(mut capture) = Capture::new(Box::new(Cursor::new(bytes)), Path::new("tap")) else {
            return Ok(());
        };
        let mut messages = Messages::new(vec![53]);
        let mut seen = 0;
        let _ = messages.read(&mut capture, |message| {
            assert!(message.bytes.len() <= message.len);
            seen += 1;
        });
        prop_assert!(seen <= messages.counts().packets);
    }
}
