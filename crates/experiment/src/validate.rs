//! Checks of settings that can be read but cannot be run: the key, and an accepted value.

mod answers;

use std::fmt::Display;
use std::ops::RangeInclusive;

use measure::{Nanos, OpenPacing, Path, Transport, UpdateRate};
use record::{AttackKind, EngineChoice};

use crate::search::{RESOLUTION, RuleName};
use crate::settings::{
    Family, MAX_SECONDARIES, Method, ReplicationSettings, Role, Settings, ZoneLoadSettings,
};

/// Bounds of the settings of the same names; a number outside counts as a typing error.
const REPEATS: RangeInclusive<u32> = 1..=10_000;
const EXPERIMENTS: RangeInclusive<u32> = 1..=1_000_000;
const GENERATOR_PROCESSES: RangeInclusive<u32> = 1..=64;
const WINDOW: RangeInclusive<u32> = 1..=1 << 20;
const LATER_STARTS: RangeInclusive<u32> = 0..=100;
const REPEAT_NAMES: RangeInclusive<u64> = 1..=1 << 24;
const HOSTS: RangeInclusive<u64> = 1..=100_000_000;
/// Bounds of an Internet in a box: top-level domains, domains in each and hosts in each domain, all
/// names, servers of domains.
const TLDS: RangeInclusive<u32> = 1..=8_000;
const DOMAINS_OR_HOSTS: RangeInclusive<u32> = 1..=1 << 20;
const INTERNET_NAMES: RangeInclusive<u64> = 256..=1 << 20;
const NAME_SERVERS: RangeInclusive<u32> = 2..=48_000;
const DELEGATIONS: RangeInclusive<u64> = 100..=200_000_000;
const UPDATES: RangeInclusive<u64> = 1..=1_000_000;
const THREADS: RangeInclusive<usize> = 1..=4_096;
/// Bounds of the source ports of one core: a worker has no more sockets.
const PORTS_PER_THREAD: RangeInclusive<u16> = 1..=4_096;
/// Bounds of a limit of CPU time, in cores.
const CPU_LIMIT: RangeInclusive<f64> = 0.01..=4_096.0;
/// Bounds of the precision of a capacity, as a share of it.
const PRECISION: RangeInclusive<f64> = 0.001..=1.0;
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
/// Bounds of the rate of an attack and of its connections at a time.
const ATTACK_RATE: RangeInclusive<f64> = 1.0..=1_000_000.0;
const ATTACK_CONNECTIONS: RangeInclusive<u32> = 1..=50_000;
/// Longest part of a drill.
const LONGEST_PART: Nanos = Nanos::from_secs(600);
/// Bounds of the mean rate of a client, in queries a second.
const CLIENT_RATES: RangeInclusive<f64> = 0.001..=1_000.0;
/// Largest number of clients, as in a population.
const MAX_CLIENTS: f64 = (1 << 20) as f64;
/// Largest number of letters in the name of an experiment, and of rates of a load.
const MAX_NAME: usize = 64;
const MAX_RATES: usize = 1_000;
/// Largest number of delays of an Internet in a box.
const MAX_DELAYS: usize = 64;
/// Largest number of lanes: they share the 256 queries of one dns64perf experiment.
const MAX_LANES: u32 = measure::pacing::EXPERIMENT;

/// An invalid setting: its key with dots, and what is wrong with its value.
type Invalid = (&'static str, String);

/// Checks the settings of one point.
///
/// # Errors
/// With the first value that cannot be accepted.
pub(crate) fn validate(s: &Settings) -> Result<(), Invalid> {
    let checks = [
        common,
        workload,
        streams,
        internet,
        search,
        clients,
        methods,
        drill,
        answers::answers,
        replication,
        machine,
        cpus,
    ];
    checks.iter().try_for_each(|check| check(s))
}

/// Returns the error for `key` unless `good`.
fn must(good: bool, key: &'static str, why: impl Display) -> Result<(), Invalid> {
    if good { Ok(()) } else { Err((key, why.to_string())) }
}

/// Returns the error for `key` unless `value` is within `bounds`.
fn within<T: PartialOrd + Display>(
    value: T,
    bounds: RangeInclusive<T>,
    key: &'static str,
) -> Result<(), Invalid> {
    let (least, most) = (bounds.start(), bounds.end());
    let why = format!("`{}` is a number from {least} to {most}", last(key));
    must(bounds.contains(&value), key, why)
}

/// Returns the error for `key` if `time` is zero.
fn lasting(time: Nanos, key: &'static str) -> Result<(), Invalid> {
    must(time != Nanos::ZERO, key, format!("`{}` must be longer than 0", last(key)))
}

/// Returns the last part of a key.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn common(s: &Settings) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    must(
        !s.name.is_empty() && s.name.len() <= MAX_NAME && s.name.chars().all(plain),
        "name",
        format!("`name` is made of lower case letters, digits and dashes, {MAX_NAME} at most"),
    )?;
    for (i, server) in s.servers.iter().enumerate() {
        let again = s.servers[..i].contains(server);
        must(!again, "servers", format!("`servers` lists {server} twice"))?;
    }
    for (key, named) in [("only", &s.only[..]), ("baseline", s.baseline.as_slice())] {
        let unknown = named.iter().find(|name| !s.servers.contains(name));
        let why = || format!("`servers` does not name {}", unknown.map_or("", String::as_str));
        must(unknown.is_none(), key, why())?;
    }
    for (name, custom) in &s.custom {
        if let Some(why) = custom.invalid() {
            return Err(("custom", format!("{name}: {why}")));
        }
        let named = s.servers.contains(name);
        let named = named || s.servers.iter().any(|server| server.ends_with(&format!("+{name}")));
        must(named, "custom", format!("`servers` does not name {name}"))?;
    }
    within(s.repeats, REPEATS, "repeats")?;
    s.budget.map_or(Ok(()), |budget| lasting(budget, "budget"))?;
    s.tester.close_idle.map_or(Ok(()), |time| lasting(time, "tester.close-idle"))?;
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
    within(w.aaaa_share, SHARE, "workload.aaaa-share")?;
    within(w.repeat_share, SHARE, "workload.repeat-share")?;
    within(w.repeat_names, REPEAT_NAMES, "workload.repeat-names")?;
    must(
        s.role != Role::Authoritative || w.aaaa_share == 0.0,
        "workload.aaaa-share",
        "`aaaa-share` applies to the AuthDNS behind a DNS64 server; this experiment's role is authoritative",
    )
}

/// Checks the keys of a stream of queries against each other, the method and the role.
fn streams(s: &Settings) -> Result<(), Invalid> {
    let w = &s.workload;
    must(
        w.queries.is_none() || w.replay.is_none(),
        "workload.replay",
        "`queries` and `replay` are both streams of queries: give one of them",
    )?;
    let zones = w.made_zones() + usize::from(w.zone_file.is_some());
    let made = [
        (w.mixed, "workload.mixed"),
        (w.delegations, "workload.delegations"),
        (w.hosts, "workload.hosts"),
    ];
    for (names, key) in made.into_iter().filter_map(|(names, key)| Some((names?, key))) {
        let why = "`zone-file`, `hosts`, `delegations` and `mixed` are all zones: give one of them";
        must(zones == 1, key, why)?;
        within(names, HOSTS, key)?;
    }
    must(
        w.slice.is_none() || w.has_zone(),
        "workload.slice",
        "`slice` cuts a zone and its queries: give the `zone-file` too; a namespace is cut by a longer prefix",
    )?;
    if !w.is_stream() {
        return Ok(());
    }
    // `repeat-share` is for the synthetic clients of the method `clients`, like `client-rate`: a
    // stream does not use it.
    let of_clients = s.method == Method::Clients;
    must(
        (w.repeat_share == 0.0 || of_clients) && w.aaaa_share == 0.0,
        "workload",
        "`repeat-share` and `aaaa-share` apply to the names of a namespace; those of `queries` or `replay` repeat as in the file",
    )?;
    must(
        s.method != Method::UpdateRate || (w.queries.is_none() && w.replay.is_none()),
        "workload",
        "the method `update-rate` sends updates only: it has no use for `queries` or `replay`",
    )?;
    must(
        !s.method.replicates() || w.made_zones() == 0,
        "workload",
        "servers that replicate have a zone of delegations; give a `zone-file` for another one",
    )?;
    let timed = matches!(s.method, Method::Search | Method::Load);
    must(
        w.replay.is_none() || !timed || s.tester.transport == Transport::Udp,
        "tester.transport",
        "a replay at the times of its capture requires udp; the method `closed` sends the queries over any transport",
    )
}

/// Checks the Internet in a box, which is for one cold trial after each start of a resolver.
fn internet(s: &Settings) -> Result<(), Invalid> {
    let (w, Some(internet)) = (&s.workload, &s.workload.internet) else { return Ok(()) };
    must(
        !["iterate", "validate"].iter().any(|name| s.variables.contains_key(*name)),
        "workload.internet",
        "resolvers start at the root of `internet` and trust its key: leave out the variables `iterate` and `validate`",
    )?;
    must(
        w.queries.is_none() && w.replay.is_none() && !w.has_zone(),
        "workload.internet",
        "`internet` has its own zones and queries: leave out `queries`, `replay` and other zones",
    )?;
    must(
        s.role == Role::Resolver && s.method == Method::Closed,
        "workload.internet",
        "`internet` is for the role `resolver` and the method `closed`: resolvers start cold at its root",
    )?;
    must(
        s.warm_up == Nanos::ZERO,
        "warm-up",
        "a resolver of an `internet` starts with an empty cache: leave out `warm-up`",
    )?;
    within(internet.tlds, TLDS, "workload.internet.tlds")?;
    within(internet.domains, DOMAINS_OR_HOSTS, "workload.internet.domains")?;
    within(internet.hosts, DOMAINS_OR_HOSTS, "workload.internet.hosts")?;
    let names = u64::from(internet.tlds) * u64::from(internet.domains) * u64::from(internet.hosts);
    let why = format!(
        "`tlds` times `domains` times `hosts` are {names} names: {} to {}",
        INTERNET_NAMES.start(),
        INTERNET_NAMES.end()
    );
    let is_made = internet.capture.is_none();
    must(!is_made || INTERNET_NAMES.contains(&names), "workload.internet.hosts", why)?;
    within(internet.queries, HOSTS, "workload.internet.queries")?;
    within(internet.servers, NAME_SERVERS, "workload.internet.servers")?;
    let shares = [
        (internet.hit_rate, "workload.internet.hit-rate"),
        (internet.missing, "workload.internet.missing"),
        (internet.glueless, "workload.internet.glueless"),
        (internet.wildcards, "workload.internet.wildcards"),
        (internet.signed, "workload.internet.signed"),
        (internet.loss, "workload.internet.loss"),
        (internet.truncated, "workload.internet.truncated"),
    ];
    shares.into_iter().try_for_each(|(share, key)| within(share, SHARE, key))?;
    let delays = internet.delays.len() <= MAX_DELAYS;
    must(delays, "workload.internet.delays", format!("`delays` has {MAX_DELAYS} at most"))?;
    must(
        internet.loss + internet.truncated <= 1.0,
        "workload.internet.truncated",
        "`loss` and `truncated` sum to more than 1",
    )
}

fn search(s: &Settings) -> Result<(), Invalid> {
    let Some(search) = &s.search else {
        return must(
            !s.method.searches(),
            "method",
            "the methods `search` and `clients` need a table `[search]` with goal, start, max, resolution and duration",
        );
    };
    within(search.resolution, RESOLUTION, "search.resolution")?;
    search.rule().map_err(|e| match e.setting {
        "also" => ("search.also", e.to_string()),
        _ => ("search.duration-sum", e.to_string()),
    })?;
    must(search.min.get() <= search.max.get(), "search.max", "`max` is below `min`")?;
    must(search.start.get() <= search.max.get(), "search.max", "`max` is below `start`")?;
    lasting(search.duration, "search.duration")?;
    lasting(search.timeout, "search.timeout")
}

/// Checks what the method `clients` searches, and whose clients.
fn clients(s: &Settings) -> Result<(), Invalid> {
    let w = &s.workload;
    within(w.client_rate, CLIENT_RATES, "workload.client-rate")?;
    let (Some(search), Method::Clients) = (&s.search, s.method) else { return Ok(()) };
    must(
        search.max.get() <= MAX_CLIENTS,
        "search.max",
        format!("`max` is a number of clients, {MAX_CLIENTS} at most"),
    )?;
    must(
        search.rule != RuleName::Mlrsearch,
        "search.rule",
        "`mlrsearch` searches rates only: over clients use `rfc8219`",
    )?;
    must(
        s.tester.clients.is_none(),
        "tester.clients",
        "the method `clients` chooses their number; `search.start`, `min` and `max` bound it",
    )?;
    must(
        s.tester.pacing == OpenPacing::Constant,
        "tester.pacing",
        "the method `clients` sends queries at the times of its clients: remove `pacing`",
    )?;
    must(
        w.queries.is_none() && w.slice.is_none() && (w.replay.is_some() || !w.has_zone()),
        "workload",
        "the method `clients` has the clients of `replay`, a capture or a population, or clients that query names of the namespace",
    )
}

fn methods(s: &Settings) -> Result<(), Invalid> {
    must(
        (1..=MAX_LANES).contains(&s.lockstep.lanes),
        "lockstep.lanes",
        format!("`lanes` is from 1 to {MAX_LANES}, a lane for each of {MAX_LANES} queries"),
    )?;
    within(s.lockstep.experiments, EXPERIMENTS, "lockstep.experiments")?;
    let generators = &s.generators;
    within(generators.experiments, EXPERIMENTS, "generators.experiments")?;
    within(generators.processes, GENERATOR_PROCESSES, "generators.processes")?;
    must(
        generators.processes == 1 || generators.generator.has_processes(),
        "generators.processes",
        "the generators `script` and `dnsperf` have several processes, `lockstep-4` has threads",
    )?;
    lasting(s.lockstep.timeout, "lockstep.timeout")?;
    lasting(s.capacity.duration, "capacity.duration")?;
    lasting(s.capacity.timeout, "capacity.timeout")?;
    within(s.capacity.precision, PRECISION, "capacity.precision")?;
    lasting(s.closed.duration, "closed.duration")?;
    lasting(s.closed.timeout, "closed.timeout")?;
    within(s.closed.window, WINDOW, "closed.window")?;
    within(s.zone_load.later, LATER_STARTS, "zone-load.later")?;
    match &s.load {
        Some(load) => {
            must(!load.rates.is_empty(), "load.rates", "`rates` has no rate")?;
            let why = format!("`rates` has {MAX_RATES} rates at most");
            must(load.rates.len() <= MAX_RATES, "load.rates", why)?;
            lasting(load.duration, "load.duration")?;
            lasting(load.timeout, "load.timeout")?;
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
        "the method `zone-load` needs the role `authoritative`",
    )?;
    must(
        s.method != Method::Generators || s.role == Role::Dns64,
        "method",
        "the method `generators` needs the role `dns64`",
    )
}

fn drill(s: &Settings) -> Result<(), Invalid> {
    let Some(d) = &s.drill else {
        return must(
            s.method != Method::Drill,
            "method",
            "the method `drill` needs a table `[drill]` with attack, queries, rate, before, during and after",
        );
    };
    for (key, time) in
        [("drill.before", d.before), ("drill.during", d.during), ("drill.after", d.after)]
    {
        let whole = time.0 % Nanos::from_secs(1).0 == 0;
        let why = format!("`{}` is whole seconds, from 1s to {LONGEST_PART}", last(key));
        must(whole && time != Nanos::ZERO && time <= LONGEST_PART, key, why)?;
    }
    lasting(d.timeout, "drill.timeout")?;
    within(d.rate.get(), ATTACK_RATE, "drill.rate")?;
    within(d.connections, ATTACK_CONNECTIONS, "drill.connections")?;
    must(
        s.method != Method::Drill || !s.workload.is_stream(),
        "workload",
        "a drill queries names of the namespace, each once, beside the attack",
    )?;
    must(
        !(d.attack.needs_authdns() && s.role == Role::Authoritative),
        "drill.attack",
        format!("`{}` changes replies of the AuthDNS: use the role dns64 or resolver", d.attack),
    )?;
    let transport = s.tester.transport;
    let (spoken, why) = match d.attack {
        AttackKind::HalfHandshakes | AttackKind::Handshakes => (
            matches!(transport, Transport::Tls | Transport::Https),
            "the attack of TCP handshakes requires queries over tls or https",
        ),
        AttackKind::Initials => (
            matches!(transport, Transport::Quic | Transport::Http3),
            "the attack of QUIC handshakes requires queries over quic or http3",
        ),
        _ => (true, ""),
    };
    must(spoken, "tester.transport", why)
}

fn replication(s: &Settings) -> Result<(), Invalid> {
    let (r, method) = (&s.replication, s.method);
    if !method.replicates() {
        return must(
            *r == ReplicationSettings::default(),
            "replication",
            "`[replication]` applies to the methods `update-rate`, `query-under-update` and `signed-unsigned`",
        );
    }
    must(
        s.role == Role::Authoritative,
        "method",
        "this method measures authoritative servers: the role is `authoritative`",
    )?;
    must(
        matches!(s.tester.transport, Transport::Udp | Transport::Tcp),
        "tester.transport",
        "servers that replicate are queried over udp or tcp",
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
        "the servers of the method `update-rate` are primaries: leave out `primary`",
    )?;
    secondaries(s)?;
    must(
        under_update || r.update_rate == UpdateRate::None,
        "replication.update-rate",
        "`update-rate` requires the method `query-under-update`",
    )?;
    within(r.delegations, DELEGATIONS, "replication.delegations")?;
    within(r.updates, UPDATES, "replication.updates")?;
    within(r.killed_after, UPDATES, "replication.killed-after")
}

/// Checks the servers that follow the primary.
fn secondaries(s: &Settings) -> Result<(), Invalid> {
    let r = &s.replication;
    must(
        r.secondaries.is_empty() || r.primary.is_some(),
        "replication.secondaries",
        "`secondaries` need a `primary`",
    )?;
    let twice = |(i, name): (usize, &String)| r.secondaries[..i].contains(name);
    must(
        !r.secondaries.iter().enumerate().any(twice),
        "replication.secondaries",
        "`secondaries` lists each server once; `instances` starts several of one kind",
    )?;
    must(
        (1..=MAX_SECONDARIES + 1).contains(&r.instances)
            && r.instances - 1 + r.secondaries.len() <= MAX_SECONDARIES,
        "replication.instances",
        format!(
            "`instances` is at least 1, and with `secondaries` {} at most",
            MAX_SECONDARIES + 1
        ),
    )?;
    must(
        r.instances == 1 || s.method == Method::QueryUnderUpdate,
        "replication.instances",
        "`instances` requires the method `query-under-update`",
    )?;
    must(
        r.instances == 1 || s.tester.transport == Transport::Udp,
        "tester.transport",
        "several `instances` are queried over udp",
    )
}

fn machine(s: &Settings) -> Result<(), Invalid> {
    let threads = |n: Option<usize>, key| n.map_or(Ok(()), |n| within(n, THREADS, key));
    threads(s.dut.cores, "dut.cores")?;
    threads(s.dut.threads, "dut.threads")?;
    s.dut.cpu_limit.map_or(Ok(()), |limit| within(limit, CPU_LIMIT, "dut.cpu-limit"))?;
    at_least_one(s.tester.ports.map(u32::from), "tester.ports")?;
    if let (EngineChoice::Kernel, Some((key, why))) = (s.tester.engine, s.needs_sockets()) {
        return Err((key, why.to_owned()));
    }
    let per_thread = s.tester.ports_per_thread;
    per_thread.map_or(Ok(()), |n| within(n, PORTS_PER_THREAD, "tester.ports-per-thread"))?;
    must(
        per_thread.is_none() || s.tester.ports.is_none(),
        "tester.ports-per-thread",
        "`ports` is for all cores, `ports-per-thread` for each: give one of them",
    )?;
    connections(s)?;
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    must(
        s.host
            .sysctl
            .keys()
            .all(|key| key.starts_with("net.") && key.chars().all(word) && !key.contains("..")),
        "host.sysctl",
        "only settings of a host's own network can be set, named as in sysctl(8), such as net.ipv4.udp_early_demux; other settings belong to the whole machine",
    )?;
    must(
        s.host.governor.chars().all(|c| c.is_ascii_lowercase()) && !s.host.governor.is_empty(),
        "host.governor",
        "`governor` is `unchanged` or a governor of the kernel, such as performance",
    )?;
    must(s.host.path != Path::OneHost, "host.path", "`path` is `wire` or `host-offload`")
}

fn at_least_one(n: Option<u32>, key: &'static str) -> Result<(), Invalid> {
    must(n != Some(0), key, format!("`{}` is at least 1", last(key)))
}

fn connections(s: &Settings) -> Result<(), Invalid> {
    let (tester, transport) = (&s.tester, s.tester.transport);
    at_least_one(tester.queries_per_connection, "tester.queries-per-connection")?;
    at_least_one(tester.clients, "tester.clients")?;
    must(
        tester.family == Family::Ipv6
            || !(transport.uses_tls() || s.method.replicates() || s.method == Method::Answers),
        "tester.family",
        "servers listen on IPv6 only for tls, https, quic and http3, and for methods with several servers",
    )?;
    must(
        !tester.fast_open || transport.uses_tcp(),
        "tester.fast-open",
        "TCP Fast Open needs a transport over TCP: tcp, tls or https",
    )?;
    must(
        tester.tls_version.is_none() || (transport.uses_tls() && transport.uses_tcp()),
        "tester.tls-version",
        "the version of TLS can be chosen over tls and https; quic and http3 have 1.3",
    )
}

fn cpus(s: &Settings) -> Result<(), Invalid> {
    s.check_server_alone(&s.cpus).map_err(|why| ("cpus.dut", why))
}
