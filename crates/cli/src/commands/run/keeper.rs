//! Writes every trial of a run into the store as it ends.

use std::sync::atomic::Ordering;

use lab::{Event, Lab};
use record::{Recording, Store, StoreError};

/// Writes the events of a run into the store, in their order.
pub(crate) struct Keeper<'a> {
    store: &'a Store,
    /// `None` until the run has begun.
    recording: Option<Recording>,
    lab: &'a Lab,
    error: Option<StoreError>,
}

impl<'a> Keeper<'a> {
    /// Returns a keeper of a new run, or of a resumed one (`recording`).
    pub(crate) fn new(store: &'a Store, recording: Option<Recording>, lab: &'a Lab) -> Self {
        Keeper { store, recording, lab, error: None }
    }

    /// Writes an event. An error interrupts the run: a run ends if it cannot be stored.
    pub(crate) fn keep(&mut self, event: &Event<'_>) {
        if self.error.is_some() {
            return;
        }
        if let Err(e) = self.write(event) {
            self.error = Some(e);
            self.lab.interrupted().store(true, Ordering::Relaxed);
        }
    }

    fn write(&mut self, event: &Event<'_>) -> Result<(), StoreError> {
        if let (Event::Begun(plan), None) = (event, &self.recording) {
            self.recording = Some(self.store.begin(plan)?);
        }
        let Some(recording) = &mut self.recording else { return Ok(()) };
        match event {
            Event::Planned(cells, _) => recording.planned(cells),
            Event::Trial(cell, trial) => recording.trial(cell, trial),
            Event::Visited { cell, repeat: (_, of), .. } => {
                recording.cell(cell, cell.repeats == *of)
            }
            Event::SummedUp(cell) => recording.cell(cell, true),
            Event::Forgotten(cell, repeat) => recording.forget(cell, *repeat),
            Event::Skipped(skipped) => recording.skip(skipped),
            _ => Ok(()),
        }
    }

    /// Ends the run in the store; returns its number.
    pub(crate) fn finish(self, complete: bool) -> Result<Option<i64>, StoreError> {
        match (self.error, self.recording) {
            (Some(e), _) => Err(e),
            (None, Some(recording)) => recording.finish(complete).map(Some),
            (None, None) => Ok(None),
        }
    }
}
