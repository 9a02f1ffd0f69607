//! Results on their way into the store: of a run in the lab every trial as it ends, of a load or a search the whole
//! at its end.

use std::sync::atomic::Ordering;

use clap::Args;
use lab::{Event, Lab};
use record::{Recording, Run, Store, StoreError};

use crate::failure::Failure;
use crate::store::{self, StoreArgs};

/// Whether a load or a search is kept, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeepArgs {
    /// Keep the result in the store, as a run (`dnsdyno runs`, `show`, `compare`); --store does so too
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl KeepArgs {
    /// Whether it is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.keep || self.store.store.is_some()
    }

    /// Keeps `run`, where that is wanted.
    pub(crate) fn keep(&self, run: &Run) -> Result<(), Failure> {
        if !self.is_wanted() {
            return Ok(());
        }
        let store = self.store.open()?;
        let id = store.put(run).map_err(store::failure)?;
        eprintln!("kept as run {id} in {}", store.path().display());
        Ok(())
    }
}

/// Writes what a run tells, in the order in which it is told.
pub(crate) struct Keeper<'a> {
    store: &'a Store,
    /// Absent until the run has begun.
    recording: Option<Recording>,
    lab: &'a Lab,
    error: Option<StoreError>,
}

impl<'a> Keeper<'a> {
    /// A keeper of a new run, or of one that is taken up again (`recording`).
    pub(crate) fn new(store: &'a Store, recording: Option<Recording>, lab: &'a Lab) -> Self {
        Keeper { store, recording, lab, error: None }
    }

    /// Writes an event. When that fails the run is interrupted: nothing that could not be kept is measured.
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
            Event::Visited { cell, repeat: (repeat, of), .. } => {
                recording.cell(cell, repeat + 1 == *of)
            }
            Event::Forgotten(cell, repeat) => recording.forget(cell, *repeat),
            Event::Skipped(skipped) => recording.skip(skipped),
            _ => Ok(()),
        }
    }

    /// Ends the run; its number.
    pub(crate) fn finish(self, complete: bool) -> Result<Option<i64>, StoreError> {
        match (self.error, self.recording) {
            (Some(e), _) => Err(e),
            (None, Some(recording)) => recording.finish(complete).map(Some),
            (None, None) => Ok(None),
        }
    }
}
