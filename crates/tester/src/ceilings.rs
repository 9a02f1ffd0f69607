//! Packet ceilings of this host by engine, in round trips per second: a client and an echo exchange datagrams over
//! loopback. No DNS server on this host can exceed them through the same kernel.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Destination, Echo, Engine, Next, Role, RxBatch, SocketId, TxBatch, WaitMode, drive};
use measure::Nanos;
use record::host::PacketCeiling;
use udp::{UdpEngine, UdpOptions, sources, sys};

/// Length of a datagram, in bytes, as of a usual query.
const DATAGRAM_LEN: usize = 76;
/// Number of datagrams outstanding at a time.
const WINDOW: u64 = 1_024;
/// Number of consecutive datagrams of one socket, which an engine may send as one message.
const SOCKET_RUN: u64 = 32;
/// Number of sockets of the client: the kernel spreads receive queues by their ports.
const SOCKETS: u64 = 8;
/// A datagram that is not back after this time is counted as lost.
const REPLY_WAIT: Nanos = Nanos::from_millis(100);
/// Longest wait of the client for the first datagram: other work may delay the echo on its core.
const MAX_FIRST_WAIT: Nanos = Nanos::from_secs(30);

/// Keeps datagrams outstanding until its time is over and at least one has returned.
struct Window {
    until: Nanos,
    last: Nanos,
    sent: u64,
    back: u64,
    outstanding: u64,
}

impl Role for Window {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let back = rx.iter().count() as u64;
        self.back += back;
        if now >= self.until && (self.back > 0 || now >= self.until + MAX_FIRST_WAIT) {
            return Next::Done;
        }
        self.outstanding = self.outstanding.saturating_sub(back);
        if back > 0 {
            self.last = now;
        } else if now > self.last + REPLY_WAIT {
            // The outstanding datagrams are lost: the window is filled again.
            (self.outstanding, self.last) = (0, now);
        }
        while self.outstanding < WINDOW {
            let socket = SocketId((self.sent / SOCKET_RUN % SOCKETS) as u16);
            if !tx.push(Destination::Connected(socket), DATAGRAM_LEN, |_| DATAGRAM_LEN) {
                return Next::Now;
            }
            self.sent += 1;
            self.outstanding += 1;
        }
        let lost = self.last + REPLY_WAIT;
        Next::At(if now < self.until { lost.min(self.until) } else { lost })
    }
}

/// Measures each ceiling for `time`, on the first and the last of `cpus`.
pub fn measure(cpus: &[usize], time: Nanos) -> Vec<PacketCeiling> {
    let on = UdpOptions::default();
    let plain = UdpOptions { gso: false, gro: false, ..on };
    let engines = [("udp, one message per datagram", plain), ("udp, segmentation offload", on)];
    let ceiling = |(engine, options): (&str, UdpOptions)| {
        let found = round_trips(options, cpus, time);
        PacketCeiling {
            engine: engine.to_owned(),
            not_measured: found.as_ref().err().map(ToString::to_string),
            round_trips_per_s: found.ok().map(f64::round),
        }
    };
    engines.map(ceiling).to_vec()
}

fn round_trips(options: UdpOptions, cpus: &[usize], time: Nanos) -> io::Result<f64> {
    let host = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let serving = UdpOptions { timestamps: false, ..options };
    let mut server = UdpEngine::server(&[SocketAddr::new(host, 0)], false, serving)?;
    let target = server.local_address(SocketId(0))?;
    let mut client = UdpEngine::client(target, &sources(&[host], SOCKETS as usize), options)?;
    let stop = AtomicBool::new(false);
    let (first, last) = (cpus.first().copied().unwrap_or(0), cpus.last().copied().unwrap_or(0));
    // On one core the client and the echo must let each other run.
    let mode = if first == last { WaitMode::Sleep } else { WaitMode::Spin };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = sys::pin_to_cpus(&[last]);
            // An error here appears as lost datagrams.
            let _ = drive(&mut server, &mut Echo, mode, &stop);
        });
        let client = scope.spawn(|| {
            let _ = sys::pin_to_cpus(&[first]);
            let began = client.now();
            let mut role =
                Window { until: began + time, last: began, sent: 0, back: 0, outstanding: 0 };
            drive(&mut client, &mut role, mode, &AtomicBool::new(false))?;
            if role.back == 0 {
                return Err(io::Error::other(format!("nothing came back within {MAX_FIRST_WAIT}")));
            }
            Ok(role.back as f64 / (client.now() - began).as_secs_f64())
        });
        let found = client.join().unwrap_or_else(|_| Err(io::Error::other("the client failed")));
        stop.store(true, Ordering::Relaxed);
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_comes_back() {
        let cpus = sys::allowed_cpus().expect("readable");
        let ceilings = measure(&cpus, Nanos::from_millis(50));
        assert!(!ceilings.is_empty());
        for ceiling in ceilings {
            assert!(ceiling.round_trips_per_s.is_some_and(|qps| qps > 0.0), "{ceiling:?}");
        }
    }
}
