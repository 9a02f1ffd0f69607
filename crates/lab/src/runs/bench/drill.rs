//! A drill: the Measurer's trial with an attack in its middle, which starts by the same clock.
//!
//! ```text
//!          lead     before         during        after
//! Measurer ├─ ─ ─ ─ ├──────────────┼─────────────┼──────────────┤
//! attacker ├─ ─ ─ ─ ┼ ─ ─ ─ ─ ─ ─ ─├─────────────┤
//!          both are started here   │ each waits for its instant of CLOCK_REALTIME
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use experiment::{BenchError, DrillSpec, Drilled};
use measure::{ClockBound, Nanos, Pacing, StartAt, WaitMode};
use record::request::{Edns, Expect, Names, Query, Workload};
use record::{Attack, AttackKind, AttackRequest, TrialRequest};
use wire::namespace::{BOMB, KEYTRAP, LARGE};

use super::{LabBench, RESERVE, TIME_PER_CONNECTION};
use crate::runs::attack::{Attacker, AttackerCores, ONLY_HERE, is_dut};
use crate::testbed::{PORT, SOURCES_V4, SOURCES_V6};

/// Time from the start of the processes to the start of the load.
const LEAD_TIME: Duration = Duration::from_secs(3);
/// Number of the attacker's first address in the prefix of the tester's clients; the Measurer uses
/// the first numbers.
const FIRST_ADDRESS: u32 = 64 << 8 | 1;
/// Number of addresses of an attacker.
const ADDRESS_COUNT: u32 = 256;
/// UDP payload size that the queries of an amplification accept, and of other floods, in octets.
const LARGE_PAYLOAD: u16 = 4_096;
const USUAL_PAYLOAD: u16 = 1_232;

impl LabBench<'_> {
    /// Runs a trial whose middle part is an attack; returns its phases.
    pub(super) fn attacked(&mut self, spec: &DrillSpec) -> Result<Drilled, BenchError> {
        if self.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        self.check_target()?;
        self.settle()?;
        self.attacks += 1;
        let place = AttackerCores::on(self.attacker_cpus.as_ref(), self.testbed);
        let mut request = self.request(&spec.load)?;
        let connecting = TIME_PER_CONNECTION * request.clients();
        let lead = LEAD_TIME + connecting;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(BenchError::failed)?;
        let begins = Nanos::from(now + lead);
        (request.start_at, request.clock_bound) =
            (Some(StartAt::of_unix(begins)), ClockBound::Unchecked);
        if place.yields {
            // A Measurer that never sleeps would leave no time to the attacker, which shares its
            // core by design.
            (request.sockets.wait, request.sockets.shared_core) = (WaitMode::Sleep, true);
        }
        let begins = StartAt::of_unix(begins + spec.begins);
        let (sending, timeout) = (spec.load.duration, Duration::from(spec.load.timeout));
        let limit = lead + Duration::from(sending) + timeout + RESERVE + connecting;
        self.begins(Some(spec.load.pacing), sending);
        let attack = self.attack(spec, begins, &place)?;
        self.attacker = Some(Attacker::start(attack, &place, self.env())?);
        let measured = self.measure(&request, sending, limit);
        let attacker = self.attacker.take();
        let (result, mut spent) = measured?;
        for series in &mut spent.series {
            // The sampler started with the processes.
            series.samples.iter_mut().for_each(|(at, _)| *at -= lead.as_secs_f64());
            series.samples.retain(|(at, _)| *at >= 0.0);
        }
        let outcome =
            attacker.map_or_else(|| Err(BenchError::failed("no attacker")), Attacker::outcome)?;
        let mut result = self.conclude(result, spent);
        result.trial.conditions.attack = Some(self.described(spec, &place));
        result.facts.doubts.extend(spec.unanswered_before(&result.trial));
        let trial = result.with_verdict();
        self.overloaded = trial.bad() > 0 || trial.void.is_void();
        Ok(Drilled { trial, attack: outcome })
    }

    /// Checks that the server is in the lab: no other host is ever attacked.
    fn check_target(&self) -> Result<(), BenchError> {
        let target = self.base.target.ip();
        if self.remote.outside.is_none() && self.server.is_some() && is_dut(target) {
            return Ok(());
        }
        Err(BenchError::failed(format!("{target} is not attacked: {ONLY_HERE}")))
    }

    /// Returns the namespace's names that the load queries.
    fn drilled_names(&self) -> Result<&Names, BenchError> {
        self.names().ok_or_else(|| BenchError::failed("a drill queries the names of a namespace"))
    }

    /// Returns the request for a flood of queries, over UDP for any transport of the load.
    fn flood(
        &self,
        spec: &DrillSpec,
        begins: StartAt,
        place: &AttackerCores,
    ) -> Result<TrialRequest, BenchError> {
        let names = self.drilled_names()?;
        let large = spec.attack == AttackKind::Amplification;
        let udp_size = Some(if large { LARGE_PAYLOAD } else { USUAL_PAYLOAD });
        let edns = Some(Edns { udp_size, dnssec: false, options: Vec::new() });
        let query = Query { edns, ..names.query.clone() };
        let (expect, qtype) = (Expect::Answered, names.qtype.clone());
        let workload = match spec.attack {
            AttackKind::Amplification => {
                let (name, qtype) = (below(LARGE, &names.zone), "TXT".to_owned());
                Workload::Name { name, qtype, expect, query }
            }
            AttackKind::Delegations => {
                Workload::RandomSubdomain { zone: below(BOMB, &names.zone), qtype, expect, query }
            }
            AttackKind::Signatures => {
                let (zone, qtype) = (below(KEYTRAP, &names.zone), "A".to_owned());
                Workload::RandomSubdomain { zone, qtype, expect, query }
            }
            _ => Workload::RandomSubdomain { zone: names.zone.clone(), qtype, expect, query },
        };
        let target = SocketAddr::new(self.base.target.ip(), PORT);
        let mut request = TrialRequest::new(target, workload, Pacing::Constant { rate: spec.rate });
        request.duration = spec.lasts;
        (request.start_at, request.clock_bound) = (Some(begins), ClockBound::Unchecked);
        // A name that an earlier attack queried would be in the cache.
        request.seed = self.base.seed.wrapping_add(self.attacks);
        request.sockets.cpus = place.cpus.cpus().to_vec();
        request.sockets.wait = WaitMode::Sleep;
        request.sockets.gro = false;
        let (first, length) = attackers(target.is_ipv4());
        request.sockets.source = format!("{first}/{length}").parse().ok();
        Ok(request)
    }

    /// Returns the request for an attack: on the port of the load if it attacks handshakes.
    fn attack(
        &self,
        spec: &DrillSpec,
        begins: StartAt,
        place: &AttackerCores,
    ) -> Result<AttackRequest, BenchError> {
        let flood = spec.attack.is_flood().then(|| self.flood(spec, begins, place)).transpose()?;
        let handshakes = flood.is_none()
            && !matches!(spec.attack, AttackKind::Idle | AttackKind::Slow | AttackKind::Unread);
        let mut target = self.base.target;
        if !handshakes {
            target.set_port(PORT);
        }
        Ok(AttackRequest {
            kind: spec.attack,
            target,
            flood: flood.map(Box::new),
            from: attackers(target.is_ipv4()).0,
            addresses: ADDRESS_COUNT,
            connections: spec.connections,
            rate: spec.rate.get().round() as u32,
            name: below(LARGE, &self.drilled_names()?.zone),
            start_at: begins,
            duration: spec.lasts,
            yields: place.yields,
        })
    }

    /// Returns an attack for the record.
    fn described(&self, spec: &DrillSpec, place: &AttackerCores) -> Attack {
        Attack {
            kind: spec.attack,
            rate: spec.rate.get(),
            connections: if spec.attack.connects() { spec.connections } else { 0 },
            begins_s: spec.begins.as_secs_f64(),
            lasts_s: spec.lasts.as_secs_f64(),
            from: attackers(self.base.target.is_ipv4()).0.to_string(),
            cpus: place.cpus.cpus().to_vec(),
            yields: place.yields,
        }
    }
}

/// Returns the first address of an attacker, and the length of the prefix that it is in.
fn attackers(v4: bool) -> (IpAddr, u8) {
    if v4 {
        let (network, length) = SOURCES_V4;
        (Ipv4Addr::from(u32::from(network) + FIRST_ADDRESS).into(), length)
    } else {
        let (network, length) = SOURCES_V6;
        // Beyond every number that fits the IPv4 prefix, so that the Measurer's clients do not have
        // it.
        (Ipv6Addr::from(u128::from(network) + (u128::from(FIRST_ADDRESS) << 16)).into(), length)
    }
}

/// Returns the name of a label below a zone.
fn below(label: &str, zone: &str) -> String {
    format!("{label}.{zone}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attackers_have_addresses_of_their_own() {
        assert_eq!(attackers(true).0.to_string(), "10.9.192.1");
        assert_eq!(attackers(false).0.to_string(), "fd00:9:ffff::4001:0");
        let (last, network) = (FIRST_ADDRESS + ADDRESS_COUNT, 1 << (32 - u32::from(SOURCES_V4.1)));
        assert!(last < network, "all are within the prefix");
        assert_eq!(below(LARGE, "dns64perf.test."), "large.dns64perf.test.");
    }
}
