//! Time for which a command waits for cores in use by another run.

use std::time::Duration;

use clap::Args;
use lab::{CpuList, Reservation};
use measure::Nanos;

use crate::arguments::number::parse_duration;
use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub(crate) struct WaitArgs {
    /// Longest wait for cores that another run measures on; without it the second run is refused
    #[arg(
        long,
        value_name = "TIME", value_parser = parse_duration,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1h"
    )]
    wait: Option<Nanos>,
}

impl WaitArgs {
    /// Reserves cores. If another run holds one, prints that, and waits up to the time of the
    /// argument.
    pub(crate) fn reserve(&self, cores: &CpuList) -> Result<Reservation, Failure> {
        let taken = match Reservation::take(cores, Duration::ZERO) {
            Ok(reservation) => return Ok(reservation),
            Err(taken) => taken,
        };
        let Some(wait) = self.wait else { return Err(Failure::run(taken)) };
        eprintln!("waiting up to {wait} for core {}: {} measures on it", taken.core, taken.by);
        Reservation::take(cores, wait.into()).map_err(Failure::run)
    }
}
