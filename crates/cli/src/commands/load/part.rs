//! One of several Testers: its slice of the load, and the agreed start.

use anyhow::bail;
use clap::Args;
use measure::{ClockBound, Slice, StartAt};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Several Testers")]
pub(crate) struct PartArgs {
    /// Send only a slice of the load: 1/3, 2/3 and 3/3 on three hosts are one load. All other
    /// arguments describe the whole load; `dnsdyno merge` merges the results
    #[arg(long, value_name = "I/N")]
    pub(crate) slice: Option<Slice>,
    /// Start at this instant: 2026-11-23T04:30:00Z (UTC), 2026-11-23T04:30:37TAI, or @1795408200 (seconds since 1970)
    #[arg(long, value_name = "TIME")]
    pub(crate) start_at: Option<StartAt>,
    /// Refuse --start-at unless this host's clock is synchronised to within this; `unchecked` does not look [default: 10ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) clock_bound: Option<ClockBound>,
    /// Whether a conductor of several Testers chooses their slices and their start.
    #[arg(skip)]
    pub(crate) conducted: bool,
}

impl PartArgs {
    /// Refuses a bound of the clock without a start, and options that the conductor of several
    /// Testers sets.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.conducted && (self.slice.is_some() || self.start_at.is_some()) {
            bail!("--slice and --start-at: the conductor chooses them for each Tester");
        }
        if !self.conducted && self.clock_bound.is_some() && self.start_at.is_none() {
            bail!("--clock-bound requires --start-at");
        }
        Ok(())
    }
}
