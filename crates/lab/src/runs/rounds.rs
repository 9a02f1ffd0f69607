//! Rounds of capacities: whether they are enough, and their result.

use experiment::{Method, Visit, capacity};
use record::CellRecord;

use crate::runs::run::Event;
use crate::runs::session::{Cell, Session};

impl Cell {
    /// Returns whether a cell gets no more visits: one has failed, or the time budget has `ended` and
    /// the cell has its rounds. Only cells whose first one was discarded get one more then.
    pub(crate) fn is_over(&self, ended: bool) -> bool {
        self.given_up || ended && self.record.rounds.len() as u32 >= capacity::MIN_ROUNDS
    }
}

impl Session<'_> {
    /// Returns whether no further round is needed if `next` would begin one after the visit `last`:
    /// the minimum number was made, and the rounds are enough or the time is `over`.
    pub(crate) fn is_enough(
        &self,
        cells: &mut [Cell],
        last: Option<Visit>,
        next: &Visit,
        over: bool,
    ) -> bool {
        if last.is_some_and(|last| last.repeat == next.repeat) {
            return false;
        }
        let measured = cells.iter_mut().filter(|cell| !cell.given_up);
        capacity::align_windows(&mut measured.map(|cell| &mut cell.record).collect::<Vec<_>>());
        self.sum_up(cells);
        let usual = self.checked.experiment.common().capacity.precision;
        let made = cells.iter().map(|cell| &cell.record);
        let is_over = over && next.repeat >= capacity::least_rounds(made.clone());
        is_over || capacity::are_enough(made, usual, &self.options.fail_if, next.repeat)
    }

    /// Gives a new cell the windows of a server of the same kind, if they are known.
    pub(crate) fn know_windows(&self, record: &mut CellRecord) {
        let alike = self.options.alike.iter().find(|alike| alike.settings == record.settings);
        if let Some(alike) = alike {
            record.windows.clone_from(&alike.windows);
            record.hidden.clone_from(&alike.hidden);
        }
    }

    /// Computes the capacity of each cell from all its rounds, and notifies the caller of it.
    pub(crate) fn finish_capacities(&self, cells: &mut [Cell], notify: &mut dyn FnMut(Event<'_>)) {
        if self.checked.experiment.common().method == Method::Capacity {
            self.sum_up(cells);
            let measured = cells.iter().filter(|cell| !cell.record.rounds.is_empty());
            measured.for_each(|cell| notify(Event::SummedUp(&cell.record)));
        }
    }

    /// Computes the capacity of each cell from its rounds so far.
    fn sum_up(&self, cells: &mut [Cell]) {
        let adapters = &self.checked.adapters;
        let first = adapters.first().map(|adapter| adapter.name.as_str());
        let is_here = |name: &&String| adapters.iter().any(|adapter| adapter.name == **name);
        let usual = self.checked.experiment.common().baseline.as_ref().filter(is_here);
        let baseline = self.options.baseline.as_ref().or(usual).map(String::as_str).or(first);
        capacity::sum_up(&mut records(cells), baseline);
    }
}

fn records(cells: &mut [Cell]) -> Vec<&mut CellRecord> {
    cells.iter_mut().map(|cell| &mut cell.record).collect()
}
