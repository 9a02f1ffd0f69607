//! Frames of any kind: none is answered that is not a whole query to the server, and none wrongly.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use auth::{Auth, AuthConfig, MAX_REPLY};
use engine::clock::monotonic;
use kernel::{KernelAuth, Listen};

use crate::auth::{configs, server, zones};
use crate::cache::{Model, set_client};
use crate::frames::{Datagram, change, read};
use crate::kit::{Random, loaded, message};
use crate::resolver;

/// Environment variable with the number of seconds for each program, which then has other frames in each run; and that
/// number without it.
const SECONDS_VARIABLE: &str = "DNSDYNO_FUZZ_SECONDS";
const SECONDS: u64 = 2;
/// Number of frames between two looks at the clock.
const ROUND: usize = 1_000;

/// Returns for how long frames are tried, and what draws them.
fn begin() -> (Duration, Random) {
    let seconds = std::env::var(SECONDS_VARIABLE).ok();
    let seed = if seconds.is_some() { monotonic().0 } else { 1 };
    println!("frames of the seed {seed}");
    let seconds = seconds.map(|seconds| seconds.parse().expect(SECONDS_VARIABLE));
    (Duration::from_secs(seconds.unwrap_or(SECONDS)), Random::new(seed))
}

/// The sender of a frame, and its message; only if it is a whole query to the server.
fn query_in(frame: &[u8]) -> Option<(IpAddr, Vec<u8>)> {
    let Datagram { from, to, message } = read(frame)?;
    server().contains(&to).then(|| (from.ip(), message))
}

#[test]
fn the_auth_dns_answers_no_frame_wrongly() {
    let config: AuthConfig = configs().swap_remove(1);
    let listen = Listen::new(&server()).expect("one address of each family");
    let Some(mut kernel) = loaded(KernelAuth::load(&config, &listen)) else { return };
    let (mut sockets, zones) = (Auth::new(config.clone()), zones(&config));
    let (time, mut random) = begin();
    let (until, mut answered) = (Instant::now() + time, 0u64);
    while Instant::now() < until {
        for _ in 0..ROUND {
            let query = random.query(&config, &zones).message;
            let mut frame = random.frame(&query);
            change(&mut random, &mut frame);
            let (mut out, mut expected) = ([0; 2_048], [0; MAX_REPLY]);
            let Some(len) = kernel.run(&frame, &mut out).expect("runs") else { continue };
            answered += 1;
            let (_, query) = query_in(&frame).unwrap_or_else(|| panic!("answered {frame:02x?}"));
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
    let (time, mut random) = begin();
    let (until, mut answered) = (Instant::now() + time, 0u64);
    while Instant::now() < until {
        for _ in 0..ROUND {
            let query = model.query(&mut random);
            let mut frame = random.frame(&query);
            set_client(&mut random, &mut frame);
            change(&mut random, &mut frame);
            let (mut out, before) = ([0; 2_048], monotonic());
            let Some(len) = model.kernel.run(&frame, &mut out).expect("runs") else { continue };
            answered += 1;
            let (client, query) =
                query_in(&frame).unwrap_or_else(|| panic!("answered {frame:02x?}"));
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
        let (time, mut random) = begin();
        let until = Instant::now() + time / 2;
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
