//! `dnsdyno load --replay`: the queries of a capture or a population, at their times.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;
use record::request::Workload;

use crate::commands::diff::TermArgs;
use crate::failure::Failure;

/// Replay of a capture or a population.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Replay")]
pub(crate) struct ReplayArgs {
    /// Send the queries of this capture, or of a population of `trace clients`, at their times. Over other transports than UDP each
    /// client has its own connections, and with --source its own address
    #[arg(
        long,
        value_name = "FILE",
        group = "workload",
        conflicts_with_all = ["pacing", "rate", "window", "threads", "experiments", "duration",
            "qtype", "expect", "expect_pref64", "edns", "dnssec", "edns_option", "no_recursion", "clients", "pick", "on_demand"]
    )]
    replay: Option<PathBuf>,
    /// Give each client of the file its own port over UDP, as it has its own connection over other
    /// transports
    #[arg(long, requires = "replay")]
    pub(crate) own_ports: bool,
    /// Speed of the replay, as a multiple of the capture's speed (2x, 0.5x)
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
    pub(crate) dns_port: Vec<u16>,
    /// Compare each reply with the capture's, and show what differs, as `dnsdyno diff` does
    #[arg(
        long,
        alias = "compare",
        requires = "replay",
        conflicts_with_all = ["times", "dut_cpus", "auth_cpus", "stop_outstanding", "step", "goal", "interval", "quantiles",
            "format", "keep", "store", "slice", "start_at", "clock_bound", "dut", "clients", "transports", "engine", "source",
            "source_port", "cpus", "ports", "ports_per_thread", "own_ports", "runs", "retry", "hosts", "queries_per_connection",
            "outstanding", "connection_rate", "opening", "connect_timeout", "close", "write", "max_reply", "fast_open", "close_idle",
            "cookies", "tcp_fallback", "resend", "subnets", "keepalive", "pad", "proxy", "tls_resume", "early_data"]
    )]
    compare_replies: bool,
    #[command(flatten)]
    pub(crate) terms: TermArgs,
}

const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Speed of a replay, as a multiple of the capture's speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed(f64);

impl Speed {
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
    /// Returns the capture if replies are compared with it.
    ///
    /// # Errors
    /// If there are terms of a comparison without --compare-replies.
    pub(crate) fn compared(&self) -> Result<Option<PathBuf>, Failure> {
        if !self.compare_replies && self.terms.is_given() {
            let why = "--lines, --page, --ttl, --ignore and --known require --replay FILE --compare-replies";
            return Err(Failure::BadInput(anyhow!(why)));
        }
        Ok(self.replay.clone().filter(|_| self.compare_replies))
    }

    /// Returns whether a capture is to be replayed.
    pub(crate) fn is_given(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns the workload if a capture is to be replayed, `runs` times or once.
    pub(crate) fn request(&self, runs: Option<u64>) -> Option<Workload> {
        let capture = self.replay.clone()?;
        let loops = runs.map_or(1, |runs| u32::try_from(runs).unwrap_or(u32::MAX));
        let (speed, ports) = (self.speed.0, self.dns_port.clone());
        Some(Workload::Replay { capture, speed, ports, loops })
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
