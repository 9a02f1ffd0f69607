//! The servers of a search, each with its names and its results, and the Testers that send to them.

use std::collections::BTreeMap;

use experiment::{Bench, Method, NameBudget};
use measure::Nanos;
use record::CellRecord;

use crate::bench::{OwnBench, TestersBench};
use crate::testers::Testers;

/// The measured servers, one after the other.
pub(super) struct Servers<'t> {
    pub(super) all: Vec<Server>,
    pub(super) testers: Option<&'t mut (dyn Testers + 't)>,
    /// Duration of each trial instead of the plan's; only tests set it.
    pub(super) shortened: Option<Nanos>,
}

/// A server, the names for its trials, and its results so far.
pub(super) struct Server {
    pub(super) bench: OwnBench,
    pub(super) names: NameBudget,
    pub(super) cell: CellRecord,
}

impl Server {
    /// Makes a server without results, measured by `method`.
    pub(super) fn new(bench: OwnBench, names: NameBudget, name: &str, method: Method) -> Self {
        Server { bench, names, cell: CellRecord::new(name, BTreeMap::new(), method.word()) }
    }
}

impl Servers<'_> {
    /// Returns the results of all.
    pub(super) fn cells(&mut self) -> Vec<&mut CellRecord> {
        self.all.iter_mut().map(|server| &mut server.cell).collect()
    }

    /// Calls `measure` with the bench, the names and the results of a server.
    pub(super) fn on<T>(
        &mut self,
        server: usize,
        measure: impl FnOnce(&mut dyn Bench, &mut NameBudget, &CellRecord) -> T,
    ) -> T {
        let Server { bench: own, names, cell } = &mut self.all[server];
        let testers = self.testers.as_mut().map(|testers| &mut **testers as &mut dyn Testers);
        measure(&mut TestersBench { own, testers, shortened: self.shortened }, names, cell)
    }
}
