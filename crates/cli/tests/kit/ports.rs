//! Ports for servers of tests.

use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the next port outside of the kernel's range for clients, which begins at 32,768 unless
/// `net.ipv4.ip_local_port_range` is changed.
///
/// Within that range a client might take the port before the server does. And a client that connects to a
/// port which is still free might get that same port: the connection is then one with itself, and the query
/// comes back as the reply.
pub(crate) fn next_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    // Other test processes start at other ports.
    let first = std::process::id().wrapping_mul(997);
    let nth = first.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
    PORTS.start + (nth % u32::from(PORTS.end - PORTS.start)) as u16
}
