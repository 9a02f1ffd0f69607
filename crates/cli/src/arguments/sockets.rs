//! Sockets and threads of the Measurer.

use anyhow::bail;
use clap::Args;
use lab::CpuList;
use measure::{Nanos, WaitMode};
use record::request::{Engine, Gso, Sockets};

use crate::arguments::address::SourceArg;
use crate::arguments::choice::{Choice, choice};

/// How queries leave and replies come in.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sockets and threads")]
pub(crate) struct SocketArgs {
    /// Cores of the Measurer, one worker on each (0, 0,2 or 0-3) [default: one worker on any core]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Source ports over all workers [default: as many as rate and timeout need]
    #[arg(long, value_name = "N")]
    pub(crate) ports: Option<u16>,
    /// Source ports of each worker instead, as dns64perf++ has them
    #[arg(long, value_name = "N", conflicts_with = "ports", value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub(crate) ports_per_thread: Option<u16>,
    /// Source address, or a prefix whose addresses are used in turn
    #[arg(long, value_name = "PREFIX")]
    pub(crate) source: Option<SourceArg>,
    /// First source port over UDP; further ones follow it [default: free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) source_port: Option<u16>,
    /// How workers wait: spin has the best times and takes a whole core, yield and sleep suit a shared core
    #[arg(long, value_parser = choice(&WAIT), value_name = "MODE", default_value = "auto")]
    pub(crate) wait_mode: WaitMode,
    /// Longest time that a due query is held back to leave together with others (microseconds)
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub(crate) max_burst_us: u64,
    /// Send queries that leave together as one segmented message (UDP_SEGMENT), which a server on this host receives as one, unlike real clients' queries
    #[arg(long, value_parser = choice(&GSO), value_name = "WHEN", default_value = "off")]
    pub(crate) gso: Gso,
    /// Receive each datagram by itself (no UDP_GRO)
    #[arg(long)]
    pub(crate) no_gro: bool,
    /// Use the time after receiving instead of the kernel's receive timestamps
    #[arg(long)]
    pub(crate) no_timestamps: bool,
    /// Size of the receive buffer and of the send buffer of each socket (bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub(crate) buffer: usize,
    /// The AuthDNS shares the Measurer's core on purpose: its CPU time does not starve the Measurer
    #[arg(long)]
    pub(crate) shared_core: bool,
}

/// Whether queries leave as segmented messages.
const GSO: [Choice<Gso>; 2] = [
    (Gso::On.word(), "Always", Gso::On),
    (Gso::Off.word(), "Never join queries: each query is a packet of its own", Gso::Off),
];

pub(crate) const WAIT: [Choice<WaitMode>; 4] = [
    (WaitMode::Spin.word(), "Never sleep", WaitMode::Spin),
    (WaitMode::Yield.word(), "Never sleep, but yield the core to others", WaitMode::Yield),
    (WaitMode::Sleep.word(), "Always sleep", WaitMode::Sleep),
    (
        WaitMode::Auto.word(),
        "Spin for 60 us after work and before a due time, else sleep; in closed loops on the server's host sleep",
        WaitMode::Auto,
    ),
];

impl SocketArgs {
    /// Refuses cores that this process does not have.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let allowed = CpuList::allowed();
        let missing = |cpu: &&usize| !allowed.cpus().contains(cpu);
        match self.cpus.as_ref().and_then(|list| list.cpus().iter().find(missing)) {
            Some(cpu) => bail!("--cpus: there is no core {cpu} for this process: it has {allowed}"),
            None => Ok(()),
        }
    }

    /// Refuses options that only sockets of UDP have, for another engine.
    pub(crate) fn check_engine(&self, engine: &Engine) -> anyhow::Result<()> {
        let all = [
            (self.ports.is_some(), "--ports"),
            (self.ports_per_thread.is_some(), "--ports-per-thread"),
            (self.source_port.is_some(), "--source-port"),
            (self.gso == Gso::On, "--gso on"),
            (self.no_gro, "--no-gro"),
            (self.no_timestamps, "--no-timestamps"),
        ];
        match (engine, all.into_iter().find_map(|(given, option)| given.then_some(option))) {
            (Engine::Streams(_), Some(option)) => {
                bail!("{option} applies to UDP: for connections use --clients")
            }
            _ => Ok(()),
        }
    }

    /// Returns the sockets and threads of a request.
    pub(crate) fn request(&self) -> Sockets {
        Sockets {
            cpus: self.cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec()),
            count: self.ports,
            per_worker: self.ports_per_thread,
            source: self.source.map(|source| source.net),
            first_port: self.source_port,
            wait: self.wait_mode,
            max_burst: Nanos::from_micros(self.max_burst_us),
            gso: self.gso,
            gro: !self.no_gro,
            timestamps: !self.no_timestamps,
            buffer: self.buffer,
            shared_core: self.shared_core,
        }
    }
}
