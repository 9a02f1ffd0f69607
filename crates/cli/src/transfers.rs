//! Zone transfers that pass the loopback of a replication, counted by kind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use lab::replication::PORT;
use net::capture::{LiveCapture, Only, Until};
use trace::transfers::{Kind, Transfers};
use trace::{Capture, CaptureError, Messages};

/// Kinds of transfers, and what their figures are called.
const KINDS: [(Kind, &str); 5] = [
    (Kind::Axfr, "axfr"),
    (Kind::Ixfr, "ixfr"),
    (Kind::IxfrInFull, "ixfr_in_full"),
    (Kind::UpToDate, "ixfr_without_news"),
    (Kind::Refused, "transfers_refused"),
];

/// Listens in the background, in the network namespace of the thread that starts it.
pub(crate) struct TransferWatch {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<(Transfers, Option<CaptureError>)>,
}

impl TransferWatch {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { duration: None, stop: stop.clone() };
        let live = LiveCapture::open("lo", Only::TcpOverIpv4, until)
            .context("cannot listen to transfers on the loopback")?;
        let lost = live.lost();
        let mut capture = Capture::new(Box::new(live), Path::new("lo"))?;
        let thread = std::thread::spawn(move || {
            let mut transfers = Transfers::default();
            // All are from the primary.
            let mut messages = Messages::new(vec![PORT]);
            let read = messages.read(&mut capture, |message| transfers.add(message));
            (transfers, read.err())
        });
        Ok(TransferWatch { stop, lost, thread })
    }

    /// What passed: figures for each kind that occurred, and for AXFR and IXFR in any case.
    pub(crate) fn finish(self) -> anyhow::Result<Vec<(String, &'static str, f64)>> {
        self.stop.store(true, Ordering::Relaxed);
        let (transfers, error) =
            self.thread.join().map_err(|_| anyhow!("the watch of transfers panicked"))?;
        if let Some(error) = error {
            return Err(error.into());
        }
        let mut found = Vec::new();
        for (kind, name) in KINDS {
            let count = transfers.counts(kind);
            if count.transfers > 0 || matches!(kind, Kind::Axfr | Kind::Ixfr) {
                found.push((name.to_owned(), "", count.transfers as f64));
                found.push((format!("{name}_octets"), "octets", count.octets as f64));
            }
        }
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            // What is counted is then too little.
            found.push(("packets_of_transfers_lost".to_owned(), "", lost as f64));
        }
        Ok(found)
    }
}
