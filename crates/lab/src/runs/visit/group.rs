//! Visits to a server in a group that replicates a zone.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use experiment::settings::ReplicationSettings;
use experiment::{Method, Point, Visit};
use record::Secondary;
use record::request::{Edns, Expect, Query, Workload};

use super::StartedServer;
use crate::adapter::part::{GroupPeer, KEY, ReplicationRole, Signing};
use crate::runs::bench::{LabBench, StartKind};
use crate::runs::session::{Session, Shortfall};
use crate::server::query_stream::Prepared;
use crate::server::replication::material::Material;
use crate::server::replication::{Group, Member, follower_address, queried_address};
use crate::server::{Installed, clear_hosts};
use crate::testbed::cpus::CpuList;
use crate::testbed::{Host, PORT, address_v4, address_v6};

/// Roles of the servers in a cell.
pub(super) struct GroupRoles {
    measured: Member,
    primary: Option<Member>,
    others: Vec<Member>,
}

impl Session<'_> {
    /// Starts the server with its group.
    pub(super) fn start_group<'s>(
        &'s self,
        v: &Visit,
        cast: &'s GroupRoles,
        material: &Material,
        installed: &'s Installed,
    ) -> Result<StartedServer<'s>, Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let (settings, env) = (&point.settings, self.env());
        let dnssec = settings.replication.signed;
        let edns = dnssec.then(|| Edns { udp_size: None, dnssec, options: Vec::new() });
        let workload = Workload::QueryFile {
            path: material.queries.clone(),
            expect: Expect::Answered,
            query: Query { edns, ..Query::plain(false) },
            runs: None,
            probability: None,
            skip_bad: false,
        };
        // Once for all of them: a later start must not end an earlier process.
        clear_hosts(&self.testbed, &[Host::Dut, Host::Auth], &installed.adapter().title)?;
        let sender_cpus = self.sender_cpus(&settings.cpus.updates)?;
        let material = material.clone();
        let mut group = match &cast.primary {
            Some(primary) => Group::start(material, primary, &cast.others, env)?,
            None => Group::alone(material, cast.measured.part.signing),
        };
        group.sender_cpus = sender_cpus;
        let queried = |number| SocketAddr::new(queried_address(number).into(), PORT);
        let mut base =
            self.question_plan(v).request(point, None, self.options.seed, queried(0), None);
        base.workload = workload;
        base.also = (1..settings.replication.instances).map(queried).collect();
        let mut bench = LabBench::new(env, base, None);
        bench.group = Some(group);
        let bench = bench.start(StartKind::Member(&cast.measured), settings.dut.cpu_limit)?;
        let secondaries = cast.primary.as_ref().map_or(Vec::new(), |_| secondaries(cast));
        Ok(StartedServer { conforms: false, secondaries, ..StartedServer::new(bench, installed) })
    }

    /// Returns the cores of the sender of updates; `None` for the cores of the auth host.
    fn sender_cpus(&self, cpus: &[usize]) -> Result<Option<CpuList>, Shortfall> {
        let Some(wanted) = CpuList::new(cpus.iter().copied()) else { return Ok(None) };
        let allowed = self.lab.allowed_cpus();
        if wanted.is_within(allowed) {
            return Ok(Some(wanted));
        }
        Err(Shortfall::Cannot(format!(
            "the sender of updates must run on cores {wanted}, but only {allowed} are allowed here"
        )))
    }

    /// Returns zone, updates and queries; made once for all cells that can share them.
    pub(super) fn material(
        &mut self,
        point: usize,
        stream: Option<&Prepared>,
    ) -> Result<Material, Shortfall> {
        let settings = &self.checked.experiment.points[point].settings;
        let (method, settings) = (settings.method, &settings.replication);
        let in_file = settings.signed && method == Method::SignedUnsigned;
        let made_for = ReplicationSettings {
            delegations: settings.delegations,
            slice: settings.slice,
            updates: settings.updates,
            killed_after: settings.killed_after,
            signed: in_file,
            ..ReplicationSettings::default()
        };
        let key = (made_for, method, self.checked.streams[point].clone());
        if let Some((_, material)) = self.made.iter().find(|(known, _)| *known == key) {
            return Ok(material.clone());
        }
        let dir = self.dir.join(format!("material-{}", self.made.len()));
        let material = Material::make(&key.0, method, stream, &dir)
            .map_err(|e| Shortfall::Failed(e.to_string()))?;
        self.made.push((key, material.clone()));
        Ok(material)
    }

    /// Assigns the roles of the servers at a point; fails if a server does not support its role.
    pub(super) fn cast(
        &mut self,
        point: &Point,
        installed: &Installed,
        material: &Material,
    ) -> Result<GroupRoles, Shortfall> {
        let settings = &point.settings;
        let r = &settings.replication;
        let signing = match (r.signed, &material.signed) {
            (false, _) => Signing::Unsigned,
            (true, Some(_)) => Signing::InFile,
            (true, None) => Signing::ByPrimary,
        };
        let zone_file = material.signed.clone().unwrap_or_else(|| material.zone.clone());
        let zone = material.apex.to_string().trim_end_matches('.').to_owned();
        let variables = settings.variables.iter().map(|(k, v)| (k.clone(), v.0.clone()));
        let variables: BTreeMap<String, String> = variables.collect();
        let measured = |part, zone_file| Member {
            installed: installed.clone(),
            name: installed.adapter().name.clone(),
            host: Host::Dut,
            part,
            zone: zone.clone(),
            zone_file,
            threads: settings.dut.threads,
            variables: variables.clone(),
        };
        let Some(primary) = &r.primary else {
            can_sign(installed, signing)?;
            let part = measured_part(true, signing, &[]);
            return Ok(GroupRoles {
                measured: measured(part, Some(zone_file)),
                primary: None,
                others: Vec::new(),
            });
        };
        let primary = self.companion(primary)?;
        can_sign(&primary, signing)?;
        let beside = r.secondaries.iter().filter(|name| **name != installed.adapter().name);
        let beside = beside.map(|name| self.companion(name)).collect::<Result<Vec<_>, _>>()?;
        for follower in beside.iter().chain([installed]) {
            follows(follower, &primary)?;
        }
        let followers = 0..r.instances + beside.len();
        let peers: Vec<GroupPeer> =
            followers.map(|number| GroupPeer::at(follower_address(number))).collect();
        let at = address_v4(Host::Auth, Host::Dut);
        let follower = |number| part(false, follower_address(number), &[GroupPeer::at(at)]);
        let instances = (1..r.instances).map(|number| {
            let v4 = vec![queried_address(number), follower_address(number)];
            let name = format!("secondary-{number}-{}", installed.adapter().name);
            Member { name, ..measured(ReplicationRole { v4, ..follower(number) }, None) }
        });
        let beside = (r.instances..).zip(beside).map(|(number, installed)| {
            let name = format!("secondary-{number}-{}", installed.adapter().name);
            beside_measured(installed, name, Host::Dut, follower(number), &zone)
        });
        let others = instances.chain(beside).collect();
        let of_primary = ReplicationRole { signing, ..part(true, at, &peers) };
        let name = format!("primary-0-{}", primary.adapter().name);
        let primary = beside_measured(primary, name, Host::Auth, of_primary, &zone);
        Ok(GroupRoles {
            measured: measured(measured_part(false, signing, &[GroupPeer::at(at)]), None),
            primary: Some(Member { zone_file: Some(zone_file), ..primary }),
            others,
        })
    }
}

/// Makes a server beside the server under test, with one thread and without a zone file.
fn beside_measured(
    installed: Installed,
    name: String,
    host: Host,
    part: ReplicationRole,
    zone: &str,
) -> Member {
    Member {
        installed,
        name,
        host,
        part,
        zone: zone.to_owned(),
        zone_file: None,
        threads: Some(1),
        variables: BTreeMap::new(),
    }
}

/// Makes the role of a server at one address.
fn part(primary: bool, address: Ipv4Addr, peers: &[GroupPeer]) -> ReplicationRole {
    ReplicationRole {
        primary,
        signing: Signing::Unsigned,
        v4: vec![address],
        v6: Vec::new(),
        source: address,
        peers: peers.to_vec(),
        key: KEY,
    }
}

/// Makes the role of the server under test: the Tester queries it at its usual addresses.
fn measured_part(primary: bool, signing: Signing, peers: &[GroupPeer]) -> ReplicationRole {
    let usual = address_v4(Host::Dut, Host::Tester);
    let source = if primary { usual } else { follower_address(0) };
    let mut v4 = vec![usual, source];
    v4.dedup();
    let v6 = vec![address_v6(Host::Dut, Host::Tester)];
    ReplicationRole { signing, v4, v6, source, ..part(primary, source, peers) }
}

/// Checks that a server supports this way of signing.
fn can_sign(installed: &Installed, signing: Signing) -> Result<(), Shortfall> {
    let adapter = installed.adapter();
    let table = adapter.replicating().map_err(|e| Shortfall::Cannot(e.to_string()))?;
    if signing == Signing::Unsigned || table.signing.contains(&signing) {
        return Ok(());
    }
    let how = match signing {
        Signing::InFile => "with a zone file that is signed already",
        _ => "as a primary that signs its zone",
    };
    Err(Shortfall::Cannot(format!("the lab cannot run {} {how}", adapter.title)))
}

/// Checks that a server can follow another.
fn follows(follower: &Installed, primary: &Installed) -> Result<(), Shortfall> {
    let table = follower.adapter().replicating().map_err(|e| Shortfall::Cannot(e.to_string()))?;
    match table.cannot_follow.get(&primary.adapter().name) {
        Some(why) => Err(Shortfall::Cannot(why.clone())),
        None => Ok(()),
    }
}

/// Returns the secondaries of a cell, the server under test first, without figures.
fn secondaries(cast: &GroupRoles) -> Vec<Secondary> {
    let followers = std::iter::once(&cast.measured).chain(&cast.others);
    let secondary = |(number, member): (usize, &Member)| Secondary {
        server: member.installed.adapter().name.clone(),
        server_version: member.installed.version().map(str::to_owned),
        address: follower_address(number).to_string(),
        ..Secondary::default()
    };
    (0..).zip(followers).map(secondary).collect()
}
