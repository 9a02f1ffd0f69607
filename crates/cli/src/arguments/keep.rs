//! Whether a load or a search is kept in the store.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use record::{CellRecord, Plan, Recording, Run, StoreError, TrialRecord};

use crate::arguments::store::{self, StoreArgs};
use crate::failure::Failure;

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
    /// Returns whether the result is to be kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.keep || self.store.store.is_some()
    }

    /// Checks before the measurement whether the result can be stored, if the arguments request it.
    pub(crate) fn try_writing(&self) -> Result<(), Failure> {
        match self.is_wanted() {
            true => self.store.open()?.try_writing().map_err(store::failure),
            false => Ok(()),
        }
    }

    /// Begins a run with this plan in the store, if the arguments request it.
    pub(crate) fn begin(&self, plan: &Plan) -> Result<KeptRun, Failure> {
        let begin = || self.store.open()?.begin(plan).map_err(store::failure);
        let recording = self.is_wanted().then(begin).transpose()?;
        Ok(KeptRun { recording, error: None })
    }

    /// Stores `run` if the arguments request it.
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

/// A run that is stored while it is measured; inactive without a store.
pub(crate) struct KeptRun {
    recording: Option<Recording>,
    error: Option<StoreError>,
}

impl KeptRun {
    /// Keeps a trial of a cell that has ended. An error sets `stop`: a run ends if it cannot be
    /// stored.
    pub(crate) fn trial(&mut self, cell: &CellRecord, trial: &TrialRecord, stop: &AtomicBool) {
        if let (Some(recording), None) = (&mut self.recording, &self.error)
            && let Err(error) = recording.trial(cell, trial)
        {
            self.error = Some(error);
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// Stores the cells of the run, and ends the run.
    pub(crate) fn finish(self, cells: &[CellRecord], complete: bool) -> Result<(), Failure> {
        if let Some(error) = self.error {
            return Err(store::failure(error));
        }
        let Some(mut recording) = self.recording else { return Ok(()) };
        let path = recording.path().display().to_string();
        let kept = cells.iter().try_for_each(|cell| recording.cell(cell, complete));
        let done = kept.and_then(|()| recording.finish(complete));
        let id = done.map_err(store::failure)?;
        eprintln!("kept as run {id} in {path}");
        Ok(())
    }
}
