//! Validation of values against each other and their bounds.

use std::net::SocketAddr;

use super::{Config, ConfigError, MAX_BLOCKS, MAX_SOURCE_PORTS, MAX_UPSTREAMS, ensure, ports};

/// Least number of source ports from which to draw; with fewer a forger has little to guess.
const MIN_PORTS: usize = 16_384;

/// Smallest and largest buffer of a socket, in octets: one packet, and half of the largest number
/// that the kernel counts.
const MIN_SOCKET_BUFFER: usize = 4 << 10;
const MAX_SOCKET_BUFFER: usize = 1 << 30;

impl Config {
    /// Validates the values against each other and their bounds.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let (server, upstream) = (&self.server, &self.upstream);
        let listen = "there is no address: write for example \"127.0.0.1:53\"";
        ensure(!server.listen.is_empty(), "server.listen", listen)?;
        let fits = (MIN_SOCKET_BUFFER..=MAX_SOCKET_BUFFER).contains(&server.socket_buffer.0);
        ensure(fits, "server.socket-buffer", "write 4KiB to 1GiB")?;
        let fits = (1..=MAX_UPSTREAMS).contains(&upstream.servers.len());
        ensure(fits, "upstream.servers", format!("write 1 to {MAX_UPSTREAMS} addresses"))?;
        self.check_listening()?;
        self.check_hosts()?;
        self.check_views()?;
        self.check_pools()?;
        self.check_routes()?;
        self.check_bounds()?;
        self.check_kernel()?;
        let least = self.least_memory().div_ceil(1 << 20);
        let (cache, questions) = (self.cache.size.0 >> 20, self.limits.outstanding);
        let memory = format!(
            "write at least {least}MiB for a cache of {cache}MiB and {questions} outstanding queries, or lower these"
        );
        ensure(self.limits.memory.0 >= least << 20, "limits.memory", memory)?;
        let servers = self.upstream_servers();
        let most = MAX_SOURCE_PORTS / servers;
        let problem = format!("write 1 to {most} for {servers} servers");
        ensure(upstream.source_ports <= most, "upstream.source-ports", problem)?;
        let fits = upstream.port_share > 0.0 && upstream.port_share <= 0.5;
        ensure(fits, "upstream.port-share", "write a share above 0 and up to 0.5")?;
        let suffice = ports::usable(&upstream.avoid_ports) >= MIN_PORTS;
        ensure(suffice, "upstream.avoid-ports", format!("leave at least {MIN_PORTS} ports"))?;
        let blocks = format!("write at most {MAX_BLOCKS} blocks");
        ensure(self.dns64.len() <= MAX_BLOCKS, "dns64", blocks)?;
        for (key, share) in [
            ("limits.client-share", self.limits.client_share),
            ("limits.client-memory-share", self.limits.client_memory_share),
        ] {
            ensure(share > 0.0 && share <= 1.0, key, "write a share above 0 and up to 1")?;
        }
        if self.tls.listens() {
            let problem = "write the path of a PEM file, or remove all addresses of [tls]";
            for (key, path) in
                [("tls.certificate", &self.tls.certificate), ("tls.key", &self.tls.key)]
            {
                ensure(!path.as_os_str().is_empty(), key, problem)?;
            }
        }
        self.check_designation()?;
        self.dns64.iter().enumerate().try_for_each(|(i, block)| block.validate(i))
    }

    /// Validates that each address is listened on once: over UDP for queries, HTTP/3 and QUIC, over
    /// TCP for all but QUIC. `0.0.0.0` and `[::]` have all addresses of their family.
    fn check_listening(&self) -> Result<(), ConfigError> {
        let Config { server, tls, metrics, .. } = self;
        let (listen, metrics) = (&server.listen[..], metrics.listen.as_slice());
        let (queries, doh) = (("server.listen", listen), ("tls.doh", &tls.doh[..]));
        let udp = [queries, doh, ("tls.doq", &tls.doq[..])];
        let tcp = [queries, doh, ("tls.dot", &tls.dot[..]), ("metrics.listen", metrics)];
        for services in [&udp[..], &tcp] {
            let mut taken: Vec<&SocketAddr> = Vec::new();
            let all = services.iter().flat_map(|(key, all)| all.iter().map(move |at| (*key, at)));
            for (key, address) in all.filter(|(_, address)| address.port() > 0) {
                let meets = |other: &&SocketAddr| {
                    let is_any = other.ip().is_unspecified() || address.ip().is_unspecified();
                    let covers = is_any && other.is_ipv4() == address.is_ipv4();
                    other.port() == address.port() && (covers || *other == address)
                };
                let problem = format!("{address} is taken twice: write another port");
                ensure(!taken.iter().any(meets), key, problem)?;
                taken.push(address);
            }
        }
        Ok(())
    }

    /// Validates that a host cannot choose a foreign name: names from leases are below a domain of
    /// the operator.
    fn check_hosts(&self) -> Result<(), ConfigError> {
        for (i, leases) in self.hosts.leases.iter().enumerate() {
            let problem = "write a domain of your hosts, for example \"lan\"";
            ensure(!leases.domain.is_root(), &format!("hosts.leases[{i}].domain"), problem)?;
        }
        Ok(())
    }

    /// Validates that there are addresses for the encrypted transports that clients can discover.
    fn check_designation(&self) -> Result<(), ConfigError> {
        let Some(name) = self.server.designate.name else { return Ok(()) };
        let key = "server.designate.name";
        ensure(!name.is_root(), key, "write the name in the certificate")?;
        let problem =
            "no encrypted transport can be announced: write addresses of [tls], or remove the name";
        ensure(self.tls.listens(), key, problem)?;
        let problem = "write out the addresses, instead of 0.0.0.0 or [::], for server.designate";
        let Config { server, tls, .. } = self;
        for (key, at) in [
            ("server.listen", &server.listen),
            ("tls.dot", &tls.dot),
            ("tls.doh", &tls.doh),
            ("tls.doq", &tls.doq),
        ] {
            let any = at.iter().any(|at| at.ip().to_canonical().is_unspecified());
            ensure(!any, key, problem)?;
        }
        Ok(())
    }
}
