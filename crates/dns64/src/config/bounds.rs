//! Bounds of all durations and counts of a configuration: each value in them is one with which the server works.

use std::fmt::Display;

use measure::Nanos;

use super::{Config, ConfigError, MAX_OUTSTANDING, MAX_SOURCE_PORTS, ensure};

/// A value with its bounds.
struct Bound<T> {
    key: &'static str,
    value: T,
    least: T,
    most: T,
}

impl<T: PartialOrd + Display> Bound<T> {
    /// Returns an error with the bounds for a value that is not within them.
    fn check(&self) -> Result<(), ConfigError> {
        let Bound { key, value, least, most } = self;
        let problem = format!("{value} is out of bounds: write {least} to {most}");
        ensure(value >= least && value <= most, key, problem)
    }
}

impl Config {
    /// Checks all durations and counts.
    pub(super) fn check_bounds(&self) -> Result<(), ConfigError> {
        self.counts().iter().try_for_each(Bound::check)?;
        self.durations().iter().try_for_each(Bound::check)
    }

    /// Returns all durations with their bounds.
    fn durations(&self) -> [Bound<Nanos>; 14] {
        let (upstream, cache, limits) = (&self.upstream, &self.cache, &self.limits);
        let bound = |key, value, least, most| Bound { key, value, least, most };
        let (ms, s, day) = (Nanos::from_millis, Nanos::from_secs, 86_400);
        // `cache.min-ttl` must not exceed any `max-ttl`.
        let highest = self.dns64.iter().map(|block| block.max_ttl);
        let highest = highest.chain([cache.max_ttl, s(day)]).fold(s(day), Nanos::min);
        [
            bound("upstream.give-up-after", upstream.give_up_after, ms(10), s(30)),
            bound("upstream.first-timeout", upstream.first_timeout, ms(10), s(10)),
            bound("upstream.min-timeout", upstream.min_timeout, ms(10), s(10)),
            bound("upstream.probe-after", upstream.probe_after, ms(10), s(60)),
            bound("upstream.port-lifetime", upstream.port_lifetime, ms(10), s(day)),
            bound("upstream.tcp-timeout", upstream.tcp_timeout, ms(10), s(60)),
            bound("cache.min-ttl", cache.min_ttl, s(0), highest),
            bound("cache.max-ttl", cache.max_ttl, s(1), s(7 * day)),
            bound("cache.max-negative-ttl", cache.max_negative_ttl, s(0), s(day)),
            // RFC 9520 section 3.2.
            bound("cache.failure-ttl", cache.failure_ttl, s(0), s(300)),
            // RFC 8767 section 5.
            bound("cache.serve-stale", cache.serve_stale, s(0), s(7 * day)),
            bound("cache.stale-ttl", cache.stale_ttl, s(1), s(day)),
            bound("limits.tcp-idle", limits.tcp_idle, ms(100), s(day)),
            bound(
                "synthesis.ttl-without-soa",
                s(self.synthesis.ttl_without_soa.into()),
                s(0),
                s(7 * day),
            ),
        ]
    }

    /// Returns all counts with their bounds.
    fn counts(&self) -> [Bound<usize>; 16] {
        let (upstream, limits) = (&self.upstream, &self.limits);
        let bound = |key, value, least, most| Bound { key, value, least, most };
        [
            bound("server.workers", self.server.workers, 0, 1_024),
            bound("server.stream-threads", self.server.stream_threads, 0, 1_024),
            bound("server.cpus", self.server.cpus.iter().copied().max().unwrap_or(0), 0, 65_535),
            bound("upstream.attempts", upstream.attempts.into(), 1, 10),
            bound("upstream.dead-after", upstream.dead_after as usize, 1, 1_000),
            bound("upstream.source-ports", upstream.source_ports, 1, MAX_SOURCE_PORTS),
            bound("upstream.tcp-connections", upstream.tcp_connections, 1, 1_000),
            bound(
                "upstream.client-subnet-ipv4-bits",
                upstream.client_subnet_ipv4_bits.into(),
                0,
                32,
            ),
            bound(
                "upstream.client-subnet-ipv6-bits",
                upstream.client_subnet_ipv6_bits.into(),
                0,
                128,
            ),
            bound("cache.size", self.cache.size.0, 0, 1 << 40),
            bound("limits.outstanding", limits.outstanding, 1, MAX_OUTSTANDING),
            bound("limits.client-ipv4-bits", limits.client_ipv4_bits.into(), 0, 32),
            bound("limits.client-ipv6-bits", limits.client_ipv6_bits.into(), 0, 128),
            bound("limits.tcp-connections", limits.tcp_connections, 1, 1_000_000),
            bound(
                "limits.tcp-connections-per-client",
                limits.tcp_connections_per_client,
                1,
                1_000_000,
            ),
            bound("limits.tcp-pipelined", limits.tcp_pipelined, 1, 65_535),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error for one changed setting.
    fn refused(key: &str, value: &str) -> String {
        let file = format!("{key} = {value}");
        Config::parse(&file).expect_err(&file).to_string()
    }

    #[test]
    fn values_beyond_the_bounds_are_refused_with_the_bounds() {
        let config = Config::default();
        for Bound { key, least, most, .. } in config.durations() {
            let text = |time: Nanos| match key {
                "synthesis.ttl-without-soa" => (time.0 / 1_000_000_000).to_string(),
                _ => format!("\"{time}\""),
            };
            let mut beyond = vec![most + Nanos::from_secs(1)];
            if least > Nanos::ZERO {
                beyond.push(Nanos(least.0 - 1_000_000));
            }
            for time in beyond {
                let error = refused(key, &text(time));
                let bounds = format!("write {least} to {most}");
                assert!(error.contains(key) && error.contains(&bounds), "{error}");
            }
            assert!(Config::parse(&format!("{key} = {}", text(most))).is_ok(), "{key}");
        }
        for Bound { key, least, most, .. } in config.counts() {
            let text = |n: usize| match key {
                "server.cpus" => format!("[{n}]"),
                _ => n.to_string(),
            };
            let error = refused(key, &text(most + 1));
            // A number that its type cannot hold is refused when it is read.
            assert!(error.contains(key) || error.contains("line 1"), "{error}");
            if least > 0 {
                let bounds = format!("write {least} to {most}");
                let error = refused(key, &text(least - 1));
                assert!(error.contains(key) && error.contains(&bounds), "{error}");
            }
        }
        let block = "[[dns64]]\nprefix = \"64:ff9b::/96\"\nmax-ttl = \"1m\"\n[cache]\nmin-ttl = ";
        let error = Config::parse(&format!("{block}\"2m\"")).expect_err("too high").to_string();
        let bounds = format!("write {} to {}", Nanos::ZERO, Nanos::from_secs(60));
        assert!(error.contains("cache.min-ttl") && error.contains(&bounds), "{error}");
        assert!(Config::parse(&format!("{block}\"1m\"")).is_ok());
        for key in ["upstream.port-lifetime", "upstream.tcp-timeout", "limits.tcp-idle"] {
            assert!(refused(key, "\"0s\"").contains(key));
        }
    }
}
