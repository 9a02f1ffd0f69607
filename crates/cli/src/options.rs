//! From what was written to what is meant: one checked struct for each thing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use engine::WaitMode;
use load::Networks;
use load::workload::file::{QueryFile, QueryOptions};
use load::workload::generated::{GeneratedSpec, GeneratedWorkload};
use load::workload::mix::Mix;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec, NamespaceWorkload};
use measure::{Nanos, Pacing, Qps};
use udp::UdpOptions;
use wire::{Edns, Expect, Name, Namespace, Qtype};

use crate::args::{ExpectArg, GsoArg, LoadArgs, PacingArg, SocketArgs, WaitArg, WorkloadArgs};
use crate::trace_replay::Replay;

/// A server, perhaps without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    ip: IpAddr,
    port: Option<u16>,
}

impl Target {
    /// With this port if it has none.
    pub(crate) fn or_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1`, `[2001:db8::1]:53`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let whole = |a: SocketAddr| Target { ip: a.ip(), port: Some(a.port()) };
        text.parse()
            .map(whole)
            .or_else(|_| bare.parse().map(|ip| Target { ip, port: None }))
            .map_err(|_| {
                format!("`{text}` is not an address such as 192.0.2.1:53 or [2001:db8::1]:53 (names are not looked up)")
            })
    }
}

/// Reads a [`Target`] of DNS over UDP.
pub(crate) fn parse_target(text: &str) -> Result<SocketAddr, String> {
    text.parse().map(|target: Target| target.or_port(53))
}

/// A source address, or a prefix of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    first: IpAddr,
    /// How many addresses there are, as far as sockets could use them.
    count: u32,
    /// The length of the prefix, bits.
    len: u32,
}

impl Source {
    /// Up to `want` addresses.
    pub(crate) fn addresses(&self, want: usize) -> Vec<IpAddr> {
        let count = (self.count as usize).min(want.max(1));
        let nth = |i: usize| match self.first {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4).wrapping_add(i as u32))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6).wrapping_add(i as u128))),
        };
        (0..count).map(nth).collect()
    }

    /// The networks of it, /24 or /56.
    pub(crate) fn networks(&self) -> Networks {
        let bits: u8 = if self.first.is_ipv4() { 24 } else { 56 };
        let count = 1 << u32::from(bits).saturating_sub(self.len).min(16);
        Networks { first: self.first, count, bits }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error =
            || format!("`{text}` is not a source such as 10.9.0.1, 10.9.0.0/24 or fd00::/64");
        let (address, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let first: IpAddr = address.parse().map_err(|_| error())?;
        let bits = if first.is_ipv4() { 32 } else { 128 };
        let len: u32 = len.map_or(Ok(bits), str::parse).map_err(|_| error())?;
        let host_bits = bits.checked_sub(len).ok_or_else(error)?;
        Ok(Source { first, count: 1 << host_bits.min(16), len })
    }
}

impl From<WaitArg> for WaitMode {
    fn from(arg: WaitArg) -> Self {
        match arg {
            WaitArg::Spin => WaitMode::Spin,
            WaitArg::Yield => WaitMode::Yield,
            WaitArg::Sleep => WaitMode::Sleep,
            WaitArg::Auto => WaitMode::Auto,
        }
    }
}

/// Up to this rate a worker sends each query by itself: a third of a core of system calls.
const PLAIN_RATE: f64 = 150_000.0;

impl SocketArgs {
    /// What is asked of the sockets of a load with this pacing.
    ///
    /// A server on the same host receives a segmented message as one, which costs it less than real
    /// clients do: below the rate that needs it each query leaves by itself.
    pub(crate) fn udp(&self, pacing: Pacing) -> UdpOptions {
        let needed = match pacing {
            Pacing::LockStep { .. } => 0.0,
            _ => pacing.peak_rate().map_or(f64::INFINITY, Qps::get),
        };
        let gso = match self.gso {
            GsoArg::On => true,
            GsoArg::Off => false,
            GsoArg::Auto => needed / self.workers().len() as f64 > PLAIN_RATE,
        };
        UdpOptions { gso, gro: !self.no_gro, timestamps: !self.no_timestamps, buffer: self.buffer }
    }

    /// The workers' cores; one `None` for one worker that may run anywhere.
    pub(crate) fn workers(&self) -> Vec<Option<usize>> {
        self.cpus
            .as_ref()
            .map_or(vec![None], |list| list.cpus().iter().copied().map(Some).collect())
    }
}

/// Where queries come from: what each worker's workload is made of.
#[derive(Clone, Debug)]
pub(crate) enum WorkloadPlan {
    /// Names of an IPv4 prefix.
    Namespace(NamespaceSpec),
    /// The same, but a share of the queries repeats names.
    Repeating(NamespaceSpec, Mix),
    /// A query file.
    File(QueryFile, QueryOptions, String),
    /// Made up as they go.
    Generated(GeneratedSpec, Qtype, QueryOptions, u64),
    /// A capture.
    Replay(Replay),
}

impl WorkloadPlan {
    /// Makes sense of the arguments; compiles the query file.
    pub(crate) fn new(args: &WorkloadArgs) -> anyhow::Result<Self> {
        let edns = edns(args)?;
        let recursion_desired = !args.no_recursion;
        let expect = args.expect.map(expectation);
        if args.expect_pref64.is_some()
            && (args.queries.is_some()
                || args.name.is_some()
                || args.random_subdomain.is_some()
                || args.mix.is_some())
        {
            bail!("--expect-pref64 needs names that tell their addresses: use it with --namespace");
        }
        let options = QueryOptions {
            expect: expect.unwrap_or(Expect::Answered),
            recursion_desired,
            edns: edns.clone(),
        };
        let generated = |spec| {
            Ok(WorkloadPlan::Generated(
                spec,
                args.qtype.unwrap_or(Qtype::AAAA),
                options.clone(),
                args.seed,
            ))
        };
        if let Some(path) = &args.queries {
            if args.qtype.is_some() {
                bail!("--type does not go with --queries: the file says the type of each query");
            }
            let file = QueryFile::compile(path)?;
            return Ok(WorkloadPlan::File(file, options, path.display().to_string()));
        }
        if let Some(name) = &args.name {
            return generated(GeneratedSpec::Single { name: *name });
        }
        if let Some(zone) = &args.random_subdomain {
            return generated(GeneratedSpec::RandomSubdomain { zone: *zone });
        }
        if let Some(zone) = &args.mix {
            for (what, share) in
                [("--mix-repeats", args.mix_repeats), ("--mix-missing", args.mix_missing)]
            {
                if !(0.0..=1.0).contains(&share) {
                    bail!("{what} {share}: a share is a number from 0 to 1");
                }
            }
            return generated(GeneratedSpec::Mix {
                zone: *zone,
                names: args.mix_names,
                exponent: args.mix_exponent,
                repeats: args.mix_repeats,
                missing: args.mix_missing,
            });
        }
        let spec = Self::namespace(args, edns, expect)?;
        if args.repeat_share == 0.0 {
            return Ok(WorkloadPlan::Namespace(spec));
        }
        let mix = Mix {
            popular: args.repeat_names,
            exponent: 0.0,
            repeats: args.repeat_share,
            missing: 0.0,
        };
        NamespaceWorkload::new(spec.clone(), 0, 1)?
            .with_mix(mix)
            .context("--repeat-share and --repeat-names")?;
        Ok(WorkloadPlan::Repeating(spec, mix))
    }

    fn namespace(
        args: &WorkloadArgs,
        edns: Option<Edns>,
        expect: Option<Expect>,
    ) -> anyhow::Result<NamespaceSpec> {
        let prefix = args.namespace.unwrap_or_else(|| "10.0.0.0/8".parse().expect("a prefix"));
        let namespace =
            Namespace::new(prefix, args.zone).with_context(|| format!("--zone {}", args.zone))?;
        let qtype = args.qtype.unwrap_or(Qtype::AAAA);
        let expect = match (args.expect_pref64, expect, qtype) {
            (Some(pref64), _, Qtype::AAAA) => NamespaceExpect::Embedded(pref64),
            (Some(_), _, other) => {
                bail!("--expect-pref64 is about AAAA records, and --type is {other}")
            }
            (None, Some(expect), _) => NamespaceExpect::Same(expect),
            (None, None, Qtype::A) => NamespaceExpect::Address,
            (None, None, _) => NamespaceExpect::Same(Expect::NoError),
        };
        let names = args.names.unwrap_or_else(|| namespace.size().saturating_sub(args.first_name));
        let spec = NamespaceSpec {
            namespace,
            qtype,
            expect,
            first: args.first_name,
            names,
            reuse: args.reuse_names,
            sequential: false,
            seed: args.seed,
            recursion_desired: !args.no_recursion,
            edns,
        };
        // Says now what is wrong with the range, not when the workers start.
        NamespaceWorkload::new(spec.clone(), 0, 1)?;
        Ok(spec)
    }

    /// The workload of one worker.
    ///
    /// # Errors
    /// When there is none: a replay is a role of its own, and says itself when its queries are due.
    pub(crate) fn worker(
        &self,
        worker: u32,
        workers: u32,
    ) -> anyhow::Result<Box<dyn load::Workload>> {
        Ok(match self {
            WorkloadPlan::Repeating(spec, mix) => {
                Box::new(NamespaceWorkload::new(spec.clone(), worker, workers)?.with_mix(*mix)?)
            }
            WorkloadPlan::Namespace(spec) => {
                Box::new(NamespaceWorkload::new(spec.clone(), worker, workers)?)
            }
            WorkloadPlan::File(file, options, _) => {
                Box::new(file.workload(worker, workers, options.clone()))
            }
            WorkloadPlan::Generated(spec, qtype, options, seed) => {
                Box::new(GeneratedWorkload::new(
                    spec.clone(),
                    *qtype,
                    options.clone(),
                    *seed,
                    worker,
                    workers,
                )?)
            }
            WorkloadPlan::Replay(_) => bail!("a replay goes with UDP and its own pace only"),
        })
    }

    /// Whether there are names for `planned` queries.
    ///
    /// # Errors
    /// Says how many there are, and what to do.
    pub(crate) fn check_names(&self, planned: u64) -> anyhow::Result<()> {
        match self {
            WorkloadPlan::Namespace(spec) | WorkloadPlan::Repeating(spec, _) => {
                spec.holds(planned).map_err(|e| anyhow!("{e} (--reuse-names)"))
            }
            _ => Ok(()),
        }
    }

    /// In words, for the result's conditions.
    pub(crate) fn describe(&self) -> String {
        let zone = |name: &Name| name.to_string();
        match self {
            WorkloadPlan::Repeating(s, mix) => format!(
                "{}; {:.0} % of the queries repeat one of {} names",
                WorkloadPlan::Namespace(s.clone()).describe(),
                mix.repeats * 100.0,
                mix.popular
            ),
            WorkloadPlan::Namespace(s) => {
                format!(
                    "namespace {} under {}, type {}, {} names from {}",
                    s.namespace.prefix(),
                    s.namespace.zone(),
                    s.qtype,
                    s.names,
                    s.first
                )
            }
            WorkloadPlan::Replay(replay) => replay.describe(),
            WorkloadPlan::File(file, _, path) => format!("{} queries of {path}", file.queries()),
            WorkloadPlan::Generated(GeneratedSpec::Single { name }, qtype, ..) => {
                format!("{} {qtype} each time", zone(name))
            }
            WorkloadPlan::Generated(GeneratedSpec::RandomSubdomain { zone: z }, qtype, ..) => {
                format!("random names below {}, type {qtype}", zone(z))
            }
            WorkloadPlan::Generated(
                GeneratedSpec::Mix { zone: z, names, exponent, repeats, missing },
                qtype,
                ..,
            ) => {
                format!(
                    "Zipf mix of {names} names of {}, exponent {exponent}, repeats {repeats}, missing {missing}, type {qtype}",
                    zone(z)
                )
            }
        }
    }
}

/// What the EDNS arguments ask for.
fn edns(args: &WorkloadArgs) -> anyhow::Result<Option<Edns>> {
    if args.edns.is_none() && !args.dnssec && args.edns_option.is_empty() {
        return Ok(None);
    }
    let mut edns = Edns { dnssec_ok: args.dnssec, ..Edns::default() };
    if let Some(size) = args.edns {
        edns.udp_size = size;
    }
    for option in &args.edns_option {
        edns.add_option(option).with_context(|| format!("--edns-option {option}"))?;
    }
    // A query is composed in a bounded place: header, a name, type and class, the OPT record.
    let room = load::workload::MAX_QUERY - wire::message::HEADER - wire::name::MAX_NAME - 4;
    let len = edns.to_opt().len();
    if len > room {
        return Err(anyhow!("the EDNS options take {len} bytes, there is room for {room}"));
    }
    Ok(Some(edns))
}

fn expectation(arg: ExpectArg) -> Expect {
    match arg {
        ExpectArg::Answered => Expect::Answered,
        ExpectArg::Noerror => Expect::NoError,
        ExpectArg::Aaaa => Expect::AnyAaaa,
        ExpectArg::Nodata => Expect::NoData,
        ExpectArg::Nxdomain => Expect::NxDomain,
    }
}

/// The pacing that the arguments mean (lock-step: with the first number of threads).
pub(crate) fn pacing(args: &LoadArgs) -> anyhow::Result<Pacing> {
    if args.duration == Nanos::ZERO || args.timeout == Nanos::ZERO {
        bail!("--duration and --timeout are longer than nothing");
    }
    let needs_rate = matches!(args.pacing, PacingArg::Constant | PacingArg::Poisson);
    if args.rate.is_some() && !needs_rate {
        bail!(
            "--rate goes with constant and poisson pacing; a ramp has --from and --to, a window --window"
        );
    }
    if (args.from.is_some() || args.to.is_some()) && args.pacing != PacingArg::Ramp {
        bail!("--from and --to go with --pacing ramp");
    }
    let rate = args.rate.unwrap_or_else(|| "1k".parse().expect("a rate"));
    Ok(match args.pacing {
        PacingArg::Constant => Pacing::Constant { rate },
        PacingArg::Poisson => Pacing::Poisson { rate },
        PacingArg::Ramp => match (args.from, args.to) {
            (Some(from), Some(to)) => Pacing::Ramp { from, to },
            _ => bail!("a ramp needs --from and --to"),
        },
        PacingArg::Window if args.window == 0 => {
            bail!("--window 0: at least one query is outstanding")
        }
        PacingArg::Window => Pacing::Window { outstanding: args.window },
        PacingArg::Lockstep => {
            Pacing::LockStep { threads: args.threads[0], experiments: args.experiments }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5300", "192.0.2.1:5300"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("[2001:db8::1]:5300", "[2001:db8::1]:5300"),
        ] {
            assert_eq!(parse_target(text), Ok(address.parse().expect(address)));
        }
        assert!(parse_target("localhost").is_err());
    }

    #[test]
    fn sources() {
        let addresses = |text: &str, want| text.parse::<Source>().expect(text).addresses(want);
        assert_eq!(addresses("10.9.0.1", 5), ["10.9.0.1".parse::<IpAddr>().expect("an address")]);
        assert_eq!(addresses("10.9.0.0/24", 300).len(), 256);
        assert_eq!(addresses("fd00::/64", 3)[2], "fd00::2".parse::<IpAddr>().expect("an address"));
        for bad in ["x", "10.9.0.0/33", "10.9.0.0/x"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
