//! How long a command waits for cores that another run measures on.

use std::time::Duration;

use clap::Args;
use lab::{CpuList, Reservation};
use measure::Nanos;

use crate::failure::Failure;

/// Longest wait for cores.
#[derive(Args, Clone, Debug)]
pub(crate) struct WaitArgs {
    /// Longest wait for cores that another run measures on; without it the second run is refused
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1h"
    )]
    wait: Option<Nanos>,
}

impl WaitArgs {
    /// Reserves cores, and waits for them as long as the argument says.
    pub(crate) fn reserve(&self, cores: &CpuList) -> Result<Reservation, Failure> {
        let wait = self.wait.map_or(Duration::ZERO, Duration::from);
        Reservation::take(cores, wait).map_err(Failure::run)
    }
}
