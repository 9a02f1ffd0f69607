//! `dnsdyno load --replay`: the queries of a capture, at the times of the capture.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use record::request::Workload;

/// Replay of a capture.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Replay")]
pub(crate) struct ReplayArgs {
    /// Send the queries of this capture at its times, over UDP, once; with --source each client has its own address
    #[arg(
        long,
        value_name = "CAPTURE",
        group = "workload",
        conflicts_with_all = ["pacing", "rate", "from", "to", "window", "threads", "experiments", "duration",
            "qtype", "expect", "expect_pref64", "edns", "dnssec", "edns_option", "no_recursion", "transport"]
    )]
    replay: Option<PathBuf>,
    /// Speed of the replay, as a multiple of that of the capture (2x, 0.5x)
    #[arg(long, value_name = "FACTOR", default_value = "1x", requires = "replay")]
    pub(crate) speed: Speed,
    /// Ports whose traffic in the capture is DNS
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "53",
        requires = "replay"
    )]
    pub(crate) replay_port: Vec<u16>,
    /// Hold each reply against that of the capture, and show what differs; `dnsdyno diff` has more settings
    #[arg(
        long,
        requires = "replay",
        conflicts_with_all = ["times", "dut_cpus", "auth_cpus", "stop_outstanding", "step", "goal", "interval", "quantiles",
            "format", "keep", "store", "slice", "start_at", "clock_bound", "dut", "clients", "transports", "engine", "source",
            "source_port", "cpus", "sockets", "ports_per_thread"]
    )]
    compare: bool,
}

/// Smallest and largest speed.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Speed of a replay, as a multiple of that of the capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed(f64);

impl Speed {
    /// Returns the factor.
    pub(crate) fn factor(self) -> f64 {
        self.0
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
        number.filter(|factor| SPEEDS.contains(factor)).map(Speed).ok_or_else(|| {
            let (least, most) = (SPEEDS.start(), SPEEDS.end());
            format!("`{text}` is not a speed such as 1x, 2x or 0.5x ({least}x to {most}x)")
        })
    }
}

impl ReplayArgs {
    /// Returns the capture if replies are to be held against it.
    pub(crate) fn compared(&self) -> Option<PathBuf> {
        self.replay.clone().filter(|_| self.compare)
    }

    /// Returns the workload if a capture is to be replayed.
    pub(crate) fn request(&self) -> Option<Workload> {
        let capture = self.replay.clone()?;
        Some(Workload::Replay { capture, speed: self.speed.0, ports: self.replay_port.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        assert_eq!(
            ["2x", "0.5", "1000x"].map(str::parse),
            [Ok(Speed(2.0)), Ok(Speed(0.5)), Ok(Speed(1e3))]
        );
        for bad in ["", "x", "0x", "-1x", "inf", "NaNx", "2y"] {
            assert!(bad.parse::<Speed>().is_err(), "{bad}");
        }
    }
}
