//! Zone transfers that pass the loopback of a replication, counted by kind and by who got them.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use lab::replication::{Network, PORT};
use trace::transfers::{Kind, Transfers};
use trace::{Capture, CaptureError, Message, Messages};
use udp::capture::{LiveCapture, Only, Until};

use crate::replicate_cell::Figures;

/// Kinds of transfers, and what their figures are called.
const KINDS: [(Kind, &str); 5] = [
    (Kind::Axfr, "axfr"),
    (Kind::Ixfr, "ixfr"),
    (Kind::IxfrInFull, "ixfr_in_full"),
    (Kind::UpToDate, "ixfr_without_news"),
    (Kind::Refused, "transfers_refused"),
];

/// The transfers of each secondary, and at last those of anybody else.
struct Counts {
    secondaries: Vec<IpAddr>,
    transfers: Vec<Transfers>,
}

impl Counts {
    fn new(secondaries: usize) -> Self {
        let addresses = (1..).take(secondaries).map(|number| *Network::address(number).ip());
        let secondaries: Vec<IpAddr> = addresses.map(IpAddr::V4).collect();
        let transfers = (0..=secondaries.len()).map(|_| Transfers::default()).collect();
        Counts { secondaries, transfers }
    }

    fn add(&mut self, message: &Message<'_>) {
        let has = |ip: &IpAddr| message.source.ip() == *ip || message.destination.ip() == *ip;
        let number = self.secondaries.iter().position(has).unwrap_or(self.secondaries.len());
        self.transfers[number].add(message);
    }

    /// Figures of a few of them together: for each kind that occurred, and for AXFR and IXFR in any case.
    fn figures(of: &[Transfers]) -> Figures {
        let mut found = Vec::new();
        for (kind, name) in KINDS {
            let counts = || of.iter().map(|transfers| transfers.counts(kind));
            let transfers: u64 = counts().map(|count| count.transfers).sum();
            let octets: u64 = counts().map(|count| count.octets).sum();
            if transfers > 0 || matches!(kind, Kind::Axfr | Kind::Ixfr) {
                found.push((name.to_owned(), "", transfers as f64));
                found.push((format!("{name}_octets"), "octets", octets as f64));
            }
        }
        found
    }
}

/// Listens in the background, in the network namespace of the thread that starts it.
pub(crate) struct TransferWatch {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<(Counts, Option<CaptureError>)>,
}

impl TransferWatch {
    /// Watches so many secondaries.
    pub(crate) fn start(secondaries: usize) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { duration: None, stop: stop.clone() };
        let live = LiveCapture::open("lo", Only::TcpOverIpv4, until)
            .context("cannot listen to transfers on the loopback")?;
        let lost = live.lost();
        let mut capture = Capture::new(Box::new(live), Path::new("lo"))?;
        let thread = std::thread::spawn(move || {
            let mut counts = Counts::new(secondaries);
            let mut messages = Messages::new(vec![PORT]);
            let read = messages.read(&mut capture, |message| counts.add(message));
            (counts, read.err())
        });
        Ok(TransferWatch { stop, lost, thread })
    }

    /// What passed: all of it, and what each secondary got.
    pub(crate) fn finish(self) -> anyhow::Result<(Figures, Vec<Figures>)> {
        self.stop.store(true, Ordering::Relaxed);
        let (counts, error) =
            self.thread.join().map_err(|_| anyhow!("the watch of transfers panicked"))?;
        if let Some(error) = error {
            return Err(error.into());
        }
        let mut all = Counts::figures(&counts.transfers);
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            // What is counted is then too little.
            all.push(("packets_of_transfers_lost".to_owned(), "", lost as f64));
        }
        let each = counts.transfers[..counts.secondaries.len()].chunks(1).map(Counts::figures);
        Ok((all, each.collect()))
    }
}
