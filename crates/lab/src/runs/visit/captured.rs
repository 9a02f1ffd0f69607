//! A capture beside the server during its visits (`run --capture-dir`).

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use experiment::Visit;
use measure::Path as LinkPath;

use crate::runs::session::{Session, Shortfall};
use crate::testbed::Host;
use crate::testbed::capture::PacketCapture;

/// A capture of a visit.
pub(super) struct VisitCapture {
    name: String,
    capture: PacketCapture<BufWriter<File>>,
}

impl Session<'_> {
    /// Starts a capture of the link between Tester and server, as a file in the folder `dir`.
    pub(super) fn capture(&self, v: &Visit, dir: &Path) -> Result<VisitCapture, Shortfall> {
        let adapter = &self.checked.adapters[v.server];
        if self.remote_dut.is_some() || adapter.remote.is_some() {
            let why = "--capture-dir: the server is not in the testbed: capture on its host";
            return Err(Shortfall::Cannot(why.to_owned()));
        }
        if self.testbed.path() == LinkPath::HostOffload {
            let why = "--capture-dir: segmented messages cross the link whole, so that packets cannot be counted";
            return Err(Shortfall::Cannot(why.to_owned()));
        }
        let name = format!("{}-{}-{}.pcap", adapter.name, v.point + 1, v.repeat + 1);
        let path = dir.join(&name);
        let created = std::fs::create_dir_all(dir).and_then(|()| File::create(&path));
        let file = created.map_err(|e| Shortfall::Failed(format!("{}: {e}", path.display())))?;
        let host = self.testbed.namespace(Host::Dut);
        let capture = PacketCapture::start(
            &Host::interface(Host::Tester),
            &self.testbed.lab_cpus(),
            BufWriter::with_capacity(1 << 20, file),
            |open| host.run(open),
        );
        Ok(VisitCapture { name, capture: capture.map_err(Shortfall::Cannot)? })
    }
}

impl VisitCapture {
    /// Ends the capture; returns a note on it for the cell.
    pub(super) fn end(self) -> String {
        match self.capture.end() {
            Ok((_, 0)) => format!("its packets are in {}; capturing takes CPU time", self.name),
            Ok((_, lost)) => {
                format!("its packets are in {}, except {lost} that came too fast", self.name)
            }
            Err(why) => format!("{}: {why}", self.name),
        }
    }
}
