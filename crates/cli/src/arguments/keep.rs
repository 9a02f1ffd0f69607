//! Whether a load or a search is kept in the store.

use clap::Args;
use record::Run;

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

    /// Keeps `run` in the store if the arguments want it.
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
