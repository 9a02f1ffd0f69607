//! Checks of settings that can be read but cannot be run: the key, and what would be accepted.

use measure::{Nanos, Transport, UpdateRate};

use crate::search::Rule;
use crate::settings::{Method, ReplicationSettings, Role, Settings, ZoneLoadSettings};

/// Largest number of lock-step experiments, of repeats and of threads; more is a typing error.
const MAX_EXPERIMENTS: u32 = 1_000_000;
const MAX_REPEATS: u32 = 10_000;
const MAX_THREADS: usize = 4_096;
/// Largest number of lanes: they share the 256 queries of one dns64perf experiment.
const MAX_LANES: u32 = 256;
/// Largest number of delegations of a zone, of updates of a stream, and of secondaries of a primary.
const MAX_DELEGATIONS: u64 = 200_000_000;
const MAX_UPDATES: u64 = 1_000_000;
const MAX_SECONDARIES: usize = 8;

/// An invalid setting: its key with dots, and what is wrong with its value.
type Invalid = (&'static str, String);

/// Checks the settings of one point.
///
/// # Errors
/// With the first value that cannot be accepted.
pub(crate) fn validate(s: &Settings) -> Result<(), Invalid> {
    let checks = [common, workload, search, methods, replication, machine, cpus];
    checks.iter().try_for_each(|check| check(s))
}

/// Returns the error for `key` unless `good`.
fn must(good: bool, key: &'static str, why: &str) -> Result<(), Invalid> {
    if good { Ok(()) } else { Err((key, why.to_owned())) }
}

fn share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

fn common(s: &Settings) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    must(
        !s.name.is_empty() && s.name.len() <= 64 && s.name.chars().all(plain),
        "name",
        "`name` is made of lower case letters, digits and dashes, 64 at most",
    )?;
    must(!s.servers.is_empty(), "servers", "`servers` names no server")?;
    for (i, server) in s.servers.iter().enumerate() {
        if s.servers[..i].contains(server) {
            return Err(("servers", format!("`servers` names {server} twice")));
        }
    }
    for (name, custom) in &s.custom {
        if let Some(why) = custom.invalid() {
            return Err(("custom", format!("{name}: {why}")));
        }
        let named = s.servers.contains(name);
        let named = named || s.servers.iter().any(|server| server.ends_with(&format!("+{name}")));
        if !named {
            return Err(("custom", format!("`servers` does not name {name}")));
        }
    }
    must(
        (1..=MAX_REPEATS).contains(&s.repeats),
        "repeats",
        "`repeats` is a number from 1 to 10000",
    )?;
    must(s.budget != Some(Nanos::ZERO), "budget", "`budget` must be longer than 0")?;
    let variable = |name: &str| {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(word)
    };
    must(
        s.variables.keys().all(|name| variable(name)),
        "variables",
        "variables are named by lower case letters, digits and `_`",
    )
}

fn workload(s: &Settings) -> Result<(), Invalid> {
    let w = &s.workload;
    must(share(w.aaaa_share), "workload.aaaa-share", "`aaaa-share` is a share from 0 to 1")?;
    must(share(w.repeat_share), "workload.repeat-share", "`repeat-share` is a share from 0 to 1")?;
    must(
        (1..=1 << 24).contains(&w.repeat_names),
        "workload.repeat-names",
        "`repeat-names` is a number from 1 to 16777216",
    )?;
    must(
        s.role != Role::Authoritative || w.aaaa_share == 0.0,
        "workload.aaaa-share",
        "`aaaa-share` is about the AuthDNS behind a DNS64 server; this experiment's role is authoritative",
    )
}

fn search(s: &Settings) -> Result<(), Invalid> {
    let Some(search) = &s.search else {
        return must(
            s.method != Method::Search,
            "method",
            "the method `search` needs a table `[search]` with goal, start, max, resolution and duration",
        );
    };
    must(
        (0.0001..=0.5).contains(&search.resolution),
        "search.resolution",
        "`resolution` is a share from 0.0001 to 0.5",
    )?;
    must(
        search.also.is_empty() || search.rule == Rule::Mlrsearch,
        "search.also",
        "`also` needs the rule `mlrsearch`: the others seek one goal",
    )?;
    must(search.min.get() <= search.max.get(), "search.max", "`max` is below `min`")?;
    must(search.start.get() <= search.max.get(), "search.max", "`max` is below `start`")?;
    must(search.duration != Nanos::ZERO, "search.duration", "`duration` must be longer than 0")?;
    must(search.timeout != Nanos::ZERO, "search.timeout", "`timeout` must be longer than 0")
}

fn methods(s: &Settings) -> Result<(), Invalid> {
    let experiments = |n: u32| (1..=MAX_EXPERIMENTS).contains(&n);
    let lanes = s.lockstep.lanes;
    must(
        lanes.is_power_of_two() && lanes <= MAX_LANES,
        "lockstep.lanes",
        "`lanes` is a power of two from 1 to 256, since 256 queries are shared out evenly",
    )?;
    must(
        experiments(s.lockstep.experiments),
        "lockstep.experiments",
        "`experiments` is a number from 1 to 1000000",
    )?;
    must(
        experiments(s.generators.experiments),
        "generators.experiments",
        "`experiments` is a number from 1 to 1000000",
    )?;
    let longer = "must be longer than 0";
    must(s.lockstep.timeout != Nanos::ZERO, "lockstep.timeout", longer)?;
    must(s.closed.duration != Nanos::ZERO, "closed.duration", longer)?;
    must(s.closed.timeout != Nanos::ZERO, "closed.timeout", longer)?;
    must(
        (1..=1 << 20).contains(&s.closed.window),
        "closed.window",
        "`window` is a number from 1 to 1048576",
    )?;
    must(s.zone_load.later <= 100, "zone-load.later", "`later` is a number from 0 to 100")?;
    match &s.load {
        Some(load) => {
            must(!load.rates.is_empty(), "load.rates", "`rates` has no rate")?;
            must(load.rates.len() <= 1_000, "load.rates", "`rates` has 1000 rates at most")?;
            must(load.duration != Nanos::ZERO, "load.duration", longer)?;
            must(load.timeout != Nanos::ZERO, "load.timeout", longer)?;
        }
        None => must(
            s.method != Method::Load,
            "method",
            "the method `load` needs a table `[load]` with rates and duration",
        )?,
    }
    must(
        s.method != Method::ZoneLoad || s.role == Role::Authoritative,
        "method",
        "the method `zone-load` is about authoritative servers; this experiment's role is dns64",
    )?;
    must(
        s.method != Method::Generators || s.role == Role::Dns64,
        "method",
        "the method `generators` is about a DNS64 server; this experiment's role is authoritative",
    )
}

fn replication(s: &Settings) -> Result<(), Invalid> {
    let (r, method) = (&s.replication, s.method);
    if !method.replicates() {
        return must(
            *r == ReplicationSettings::default(),
            "replication",
            "`[replication]` is about the methods `update-rate`, `query-under-update` and `signed-unsigned`",
        );
    }
    must(
        s.role == Role::Authoritative,
        "method",
        "this method is about authoritative servers: the role is `authoritative`",
    )?;
    must(
        matches!(s.tester.transport, Transport::Udp | Transport::Tcp),
        "tester.transport",
        "servers that replicate are asked over udp or tcp",
    )?;
    must(s.zone_load == ZoneLoadSettings::default(), "zone-load", "the method is not `zone-load`")?;
    let under_update = method == Method::QueryUnderUpdate;
    must(
        under_update <= r.primary.is_some(),
        "method",
        "the method `query-under-update` needs a `replication.primary`: the server that takes the updates",
    )?;
    must(
        method != Method::UpdateRate || r.primary.is_none(),
        "replication.primary",
        "the servers of the method `update-rate` are primaries themselves: there is no other `primary`",
    )?;
    must(
        r.secondaries.is_empty() || r.primary.is_some(),
        "replication.secondaries",
        "`secondaries` follow a `primary`, and there is none",
    )?;
    let twice = |(i, name): (usize, &String)| r.secondaries[..i].contains(name);
    must(
        r.secondaries.len() < MAX_SECONDARIES && !r.secondaries.iter().enumerate().any(twice),
        "replication.secondaries",
        "`secondaries` has each server once, and 7 at most beside the one that is measured",
    )?;
    must(
        under_update || r.update_rate == UpdateRate::None,
        "replication.update-rate",
        "`update-rate` is about the method `query-under-update`",
    )?;
    must(
        (100..=MAX_DELEGATIONS).contains(&r.delegations),
        "replication.delegations",
        "`delegations` is a number from 100 to 200000000",
    )?;
    must(
        (1..=MAX_UPDATES).contains(&r.updates),
        "replication.updates",
        "`updates` is a number from 1 to 1000000",
    )?;
    must(
        (1..=MAX_UPDATES).contains(&r.killed_after),
        "replication.killed-after",
        "`killed-after` is a number from 1 to 1000000",
    )
}

fn machine(s: &Settings) -> Result<(), Invalid> {
    let some = |n: Option<usize>| n.is_none_or(|n| (1..=MAX_THREADS).contains(&n));
    must(some(s.dut.cores), "dut.cores", "`cores` is a number from 1 to 4096")?;
    must(some(s.dut.threads), "dut.threads", "`threads` is a number from 1 to 4096")?;
    must(
        s.dut.cpu_limit.is_none_or(|limit| (0.01..=4096.0).contains(&limit)),
        "dut.cpu-limit",
        "`cpu-limit` is a number of cores from 0.01 to 4096, such as 0.5",
    )?;
    must(s.tester.ports != Some(0), "tester.ports", "`ports` is a number from 1 to 65535")?;
    must(
        s.tester.queries_per_connection != Some(0),
        "tester.queries-per-connection",
        "`queries-per-connection` is at least 1",
    )?;
    must(s.tester.clients != Some(0), "tester.clients", "`clients` is at least 1")?;
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    must(
        s.host.sysctl.keys().all(|key| key.chars().all(word) && !key.contains("..")),
        "host.sysctl",
        "settings of the kernel are named as sysctl(8) does, such as net.ipv4.udp_early_demux",
    )?;
    must(
        s.host.governor.chars().all(|c| c.is_ascii_lowercase()) && !s.host.governor.is_empty(),
        "host.governor",
        "`governor` is `unchanged` or a governor of the kernel, such as performance",
    )
}

fn cpus(s: &Settings) -> Result<(), Invalid> {
    let lists =
        [("cpus.tester", &s.cpus.tester), ("cpus.auth", &s.cpus.auth), ("cpus.dut", &s.cpus.dut)];
    for (key, list) in lists {
        must(!list.is_empty(), key, "`cpus` gives each of tester, auth and dut a core")?;
    }
    let overlap = s.cpus.dut.iter().any(|c| s.cpus.tester.contains(c) || s.cpus.auth.contains(c));
    must(
        !overlap,
        "cpus.dut",
        "`cpus` gives the server a core of the Tester's: neither would be measured alone",
    )
}
