//! A first start of each server before the self-test: one that cannot start is known at once, and not after minutes.

use experiment::Visit;
use record::CellRecord;

use super::{Cell, Session, Shortfall};

impl Session<'_> {
    /// Starts each server once, as its first visit will, and stops it. Returns why some cannot be measured there, with their
    /// visits. Without a self-test nothing is started, since the visits themselves show it as early.
    pub(super) fn try_out(&mut self) -> Vec<(Visit, Shortfall)> {
        if !self.needs_self_test() {
            return Vec::new();
        }
        let visits = (0..self.checked.adapters.len())
            .map(|server| Visit { server, point: 0, repeat: 0 })
            .filter(|v| !self.is_repeated(v.server, v.point));
        let mut failed = Vec::new();
        for v in visits.collect::<Vec<_>>() {
            if self.is_interrupted() {
                break;
            }
            if let Err(why) = self.start_once(&v) {
                failed.push((v, why));
            }
        }
        failed
    }

    /// Starts a server of the lab and stops it.
    fn start_once(&mut self, v: &Visit) -> Result<(), Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let adapter = &self.checked.adapters[v.server];
        if adapter.remote.is_some() || point.settings.method.replicates() {
            return Ok(());
        }
        let installed = self.installed(adapter, point)?;
        let (asked, stream) = (self.checked.questions[v.point], self.stream(v.point)?);
        let (service, _) = self.service(point, &asked, &installed, stream.as_ref())?;
        let _upstream = self.upstream(point, &asked, stream.as_ref())?;
        installed.start(&service, &self.testbed, self.lab, self.dir)?.stop();
        Ok(())
    }

    /// Returns whether something is left to measure.
    pub(super) fn any_left(cells: &[Cell]) -> bool {
        cells.iter().any(|cell| !cell.given_up)
    }
}

/// Leaves the trials of the self-test to one of the cells, which all have its certificate.
pub(super) fn share_self_test(cells: &mut [CellRecord]) {
    let certificates = cells.iter_mut().filter_map(|cell| cell.certificate.as_mut());
    certificates.skip(1).for_each(|certificate| certificate.trials.clear());
}
