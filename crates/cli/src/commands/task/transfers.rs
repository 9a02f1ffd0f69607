//! Zone transfers that pass an interface, counted by kind and by secondary, beside a primary and
//! its secondaries.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::anyhow;
use record::SCHEMA;
use trace::transfers::Transfers;
use trace::{Capture, Messages};
use udp::capture::{LiveCapture, Only, Until};

use crate::failure::Failure;
use crate::process::interruption;

const DNS_PORT: u16 = 53;

/// Counts the transfers until a signal ends it.
pub(super) fn count(interface: &str, secondaries: &[IpAddr]) -> Result<record::Transfers, Failure> {
    let until = Until { duration: None, stop: interruption()? };
    let live = LiveCapture::open(interface, Only::TcpOverIpv4, until)
        .map_err(|e| Failure::run(anyhow!("cannot listen to {interface}: {e}")))?;
    let lost = live.lost();
    let mut capture = Capture::new(Box::new(live), Path::new(interface)).map_err(Failure::run)?;
    // The lab waits for this line.
    eprintln!("listening to {interface}");
    let others = secondaries.len();
    let mut transfers: Vec<Transfers> = (0..=others).map(|_| Transfers::default()).collect();
    Messages::new(vec![DNS_PORT])
        .read(&mut capture, |message| {
            let has = |ip: &IpAddr| message.source.ip() == *ip || message.destination.ip() == *ip;
            let number = secondaries.iter().position(has).unwrap_or(others);
            transfers[number].add(message);
        })
        .map_err(Failure::run)?;
    let mut counts = transfers.iter().map(Transfers::summary);
    Ok(record::Transfers {
        schema: SCHEMA,
        packets_lost: lost.load(Ordering::Relaxed),
        secondaries: counts.by_ref().take(others).collect(),
        others: counts.next().unwrap_or_default(),
    })
}
