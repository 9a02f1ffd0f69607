//! Whether only results and errors are printed.

use clap::Args;

use crate::output;

/// Whether only results and errors are printed.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct QuietArgs {
    /// Print only the result and errors: no progress, no notes, no warnings (which the record has)
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl QuietArgs {
    /// Silences this process if the argument is given.
    pub(crate) fn apply(self) {
        if self.quiet {
            output::be_quiet();
        }
    }
}
