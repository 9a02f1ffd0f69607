//! Frames of any kind: none is answered that is not a whole query to the server, and none wrongly.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use auth::{Auth, AuthConfig, MAX_REPLY};
use engine::clock::monotonic;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use kernel::{KernelAuth, Listen};

use crate::auth::{configs, server, zones};
use crate::cache::{Model, set_client};
use crate::kit::{Random, is_of_host, loaded, message, seal};
use crate::resolver;

/// Environment variable with the number of seconds for each program, and that number without it.
const SECONDS_VARIABLE: &str = "DNSDYNO_FUZZ_SECONDS";
const SECONDS: u64 = 2;
/// Number of frames between two looks at the clock.
const ROUND: usize = 1_000;
/// Shortest and longest frame that the kernel runs a program on.
const LENGTHS: std::ops::Range<u64> = 14..1_600;

/// Returns for how long frames are tried.
fn time() -> Duration {
    let seconds = std::env::var(SECONDS_VARIABLE).ok();
    let seconds = seconds.map(|seconds| seconds.parse().expect(SECONDS_VARIABLE));
    Duration::from_secs(seconds.unwrap_or(SECONDS))
}

/// Changes a frame: any octets, its length, bits of its headers, mostly with the right checksum of IPv4; or makes a random one.
pub(crate) fn change(random: &mut Random, frame: &mut Vec<u8>) {
    if random.one_in(20) {
        let len = LENGTHS.start + random.below(LENGTHS.end - LENGTHS.start);
        *frame = (0..len).map(|_| random.next() as u8).collect();
        if random.one_in(2) {
            frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        }
    }
    for _ in 0..random.below(4) {
        let len = frame.len() as u64;
        match random.below(8) {
            0 => frame.truncate(random.below(len + 1) as usize),
            1 => {
                let more = random.below(100);
                frame.extend((0..more).map(|octet| octet as u8));
            }
            2..=3 => frame[random.below(len) as usize] = random.next() as u8,
            // The headers of Ethernet, IP and UDP.
            _ => frame[random.below(len.min(62)) as usize] ^= 1 << random.below(8),
        }
        frame.resize(frame.len().max(LENGTHS.start as usize), 0);
    }
    // With a wrong checksum a changed header gets no further.
    if !random.one_in(4) {
        seal(frame);
    }
}

/// The sender of a frame, and its message, as another parser reads them; only if it is a whole query to the server.
fn read(frame: &[u8]) -> Option<(IpAddr, Vec<u8>)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (from, to): (IpAddr, IpAddr) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let whole = !header.more_fragments() && header.fragments_offset().value() == 0;
            (whole && header.options().is_empty())
                .then(|| (header.source_addr().into(), header.destination_addr().into()))?
        }
        NetSlice::Ipv6(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        _ => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else { return None };
    let is_server =
        server().iter().any(|own| own.ip() == to && own.port() == udp.destination_port());
    let is_taken = is_server && is_of_host(frame, from) && udp.source_port() != 0;
    is_taken.then(|| (from, udp.payload().to_vec()))
}

#[test]
fn the_auth_dns_answers_no_frame_wrongly() {
    let config: AuthConfig = configs().swap_remove(1);
    let listen = Listen::new(&server()).expect("one address of each family");
    let Some(mut kernel) = loaded(KernelAuth::load(&config, &listen)) else { return };
    let (mut sockets, zones) = (Auth::new(config.clone()), zones(&config));
    let mut random = Random::new(monotonic().0);
    let (until, mut answered) = (Instant::now() + time(), 0u64);
    while Instant::now() < until {
        for _ in 0..ROUND {
            let query = random.query(&config, &zones).message;
            let mut frame = random.frame(&query);
            change(&mut random, &mut frame);
            let (mut out, mut expected) = ([0; 2_048], [0; MAX_REPLY]);
            let Some(len) = kernel.run(&frame, &mut out).expect("runs") else { continue };
            answered += 1;
            let (_, query) = read(&frame).unwrap_or_else(|| panic!("answered {frame:02x?}"));
            let len_of_sockets = sockets.answer(&query, &mut expected);
            let reply = message(&frame, &out[..len]);
            assert_eq!(Some(reply), len_of_sockets.map(|len| &expected[..len]), "to {frame:02x?}");
        }
    }
    assert!(answered > 0);
}

#[test]
fn the_cache_answers_no_frame_wrongly() {
    let Some(mut model) = Model::new(5) else { return };
    let mut random = Random::new(monotonic().0);
    let (until, mut answered) = (Instant::now() + time(), 0u64);
    while Instant::now() < until {
        for _ in 0..ROUND {
            let query = model.query(&mut random);
            let mut frame = random.frame(&query);
            set_client(&mut random, &mut frame);
            change(&mut random, &mut frame);
            let (mut out, before) = ([0; 2_048], monotonic());
            let Some(len) = model.kernel.run(&frame, &mut out).expect("runs") else { continue };
            answered += 1;
            let (client, query) = read(&frame).unwrap_or_else(|| panic!("answered {frame:02x?}"));
            let expected = model.replies(client, &query, [before, monotonic()]);
            let expected = expected.unwrap_or_else(|| panic!("answered {frame:02x?}"));
            let reply = message(&frame, &out[..len]);
            assert!(expected.iter().any(|expected| expected == reply), "to {frame:02x?}");
        }
    }
    assert!(answered > 0);
}

#[test]
fn the_resolver_takes_and_answers_no_frame_wrongly() {
    for upstream in 0..2 {
        let Some(mut model) = resolver::Model::for_many(upstream) else { return };
        let mut random = Random::new(monotonic().0);
        let until = Instant::now() + time() / 2;
        while Instant::now() < until {
            let before = (model.answered, model.handed);
            model.serve(&mut random);
            for _ in 0..ROUND {
                model.transaction(&mut random, true);
            }
            model.serve(&mut random);
            // Until the end, however many had no reply.
            assert!(model.answered > before.0 && model.handed > before.1, "{before:?}");
        }
    }
}
