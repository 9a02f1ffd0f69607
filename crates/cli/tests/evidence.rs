//! Evidence belongs to the party it is held against: a socket's own drops, a process's own CPU, places for connections; and a server
//! on this host is none over a wire. The servers here are a few lines of this file, so that what they do is known.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::command;
use crate::kit::peer::{answer_stream, reply};

/// A load of one name.
fn load(target: &str, args: &str) -> Value {
    command::load(target, &format!("--name x.test --type A {args}"))
}

/// The warnings of a kind.
fn warnings<'a>(trial: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = trial["warnings"].as_array().expect("a list");
    all.iter().filter(|warning| warning["kind"] == kind).collect()
}

#[test]
fn drops_of_others_sockets_are_not_the_testers() {
    let bound = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (full, other, done) = (bound(), bound(), Arc::new(AtomicBool::new(false)));
    let (at, flag) = (full.local_addr().expect("bound"), done.clone());
    // Nobody reads: nearly every datagram is dropped.
    let flood = std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            let _ = other.send_to(&[0; 1_000], at);
        }
    });
    let auth = AuthDns::start(&["--delay", "20ms"]);
    let trial = load(auth.plain(), "--rate 200 --duration 500ms --timeout 5s");
    done.store(true, Ordering::Relaxed);
    flood.join().expect("no panic");
    assert_eq!(trial["drops"]["tester_receive"], 0, "{}", trial["drops"]);
    assert_ne!(trial["limiter"], "tester-drops");
    drop(full);
}

#[test]
fn a_server_on_this_host_that_drops_is_the_limit() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = server.local_addr().expect("bound").to_string();
    let (done, socket) = (Arc::new(AtomicBool::new(false)), server.try_clone().expect("a socket"));
    let flag = done.clone();
    // It answers some hundred a second: its queue is full at once.
    let slow = std::thread::spawn(move || {
        let (mut read, mut message) = (0, [0; 512]);
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a time");
        while !flag.load(Ordering::Relaxed) {
            let Ok((len, client)) = socket.recv_from(&mut message) else { continue };
            read += 1;
            message[2] |= 0x80;
            let _ = socket.send_to(&message[..len], client);
            std::thread::sleep(Duration::from_millis(2));
        }
        read
    });
    let trial = load(&target, "--rate 20k --duration 500ms --timeout 100ms --gso off");
    done.store(true, Ordering::Relaxed);
    let mut read: u64 = slow.join().expect("no panic");
    server.set_nonblocking(true).expect("a socket");
    read += std::iter::from_fn(|| server.recv(&mut [0; 512]).ok()).count() as u64;
    let drops = &trial["drops"];
    assert_eq!(drops["tester_receive"], 0, "{drops}");
    let sent = trial["sent"].as_u64().expect("a number");
    let dropped = drops["dut_receive"].as_u64().expect("a number");
    // It may have been asked before the trial.
    assert!((sent..sent + 10).contains(&(dropped + read)), "{dropped} and {read} of {sent}");
    // A busy machine may void it.
    let proof = &trial["limiter_proof"];
    let told = trial["limiter"] == "dut" && proof["side"] == "dut" && proof["datagrams"] == dropped;
    assert!(told || trial["void"] != false, "{} {proof}", trial["limiter"]);
    assert_eq!(trial["conditions"]["path"], "one-host");
}

#[test]
fn a_server_with_too_few_places_is_seen() {
    const PLACES: usize = 5;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let target = listener.local_addr().expect("bound").to_string();
    let taken = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        loop {
            // Others wait in the kernel, which has taken their connections.
            while taken.load(Ordering::SeqCst) == PLACES {
                std::thread::sleep(Duration::from_millis(1));
            }
            let Ok((connection, _)) = listener.accept() else { return };
            taken.fetch_add(1, Ordering::SeqCst);
            let taken = taken.clone();
            std::thread::spawn(move || {
                answer_stream(connection, |query| reply(query, query[3]));
                taken.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let how = "--rate 200 --duration 2s --timeout 500ms --expect answered";
    let trial = load(&target, &format!("--transport tcp --clients 20 {how}"));
    let told = &trial["connections"];
    let [warning] = warnings(&trial, "few-places")[..] else { panic!("{told}") };
    let at_once = warning["at_once"].as_u64().expect("a number");
    assert!((1..=PLACES as u64).contains(&at_once), "{warning}");
    assert!(warning["unanswered"].as_u64() >= Some(10), "{warning}");
    let proof = &trial["limiter_proof"];
    let by_places = trial["limiter"] == "dut" && proof["by"] == "places";
    assert!(by_places || trial["void"] != false, "{} {proof}", trial["limiter"]);
    // With enough places there is nothing to say.
    let trial = load(&target, "--transport tcp --clients 3 --rate 100 --duration 1s");
    assert!(warnings(&trial, "few-places").is_empty(), "{}", trial["connections"]);
}

#[test]
fn a_server_of_datagrams_that_ends_had_places_enough() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = server.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        for _ in 0..20 {
            let Ok((len, client)) = server.recv_from(&mut message) else { return };
            let _ = server.send_to(&reply(&message[..len], message[3]), client);
        }
    });
    let trial = load(&target, "--cookies --clients 2 --rate 100 --duration 1s --expect answered");
    let told = &trial["connections"];
    assert!(told["failed"]["refused"].as_u64() >= Some(2), "{told}");
    assert!(warnings(&trial, "few-places").is_empty(), "{told}");
}
