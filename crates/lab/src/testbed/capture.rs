//! Captures of the packets that reach a server and leave it, taken on its host.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use udp::capture::{LiveCapture, Only, Until};
use udp::sys;

use crate::testbed::cpus::CpuList;

/// Largest capture, in octets: ten seconds at 100,000 queries a second and more.
const MAX_OCTETS: u64 = 1 << 30;
/// Time after a trial in which an idle capture reads the last packets.
const LAST_READ: Duration = Duration::from_millis(60);

/// A capture that is being taken, as a pcap stream into `W`.
pub struct PacketCapture<W> {
    stop: Arc<AtomicBool>,
    reader: JoinHandle<io::Result<(W, u64)>>,
    lost: Arc<AtomicU64>,
}

impl<W: Write + Send + 'static> PacketCapture<W> {
    /// Starts a capture of `interface` into `sink`, on the cores `cpus`; `enter` does its work in the network namespace of the interface.
    ///
    /// # Errors
    /// The reason why there can be none.
    pub(crate) fn start(
        interface: &str,
        cpus: &CpuList,
        mut sink: W,
        enter: impl FnOnce(
            &(dyn Fn() -> io::Result<LiveCapture> + Sync),
        ) -> io::Result<io::Result<LiveCapture>>,
    ) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let open =
            || LiveCapture::open(interface, Only::Ip, Until { duration: None, stop: stop.clone() });
        let live = enter(&open).map_err(|e| e.to_string())?.map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("no right to capture on {interface} (CAP_NET_RAW)")
            }
            _ => format!("cannot capture on {interface}: {e}"),
        })?;
        let (lost, cpus) = (live.lost(), cpus.cpus().to_vec());
        let reader = std::thread::spawn(move || {
            let _ = sys::pin_to_cpus(&cpus);
            let taken = io::copy(&mut live.take(MAX_OCTETS), &mut sink)?;
            sink.flush()?;
            Ok((sink, taken))
        });
        Ok(PacketCapture { stop, reader, lost })
    }

    /// Ends the capture; returns its output, and the number of lost packets.
    ///
    /// # Errors
    /// The reason why the capture is useless.
    pub fn end(self) -> Result<(W, u64), String> {
        std::thread::sleep(LAST_READ);
        self.stop.store(true, Ordering::Relaxed);
        let read = self.reader.join().map_err(|_| "the capture panicked".to_owned())?;
        let (sink, taken) = read.map_err(|e| format!("the capture failed: {e}"))?;
        if taken >= MAX_OCTETS {
            return Err(format!("the capture has more than {MAX_OCTETS} octets"));
        }
        Ok((sink, self.lost.load(Ordering::Relaxed)))
    }
}
