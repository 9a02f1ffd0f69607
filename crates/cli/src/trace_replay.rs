//! `dnsdyno load --replay`: the queries of a capture, when they came.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use load::{Recorder, Recording};
use measure::{Nanos, Pacing, Qps, Warning};
use wire::Header;

use crate::failure::Failure;
use crate::trace::InputArgs;

/// Clients told apart; further ones share the numbers of these.
const MAX_CLIENTS: usize = 1 << 20;
/// The pace of a capture that is shorter is told as if it took so long.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// How a capture is replayed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Replay")]
pub(crate) struct ReplayArgs {
    /// Ask the queries of this capture when they came, over UDP, once; with --source each client has an address of its own
    #[arg(
        long,
        value_name = "CAPTURE",
        group = "workload",
        conflicts_with_all = ["pacing", "rate", "from", "to", "window", "threads", "experiments", "duration",
            "qtype", "expect", "expect_pref64", "edns", "dnssec", "edns_option", "no_recursion", "transport"]
    )]
    replay: Option<PathBuf>,
    /// So many times as fast as the capture (2x, 0.5x)
    #[arg(long, value_name = "FACTOR", default_value = "1x", requires = "replay")]
    speed: Speed,
    /// Ports whose traffic in the capture is DNS
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "53",
        requires = "replay"
    )]
    replay_port: Vec<u16>,
}

/// A factor of time: more than nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed(f64);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
        number.filter(|factor| (1e-3..=1e3).contains(factor)).map(Speed).ok_or_else(|| {
            format!("`{text}` is not a speed such as 1x, 2x or 0.5x (0.001x to 1000x)")
        })
    }
}

/// A capture to replay.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) recording: Recording,
    /// So many times as fast.
    pub(crate) speed: f64,
    /// Clients told apart.
    pub(crate) clients: usize,
    /// The capture.
    path: PathBuf,
    /// Doubts about it.
    pub(crate) warnings: Vec<Warning>,
    /// Why only its beginning could be read.
    pub(crate) incomplete: Option<String>,
}

impl Replay {
    /// Takes the capture in; `None` when none is asked for.
    ///
    /// # Errors
    /// When there is no query in what can be read.
    pub(crate) fn new(args: &ReplayArgs) -> Result<Option<Self>, Failure> {
        let Some(path) = &args.replay else { return Ok(None) };
        let (captures, ports) = (vec![path.clone()], args.replay_port.clone());
        let input = InputArgs { captures, ports, interface: None, listen: None };
        let mut recorder = Recorder::new().map_err(Failure::run)?;
        let mut numbers: HashMap<IpAddr, u32> = HashMap::new();
        let (mut broken, mut left_out, mut replies) = (None, 0u64, 0u64);
        let (_, incomplete) = input.read(|message| {
            if Header::read(message.bytes).is_some_and(|header| header.is_response()) {
                replies += 1;
                return;
            }
            let next = numbers.len().min(MAX_CLIENTS - 1) as u32;
            let client = if numbers.len() < MAX_CLIENTS {
                *numbers.entry(message.source.ip()).or_insert(next)
            } else {
                numbers.get(&message.source.ip()).copied().unwrap_or(next)
            };
            let taken = !message.cut
                && recorder.add(message.at, client, message.bytes).unwrap_or_else(|error| {
                    broken.get_or_insert(error);
                    true
                });
            left_out += u64::from(!taken);
        })?;
        if let Some(error) = broken {
            return Err(Failure::run(anyhow::anyhow!(
                "cannot keep the queries of the capture: {error}; set TMPDIR to a place with room"
            )));
        }
        let Some(recording) = recorder.finish().map_err(Failure::run)? else {
            return Err(Failure::BadInput(anyhow::anyhow!(
                "{}: there is no query in it to replay ({replies} replies, {left_out} queries that are cut or have no header; DNS is looked for on port {:?}: --replay-port)",
                path.display(),
                args.replay_port
            )));
        };
        let cut = incomplete.map(|error| Warning::CaptureCut { why: error.to_string() });
        let incomplete = cut.as_ref().map(ToString::to_string);
        let mut warnings: Vec<Warning> = cut.into_iter().collect();
        if left_out > 0 {
            warnings.push(Warning::QueriesLeftOut { queries: left_out });
        }
        let (speed, clients) = (args.speed.0, numbers.len());
        let path = path.clone();
        Ok(Some(Replay { recording, speed, clients, path, warnings, incomplete }))
    }

    /// How long it takes.
    pub(crate) fn duration(&self) -> Nanos {
        Nanos((self.recording.span.0 as f64 / self.speed) as u64).max(SHORTEST)
    }

    /// The constant rate that sends as many queries in that time: what sockets and waits are chosen by.
    pub(crate) fn mean(&self) -> Pacing {
        let rate = self.recording.queries as f64 / self.duration().as_secs_f64();
        Pacing::Constant { rate: Qps::new(rate).expect("a finite number of queries in some time") }
    }

    /// In words, for the result's conditions.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} queries of {} clients of {}",
            self.recording.queries,
            self.clients,
            self.path.display()
        )
    }

    /// The pacing in words.
    pub(crate) fn describe_pacing(&self) -> String {
        format!("replay at {}x", self.speed)
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
