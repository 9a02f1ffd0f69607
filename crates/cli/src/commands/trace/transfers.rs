//! `dnsdyno trace transfers`: zone transfers that pass an interface, counted by kind and by secondary. The
//! lab runs it beside a primary and its secondaries.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::anyhow;
use clap::Args;
use record::SCHEMA;
use trace::transfers::Transfers;
use trace::{Capture, Messages};
use udp::capture::{LiveCapture, Only, Until};

use crate::failure::Failure;
use crate::process::interruption;

/// The port of DNS.
const PORT: u16 = 53;

/// Arguments of `dnsdyno trace transfers`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TransfersArgs {
    /// The interface
    #[arg(value_name = "INTERFACE")]
    interface: String,
    /// Count the transfers of this address separately
    #[arg(long = "secondary", value_name = "ADDRESS")]
    secondaries: Vec<IpAddr>,
    /// Write the result as JSON (- for the standard output)
    #[arg(long, value_name = "FILE", default_value = "-")]
    json: PathBuf,
}

pub(crate) fn run(args: &TransfersArgs) -> Result<(), Failure> {
    let until = Until { duration: None, stop: interruption()? };
    let live = LiveCapture::open(&args.interface, Only::TcpOverIpv4, until)
        .map_err(|e| Failure::run(anyhow!("cannot listen to {}: {e}", args.interface)))?;
    let lost = live.lost();
    let mut capture =
        Capture::new(Box::new(live), Path::new(&args.interface)).map_err(Failure::run)?;
    // The lab waits for this line.
    eprintln!("listening to {}", args.interface);
    let others = args.secondaries.len();
    let mut transfers: Vec<Transfers> = (0..=others).map(|_| Transfers::default()).collect();
    Messages::new(vec![PORT])
        .read(&mut capture, |message| {
            let has = |ip: &IpAddr| message.source.ip() == *ip || message.destination.ip() == *ip;
            let number = args.secondaries.iter().position(has).unwrap_or(others);
            transfers[number].add(message);
        })
        .map_err(Failure::run)?;
    let mut counts = transfers.iter().map(Transfers::summary);
    let result = record::Transfers {
        schema: SCHEMA,
        packets_lost: lost.load(Ordering::Relaxed),
        secondaries: counts.by_ref().take(others).collect(),
        others: counts.next().unwrap_or_default(),
    };
    record::write(&args.json, &result).map_err(Failure::run)
}
