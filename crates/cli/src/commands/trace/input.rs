//! Captures, interfaces and sockets that commands read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use clap::Args;
use measure::Nanos;
use record::TracePackets;
use trace::{Capture, CaptureError, Frames, Merge, Message, Messages};
use udp::capture::{LiveCapture, Only, Until};

use super::tap::{LiveTap, TapAddress};
use crate::arguments::number::parse_duration;
use crate::failure::Failure;
use crate::output::{is_stdout, not_an_input, output};
use crate::process::interruption;

/// Ports of the DNS traffic in captures that `--capture` names.
#[derive(Args, Clone, Debug)]
pub(crate) struct CapturePorts {
    /// Ports whose traffic in the capture is DNS
    #[arg(
        long = "dns-port",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "53",
        requires = "capture"
    )]
    pub(crate) ports: Vec<u16>,
}

/// Captures to read, an interface, or a socket for dnstap.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// Captures in any order, merged by time: pcap, pcapng, snoop or dnstap, plain or compressed by gzip, zstd, xz or lz4; - is the
    /// standard input
    #[arg(help_heading = None::<&str>, required_unless_present_any = ["device", "dnstap"], value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// Read packets of this network device (`any` for all) instead of captures, for --for or until Ctrl-C
    #[arg(long, value_name = "DEVICE", conflicts_with = "captures", group = "live")]
    pub(crate) device: Option<String>,
    /// Listen at this UNIX socket (a path with a `/`) or ADDRESS:PORT, and read what servers write there as dnstap, for --for or
    /// until Ctrl-C
    #[arg(long, value_name = "SOCKET", conflicts_with = "captures", group = "live")]
    pub(crate) dnstap: Option<TapAddress>,
    /// How long to read packets of the device, or dnstap
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, requires = "live")]
    pub(crate) listen: Option<Nanos>,
    /// Ports whose traffic is DNS
    #[arg(long = "dns-port", value_name = "LIST", value_delimiter = ',', default_value = "53")]
    pub(crate) ports: Vec<u16>,
}

impl InputArgs {
    /// Makes the input of captures in which traffic of these ports is DNS.
    pub(crate) fn of_files(captures: Vec<PathBuf>, ports: Vec<u16>) -> Self {
        InputArgs { captures, device: None, dnstap: None, listen: None, ports }
    }

    /// Opens an output, if all captures are there and none of them is the output.
    ///
    /// # Errors
    /// If a capture is missing, or the output cannot be written.
    pub(crate) fn output(&self, path: &PathBuf) -> Result<Box<dyn Write + Send>, Failure> {
        self.check_output(path)?;
        output(path)
    }

    /// Checks that all captures are there and none of them is the output.
    ///
    /// # Errors
    /// If a capture is missing, or is the output.
    pub(crate) fn check_output(&self, path: &Path) -> Result<(), Failure> {
        for capture in self.captures.iter().filter(|capture| !is_stdout(capture)) {
            std::fs::metadata(capture).map_err(|error| {
                Failure::input(anyhow!("cannot read the capture {}: {error}", capture.display()))
            })?;
        }
        not_an_input(path, &self.captures)
    }

    /// Calls `each` with every message; returns the counts of packets, and the error that ended the captures early.
    ///
    /// # Errors
    /// The first error, if no packet could be read before it.
    pub(crate) fn read(
        &self,
        each: impl FnMut(&Message<'_>),
    ) -> Result<(TracePackets, Option<CaptureError>), Failure> {
        if let Some(device) = &self.device {
            return self.listen(device, each);
        }
        if let Some(address) = &self.dnstap {
            return self.read_dnstap(address, each);
        }
        self.read_frames(Merge::open(&self.captures).map_err(Failure::input)?, each, Failure::input)
    }

    /// Works as [`read`](Self::read) with frames of captures that are open; `failure` converts
    /// their first error.
    pub(crate) fn read_frames(
        &self,
        mut frames: impl Frames,
        mut each: impl FnMut(&Message<'_>),
        failure: fn(CaptureError) -> Failure,
    ) -> Result<(TracePackets, Option<CaptureError>), Failure> {
        let (mut messages, mut any) = (Messages::new(self.ports.clone()), false);
        let read = messages.read(&mut frames, |message| {
            any = true;
            each(message);
        });
        let error = match read {
            Err(error) if !error.is_partial() && messages.counts().packets == 0 => {
                return Err(failure(error));
            }
            other => other.err(),
        };
        let counts = messages.counts();
        self.explain(&counts, any);
        Ok((counts, error))
    }

    /// Prints what the packets are if no message was found, and which ports seem to have DNS.
    fn explain(&self, counts: &TracePackets, any: bool) {
        let frames = counts.packets;
        if any || frames == 0 {
            return;
        }
        let ports: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
        let others: Vec<_> = counts
            .others
            .iter()
            .map(|other| match other.count {
                1 => format!("1 packet is {}", other.name),
                packets => format!("{packets} packets are {}", other.name),
            })
            .collect();
        let what = if others.is_empty() { "unreadable".into() } else { others.join(", ") };
        eprintln!("no DNS found on port {}; packets: {frames}; {what}", ports.join(", "));
        if let Some(hint) = counts.other_ports_note() {
            eprintln!("{hint}");
        }
    }

    /// Reads an interface until the time is over or a signal comes.
    fn listen(
        &self,
        interface: &str,
        each: impl FnMut(&Message<'_>),
    ) -> Result<(TracePackets, Option<CaptureError>), Failure> {
        let until = Until { duration: self.listen, stop: interruption()? };
        let live = LiveCapture::open(interface, Only::Ip, until).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Failure::input(anyhow!("{e}")),
            io::ErrorKind::PermissionDenied => Failure::input(anyhow!(
                "no right to listen to {interface} (CAP_NET_RAW): run as root, or pipe tcpdump into `-`"
            )),
            _ => Failure::run(anyhow!("cannot listen to {interface}: {e}")),
        })?;
        let lost = live.lost();
        let capture = Capture::new(Box::new(live), Path::new(interface)).map_err(Failure::run)?;
        let read = self.read_frames(capture, each, Failure::run);
        let lost = lost.load(Ordering::Relaxed);
        if lost > 0 {
            eprintln!(
                "{interface}: {lost} packets were lost: they came faster than they were read"
            );
        }
        read
    }

    /// Reads what servers write as dnstap until the time is over or a signal comes.
    fn read_dnstap(
        &self,
        address: &TapAddress,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<(TracePackets, Option<CaptureError>), Failure> {
        let until = Until { duration: self.listen, stop: interruption()? };
        let live = LiveTap::listen(address, until)
            .map_err(|e| Failure::input(anyhow!("cannot listen at {address}: {e}")))?;
        let taps = live.counts();
        // Servers that start now find the socket.
        eprintln!("listening at {address}");
        let name = address.to_string();
        let mut capture = Capture::new(Box::new(live), Path::new(&name)).map_err(Failure::run)?;
        let mut messages = Messages::new(self.ports.clone());
        let error = messages.read(&mut capture, &mut each).err();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (all, cut, refused) =
            (count(&taps.connections), count(&taps.cut), count(&taps.refused));
        if cut > 0 {
            eprintln!(
                "{address}: {cut} of {all} connections ended without STOP; their frames were read"
            );
        }
        if refused > 0 {
            eprintln!(
                "{address}: {refused} of {all} connections wrote no dnstap, or were too many"
            );
        }
        Ok((messages.counts(), error))
    }

    /// Returns the names of the captures, and of the interface or socket.
    pub(crate) fn names(&self) -> Vec<String> {
        let files = self.captures.iter().map(|path| path.display().to_string());
        let tap = self.dnstap.as_ref().map(ToString::to_string);
        files.chain(self.device.clone()).chain(tap).collect()
    }
}

/// Makes the error that ended the captures early a failure.
pub(crate) fn conclude(error: Option<CaptureError>) -> Result<(), Failure> {
    error.map_or(Ok(()), |error| Err(Failure::run(error)))
}
