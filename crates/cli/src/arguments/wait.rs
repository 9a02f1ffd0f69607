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
        eprintln!("waiting for core {} up to {wait}: {} measures on it", taken.core, taken.by);
        let taken = Reservation::take(cores, wait.into());
        taken.map_err(|taken| Failure::run(anyhow::anyhow!("waited {wait}: still {taken}")))
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn a_wait_that_ends_says_how_long_it_was() {
        // A core that no host has.
        let core = 70_000 + std::process::id() as usize;
        let name = SocketAddr::from_abstract_name(format!("dnsdyno-core-{core}"));
        let _held = UnixListener::bind_addr(&name.expect("a name")).expect("nobody has it");
        let cores = CpuList::new([core]).expect("a core");
        let wait = |wait| {
            let taken = WaitArgs { wait }.reserve(&cores).err();
            format!("{:?}", taken.expect("another holds it"))
        };
        let still = format!("waited 1ms: still another run measures on core {core} (");
        let waited = wait(Some(Nanos::from_millis(1)));
        assert!(waited.contains(&still) && waited.contains("`run --cpus`"), "{waited}");
        assert!(!wait(None).contains("waited"));
    }
}
