//! Zones with upstream servers of their own (`[[forward]]`), and the pools of servers that follow from them.

use std::net::{IpAddr, SocketAddr};

use ipnet::Ipv4Net;
use wire::Name;
use wire::name::strip_suffix;

use super::{
    BlockConfig, Config, ConfigError, Follow, ForwardConfig, Group, MAX_UPSTREAMS, RulesConfig,
    ensure,
};

/// Highest number of zones of all blocks together: they are compared one by one with each name.
const MAX_ZONES: usize = 256;
/// Highest number of `[[view]]` blocks.
const MAX_VIEWS: usize = 64;
/// Highest weight of a server.
const MAX_WEIGHT: u32 = 1_000;

/// Number of the pool for a name, and the length of its zone in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZonePool {
    pub(crate) len: usize,
    pub(crate) number: usize,
}

impl ForwardConfig {
    /// Returns the number of the pool for a name in lower case and a group of clients, and the
    /// length of its zone: the longest zone that contains the name; of two equal ones the zone in
    /// the group's view.
    #[inline]
    pub(crate) fn find(pools: &[Self], group: Group, name: &[u8]) -> ZonePool {
        let mut found = ZonePool { len: Name::ROOT.wire_len(), number: 0 };
        let own = |(_, pool): &(usize, &Self)| pool.group.includes(group);
        for (number, pool) in pools.iter().enumerate().skip(1).filter(own) {
            for zone in &pool.zones {
                let len = zone.wire_len();
                let is_longer = len > found.len || len == found.len && pool.group != Group::ALL;
                if is_longer && strip_suffix(name, zone.as_wire()).is_some() {
                    found = ZonePool { len, number };
                }
            }
        }
        found
    }

    /// Returns the source address of queries to a server that is reached at `way`; `None`: the
    /// kernel chooses.
    pub(crate) fn source_to(&self, way: SocketAddr) -> Option<IpAddr> {
        of_family(&self.source, way)
    }

    /// Returns whether connections to the servers of two pools are alike.
    fn connects_like(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.tls_name == other.tls_name
            && self.tls_authorities == other.tls_authorities
            && self.https_path == other.https_path
            && self.source == other.source
    }

    /// Validates the servers and their weights.
    fn validate(&self, place: &str) -> Result<(), ConfigError> {
        let servers = format!("{place}.servers");
        ensure(!self.servers.is_empty(), &servers, "write at least one address")?;
        for server in &self.servers {
            let problem = format!("{server}: write a port from 1 to 65535, or none");
            ensure(server.port() > 0, &servers, problem)?;
        }
        let weights = &self.weights;
        let fit = weights.is_empty() || weights.len() == self.servers.len();
        let fit = fit && weights.iter().all(|weight| (1..=MAX_WEIGHT).contains(weight));
        let problem = format!("write one weight from 1 to {MAX_WEIGHT} for each server, or none");
        ensure(fit, &format!("{place}.weights"), problem)
    }
}

impl Config {
    /// Returns the `[[forward]]` blocks for all clients, then the blocks of each view, with their
    /// places in the file.
    pub(crate) fn forwards(&self) -> impl Iterator<Item = (String, Group, &ForwardConfig)> {
        let own = self.forward.iter().enumerate();
        let own = own.map(|(i, forward)| (format!("forward[{i}]"), Group::ALL, forward));
        own.chain(self.view.iter().enumerate().flat_map(|(v, view)| {
            let place = move |i| format!("view[{v}].forward[{i}]");
            let forward = view.forward.iter().enumerate();
            forward.map(move |(i, forward)| (place(i), Group::of_view(v), forward))
        }))
    }

    /// Returns the files with rules for all clients, then the files of each view, with their places
    /// in the configuration.
    pub fn rules_files(&self) -> impl Iterator<Item = (String, &RulesConfig)> {
        let views = self.view.iter().enumerate();
        let views = views.map(|(v, view)| (format!("view[{v}].rules"), &view.rules));
        std::iter::once(("rules".to_owned(), &self.rules)).chain(views)
    }

    /// Checks the number of views, and the values of each.
    pub(super) fn check_views(&self) -> Result<(), ConfigError> {
        let problem = format!("write at most {MAX_VIEWS} blocks");
        ensure(self.view.len() <= MAX_VIEWS, "view", problem)?;
        for (v, view) in self.view.iter().enumerate() {
            let key = format!("view[{v}].clients");
            ensure(!view.clients.is_empty(), &key, "write at least one network")?;
        }
        Ok(())
    }

    /// Returns the pools of servers: the first one is for all names without a pool of their own.
    /// All zones are in lower case.
    pub fn pools(&self) -> Vec<ForwardConfig> {
        let upstream = &self.upstream;
        let first = ForwardConfig {
            group: Group::ALL,
            zones: vec![Name::ROOT],
            servers: upstream.servers.clone(),
            weights: upstream.weights.clone(),
            source: upstream.source.clone(),
            transport: upstream.transport,
            tls_name: upstream.tls_name.clone(),
            tls_authorities: upstream.tls_authorities.clone(),
            https_path: upstream.https_path.clone(),
            dns64: true,
            ignore_nxdomain: false,
            cache: true,
        };
        let lower = |(_, group, pool): (String, Group, &ForwardConfig)| {
            let zones = pool.zones.iter().map(|zone| zone.to_lowercase()).collect();
            ForwardConfig { zones, group, ..pool.clone() }
        };
        std::iter::once(first).chain(self.forwards().map(lower)).collect()
    }

    /// Returns the source address of queries to a server that is reached at `way`; `None`: the kernel chooses.
    pub fn source_of(&self, server: SocketAddr, way: SocketAddr) -> Option<IpAddr> {
        let own = self.forwards().find(|(.., forward)| forward.servers.contains(&server));
        match own {
            Some((.., forward)) if !self.upstream.servers.contains(&server) => {
                forward.source_to(way)
            }
            _ => of_family(&self.upstream.source, way),
        }
    }

    /// Validates the ways of packets, and that there is at most one source address of a family.
    pub(super) fn check_routes(&self) -> Result<(), ConfigError> {
        for (place, route) in
            [("server.route", &self.server.route), ("upstream.route", &self.upstream.route)]
        {
            if let Some((key, problem)) = route.problem() {
                return ensure(false, &format!("{place}.{key}"), problem);
            }
        }
        let is_reached = !self.upstream.via_prefix || self.can_learn_prefixes();
        let problem =
            "no server can be queried for the prefix: write a `prefix`, or a server with IPv6";
        ensure(is_reached, "upstream.via-prefix", problem)?;
        let forward = self.forwards().map(|(place, _, f)| (format!("{place}.source"), &f.source));
        let all = std::iter::once(("upstream.source".to_owned(), &self.upstream.source));
        for (key, source) in all.chain(forward) {
            let v4 = source.iter().filter(|source| source.is_ipv4()).count();
            let problem = "write at most one IPv4 and one IPv6 address";
            ensure(v4 <= 1 && source.len() - v4 <= 1, &key, problem)?;
        }
        Ok(())
    }

    /// Returns whether all prefixes can be learned if servers are reached through prefixes:
    /// upstream's prefixes need a server that is queried without a prefix, or through another one.
    fn can_learn_prefixes(&self) -> bool {
        let (pools, blocks) = (self.pools(), self.blocks());
        let is_known =
            |block: &BlockConfig| block.prefix.is_some() || block.follow == Follow::Router;
        let asked: Name = "ipv4only.arpa".parse().expect("a constant name");
        let pool = ForwardConfig::find(&pools, Group::ALL, asked.as_wire()).number;
        let is_reached = |server: &SocketAddr| {
            let IpAddr::V4(v4) = server.ip() else { return true };
            let maps = |networks: &[Ipv4Net]| networks.iter().any(|network| network.contains(&v4));
            let mut mapping = blocks.iter().filter(|b| maps(&b.mapped) && !maps(&b.not_mapped));
            v4.is_loopback() || mapping.clone().next().is_none() || mapping.any(is_known)
        };
        blocks.iter().all(is_known) || pools[pool].servers.iter().any(is_reached)
    }

    /// Returns the number of servers in all pools.
    pub(crate) fn upstream_servers(&self) -> usize {
        self.upstream.servers.len() + self.forwards().map(|(.., f)| f.servers.len()).sum::<usize>()
    }

    /// Validates the pools against each other.
    pub(super) fn check_pools(&self) -> Result<(), ConfigError> {
        let pools = self.pools();
        let mut zones: Vec<(Group, &Name)> = Vec::new();
        let places = std::iter::once("upstream".to_owned());
        let places = places.chain(self.forwards().map(|(place, ..)| place));
        for (number, (pool, place)) in pools.iter().zip(places).enumerate() {
            pool.validate(&place)?;
            let key = format!("{place}.zones");
            for zone in pool.zones.iter().skip(usize::from(number == 0)) {
                let problem = "[upstream] has the root zone already: write the servers there";
                ensure(!zone.is_root() || pool.group != Group::ALL, &key, problem)?;
                let problem = format!("there are two blocks for {zone}: remove one");
                ensure(!zones.contains(&(pool.group, zone)), &key, problem)?;
                zones.push((pool.group, zone));
            }
            let problem = format!("write 1 to {MAX_ZONES} zones, all blocks counted together");
            ensure(!pool.zones.is_empty() && zones.len() <= MAX_ZONES, &key, problem)?;
            for server in &pool.servers {
                let problem = format!("{server} is an address of this server itself");
                ensure(!self.server.is_at(server), &format!("{place}.servers"), problem)?;
                let mut others = pools.iter().filter(|other| other.servers.contains(server));
                let problem = format!(
                    "{server} is also elsewhere: write the same transport, source, TLS settings and path there"
                );
                let alike = others.all(|other| other.connects_like(pool));
                ensure(alike, &format!("{place}.transport"), problem)?;
            }
        }
        let problem = format!("write at most {MAX_UPSTREAMS} servers, with those of [upstream]");
        ensure(self.upstream_servers() <= MAX_UPSTREAMS, "forward", problem)
    }
}

/// Returns the source address of the family of `way`.
fn of_family(source: &[IpAddr], way: SocketAddr) -> Option<IpAddr> {
    source.iter().copied().find(|source| source.is_ipv4() == way.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_contradict_each_other_are_refused() {
        let block = "[[forward]]\nzones = [\"corp.example\"]\nservers = [\"192.0.2.1\"]\n";
        assert_eq!(Config::parse(block).map(|config| config.pools().len()), Ok(2));
        let again = block.replace("corp", "CORP");
        for (file, key, text) in [
            (format!("{block}{again}"), "forward[1].zones", "two blocks for corp.example"),
            (block.replace("\"192.0.2.1\"", ""), "forward[0].servers", "at least one"),
            (block.replace("\"corp.example\"", ""), "forward[0].zones", "write 1 to"),
            (block.replace("corp.example", "."), "forward[0].zones", "write the servers there"),
            (block.replace("192.0.2.1", "127.0.0.1"), "forward[0].servers", "itself"),
            (
                format!(
                    "server.listen = [\"::\", \"0.0.0.0\"]\n{}",
                    block.replace("192.0.2.1", "127.0.0.9")
                ),
                "forward[0].servers",
                "127.0.0.9:53 is an address of this server itself",
            ),
            (format!("{block}weights = [1, 2]"), "forward[0].weights", "one weight from 1 to 1000"),
            (format!("{block}weights = [0]"), "forward[0].weights", "one weight"),
            ("[[view]]\nclients = []".into(), "view[0].clients", "at least one network"),
            (
                format!(
                    "{block}[[view]]\nclients = [\"::1\"]\n{}",
                    [block, &again].concat().replace("forward", "view.forward")
                ),
                "view[0].forward[1].zones",
                "two blocks for corp.example",
            ),
            (
                format!("upstream.servers = [\"192.0.2.1\"]\n{block}transport = \"tcp\""),
                "upstream.transport",
                "192.0.2.1:53 is also elsewhere",
            ),
            (
                format!(
                    "upstream.source-ports = 1\n{}",
                    (0..16).map(|n| block.replace("corp", &format!("c{n}"))).collect::<String>()
                ),
                "forward",
                "at most 16 servers",
            ),
        ] {
            let error = Config::parse(&file).expect_err(&file).to_string();
            assert!(error.contains(key) && error.contains(text), "{file}: {error}");
        }
    }

    #[test]
    fn each_server_has_the_source_of_its_family_and_block() {
        let config = Config::parse(
            "[upstream]\nservers = [\"192.0.2.1\", \"2001:db8::1\"]\nsource = [\"192.0.2.9\", \"2001:db8::9\"]\n\
             [[forward]]\nzones = [\"a.test\"]\nservers = [\"192.0.2.2\", \"2001:db8::2\"]\nsource = [\"192.0.2.8\"]",
        );
        let config = config.expect("it is right");
        let source = |server: &str| {
            let server = SocketAddr::new(server.parse().expect("an address"), 53);
            config.source_of(server, server).map(|source| source.to_string()).unwrap_or_default()
        };
        let seen = ["192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2"].map(source);
        assert_eq!(seen, ["192.0.2.9", "2001:db8::9", "192.0.2.8", ""]);
    }

    #[test]
    fn a_server_that_is_reached_is_asked_for_the_prefix() {
        for more in [
            "[[dns64]]\nprefix = \"2001:db8::/96\"\nmapped = [\"192.0.2.0/24\"]",
            "[[forward]]\nzones = [\"arpa\"]\nservers = [\"2001:db8::1\"]",
            "[[forward]]\nzones = [\"arpa\"]\nservers = [\"127.0.0.9\"]",
        ] {
            let file = format!(
                "upstream = {{ servers = [\"192.0.2.1\"], via-prefix = true }}\n[[dns64]]\nfollow = \"upstream\"\n{more}"
            );
            assert!(Config::parse(&file).is_ok(), "{more}");
        }
    }

    #[test]
    fn what_no_socket_accepts_is_refused() {
        for (file, part) in [
            ("server.route.device = \"a b\"", "server.route.device"),
            ("server.route.device = \"0123456789012345\"", "at most 15"),
            ("upstream.route.dscp = 64", "upstream.route.dscp: 64 is out of bounds: write 0 to 63"),
            ("upstream.source = [\"::1\", \"::2\"]", "upstream.source: write at most one"),
            (
                "upstream = { servers = [\"192.0.2.1\"], via-prefix = true }\n[[dns64]]\nfollow = \"upstream\"",
                "upstream.via-prefix: no server can be queried",
            ),
            // No other server is asked, and the prefix leads to others.
            (
                "upstream = { servers = [\"192.0.2.1\"], via-prefix = true }\n[[dns64]]\nfollow = \"upstream\"\n\
                 [[dns64]]\nprefix = \"2001:db8::/96\"\nmapped = [\"198.51.100.0/24\"]\n\
                 [[forward]]\nzones = [\"test\"]\nservers = [\"2001:db8::1\"]",
                "upstream.via-prefix: no server can be queried",
            ),
            ("upstream.source = [\"x\"]", "`x` is not an address: write 192.0.2.1"),
        ] {
            let error = Config::parse(file).expect_err(file).to_string();
            assert!(error.contains(part), "{file}: {error}");
        }
    }
}
