//! Settings that do not go with answers in the kernel, and the bounds of `[kernel]`.

use super::{AfterDeath, ClientSubnet, Config, ConfigError, Ipv4, RouteConfig, ensure};

/// Least memory of the answers, in octets.
const MIN_SIZE: usize = 1 << 20;
/// Most memory of the answers, in octets: the kernel counts them with 32 bits.
const MAX_SIZE: usize = 1 << 40;
/// Highest number of network interfaces with the program.
const MAX_DEVICES: usize = 64;

impl Config {
    /// Checks the settings of answers in the kernel, and that no setting needs a feature that the
    /// kernel does not have.
    pub(super) fn check_kernel(&self) -> Result<(), ConfigError> {
        let kernel = &self.kernel;
        for device in &kernel.device {
            let route = RouteConfig { device: device.clone(), ..RouteConfig::default() };
            let problem = format!("`{device}` is no interface: write a name such as \"lan0\"");
            ensure(!device.is_empty() && route.problem().is_none(), "kernel.device", problem)?;
        }
        if !kernel.is_on() {
            return Ok(());
        }
        let problem = format!("write 1 to {MAX_DEVICES} interfaces, or mode = \"off\"");
        ensure((1..=MAX_DEVICES).contains(&kernel.device.len()), "kernel.device", problem)?;
        let fits = (MIN_SIZE..=MAX_SIZE).contains(&kernel.size.0);
        ensure(fits, "kernel.size", "write 1MiB to 1024GiB")?;
        let Some((key, remedy)) = self.not_in_kernel() else { return Ok(()) };
        let problem = "kernel.mode does not support this";
        ensure(false, key, format!("{problem}: {remedy}, or kernel.mode = \"off\""))
    }

    /// Returns a setting that the program in the kernel does not honour, and an accepted value.
    fn not_in_kernel(&self) -> Option<(&'static str, &'static str)> {
        let server = &self.server;
        let route = &server.route.device;
        let any = server.listen.iter().any(|at| at.ip().to_canonical().is_unspecified());
        let drops = self.dns64.iter().any(|block| block.ipv4 == Ipv4::Drop);
        let pooled = self.dns64.iter().any(|block| !block.pool.is_empty());
        let checks = [
            ("server.listen", any, "write out the addresses, instead of 0.0.0.0 or [::]"),
            ("server.proxies", !server.proxies.is_empty(), "write []"),
            ("server.log-queries", server.log_queries > 0, "write 0"),
            (
                "server.route.device",
                !(route.is_empty() || self.kernel.device.contains(route)),
                "write \"\" or one of kernel.device",
            ),
            ("dnstap.socket", self.dnstap.is_on(), "write \"\""),
            (
                "upstream.client-subnet",
                self.upstream.client_subnet == ClientSubnet::Add,
                "write \"drop\" or \"pass\"",
            ),
            ("cache.size", self.cache.size.0 == 0, "write a size"),
            ("dns64.ipv4", drops, "write \"keep\""),
            ("dns64.pool", pooled, "write blocks without a pool"),
            ("view", !self.view.is_empty(), "remove the blocks"),
        ];
        let checks = checks.into_iter().chain(self.not_resolved_in_kernel());
        checks.into_iter().find(|(_, is_set, _)| *is_set).map(|(key, _, remedy)| (key, remedy))
    }

    /// Returns the settings that the program does not honour if it resolves: for each whether it is
    /// set, and an accepted value.
    fn not_resolved_in_kernel(&self) -> impl Iterator<Item = (&'static str, bool, &'static str)> {
        let (upstream, resolves) = (&self.upstream, self.kernel.resolves());
        let device = &upstream.route.device;
        let answers = self.kernel.after_death == AfterDeath::Answer;
        let checks = [
            (
                "kernel.after-death",
                answers,
                "write \"detach\", since after the end no server takes upstream's replies",
            ),
            ("upstream.transport", !upstream.transport.is_datagram(), "write \"udp\""),
            ("upstream.weights", !upstream.weights.is_empty(), "write []"),
            ("upstream.via-prefix", upstream.via_prefix, "write false"),
            (
                "upstream.route.device",
                !(device.is_empty() || self.kernel.device.contains(device)),
                "write \"\" or one of kernel.device",
            ),
        ];
        checks.into_iter().filter(move |_| resolves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_the_kernel_does_not_honour_are_refused() {
        let on = "kernel = { device = [\"lan0\"], mode = \"cache\" }\n";
        let config = Config::parse(on).expect("it is right");
        assert!(config.kernel.is_on() && !Config::default().kernel.is_on());
        for (file, key) in [
            ("server.listen = [\"[::]:53\"]", "server.listen"),
            ("server.listen = [\"[::ffff:0.0.0.0]:53\"]", "server.listen"),
            ("server.proxies = [\"10.0.0.1\"]", "server.proxies"),
            ("server.log-queries = 1", "server.log-queries"),
            ("server.route.device = \"lan1\"", "server.route.device"),
            ("dnstap.socket = \"/run/x\"", "dnstap.socket"),
            ("upstream.client-subnet = \"add\"", "upstream.client-subnet"),
            ("cache.size = 0", "cache.size"),
            ("[[dns64]]\nprefix = \"64:ff9b::/96\"\npool = \"p\"", "dns64.pool"),
            ("[[view]]\nclients = [\"any\"]", "view"),
            ("[[dns64]]\nprefix = \"64:ff9b::/96\"\nipv4 = \"drop\"", "dns64.ipv4"),
        ] {
            let error = Config::parse(&format!("{on}{file}")).expect_err(file).to_string();
            assert!(error.starts_with(key) && error.contains("kernel.mode = \"off\""), "{error}");
            assert!(Config::parse(file).is_ok(), "{file}");
        }
        let all = on.replace("cache", "all");
        for (setting, key) in [
            ("upstream.transport = \"tcp\"", "upstream.transport"),
            ("upstream.via-prefix = true", "upstream.via-prefix"),
            ("upstream.servers = [\"192.0.2.1\"]\nupstream.weights = [1]", "upstream.weights"),
            ("upstream.route.device = \"lan1\"", "upstream.route.device"),
        ] {
            let error = Config::parse(&format!("{all}{setting}")).expect_err(setting).to_string();
            assert!(error.starts_with(key), "{error}");
            assert!(Config::parse(&format!("{on}{setting}")).is_ok(), "{setting}");
        }
        assert!(Config::parse(&all).expect("it is right").kernel.resolves());
        let answers =
            |config: &str| Config::parse(&config.replace(" }", ", after-death = \"answer\" }"));
        let error = answers(&all).expect_err("nobody takes replies").to_string();
        assert!(error.starts_with("kernel.after-death") && answers(on).is_ok(), "{error}");
        assert!(Config::parse(&format!("{on}server.route.device = \"lan0\"")).is_ok());
    }

    #[test]
    fn devices_and_sizes_are_checked() {
        for (file, parts) in [
            ("kernel.mode = \"cache\"", ["kernel.device", "1 to 64"]),
            ("kernel.device = [\"a/b\"]", ["kernel.device", "`a/b`"]),
            ("kernel.device = [\"\"]", ["kernel.device", "lan0"]),
            ("kernel.mode = \"some\"", ["line 1", "cache"]),
            ("kernel = { device = [\"a\"], mode = \"cache\", size = 5 }", ["kernel.size", "1MiB"]),
        ] {
            let error = Config::parse(file).expect_err(file).to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
