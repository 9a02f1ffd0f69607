//! Defaults of all settings; `defaults.toml` has the same as text.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::Nanos;

use super::view::{default_authorities, https_path};
use super::*;

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: vec![
                SocketAddr::from((Ipv4Addr::LOCALHOST, 53)),
                SocketAddr::from((Ipv6Addr::LOCALHOST, 53)),
            ],
            workers: 0,
            stream_threads: 0,
            cpus: Vec::new(),
            designate: DesignateConfig::default(),
            allow: vec![
                IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
                IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
            ],
            deny: Vec::new(),
            denied: Denied::Refuse,
            proxies: Vec::new(),
            minimal_any: true,
            max_udp_size: 1_232,
            socket_buffer: Bytes(4 << 20),
            route: RouteConfig::default(),
            user: String::new(),
            restrict_files: true,
            log: LogLevel::Info,
            log_format: LogFormat::Text,
            log_queries: 0,
        }
    }
}

impl Default for KernelConfig {
    fn default() -> Self {
        KernelConfig {
            device: Vec::new(),
            xdp: XdpKind::Native,
            mode: KernelMode::Off,
            size: Bytes(64 << 20),
            after_death: AfterDeath::Detach,
        }
    }
}

impl Default for DnstapConfig {
    fn default() -> Self {
        DnstapConfig {
            socket: PathBuf::new(),
            identity: String::new(),
            queries: true,
            answers: true,
        }
    }
}

impl Default for SynthesisConfig {
    fn default() -> Self {
        let mapped = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0);
        SynthesisConfig {
            exclude: vec![Ipv6Net::new_assert(mapped, 96)],
            never: Vec::new(),
            ignore_nxdomain: Vec::new(),
            always: Vec::new(),
            on_error: OnError::AskA,
            on_timeout: OnTimeout::AskA,
            ttl_without_soa: 600,
            parallel: false,
            ptr: PtrMode::Cname,
            ptr_zone: "nat64.arpa".parse().expect("the default zone is a valid name"),
            ipv4only_arpa: true,
            recursive_only: false,
            break_dnssec: false,
            leave_alone: LeaveAlone::Cd,
            service_targets: true,
            ipv4hint: HintMode::Keep,
        }
    }
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        UpstreamConfig {
            servers: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 5353))],
            via_prefix: false,
            weights: Vec::new(),
            source: Vec::new(),
            route: RouteConfig::default(),
            transport: measure::Transport::Udp,
            tls_name: String::new(),
            tls_authorities: default_authorities(),
            https_path: https_path(),
            first_timeout: Nanos::from_millis(400),
            min_timeout: Nanos::from_millis(30),
            attempts: 8,
            give_up_after: Nanos::from_secs(3),
            dead_after: 5,
            probe_after: Nanos::from_millis(250),
            source_ports: 128,
            avoid_ports: [1_434, 1_900, 5_353, 11_211].map(PortRange::of).into(),
            port_share: 0.25,
            port_lifetime: Nanos::from_secs(1),
            client_subnet: ClientSubnet::Drop,
            client_subnet_ipv4_bits: 24,
            client_subnet_ipv6_bits: 56,
            trust_ad: TrustAd::Secure,
            mixed_case: true,
            cookies: true,
            udp_size: 1_232,
            tcp_connections: 4,
            tcp_timeout: Nanos::from_secs(3),
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            size: Bytes(64 << 20),
            min_ttl: Nanos::ZERO,
            max_ttl: Nanos::from_secs(86_400),
            max_negative_ttl: Nanos::from_secs(3_600),
            failure_ttl: Nanos::from_secs(1),
            serve_stale: Nanos::ZERO,
            stale_ttl: Nanos::from_secs(30),
            prefetch: false,
            snapshot: PathBuf::new(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsConfig {
            memory: Bytes(256 << 20),
            outstanding: 65_536,
            client_share: 0.5,
            client_memory_share: 0.25,
            overload: Overload::RefuseNewest,
            client_ipv4_bits: 32,
            client_ipv6_bits: 64,
            responses_per_second: 0,
            same_responses_per_second: 0,
            slip: 2,
            tcp_connections: 1_000,
            tcp_connections_per_client: 100,
            tcp_pipelined: 100,
            tcp_idle: Nanos::from_secs(10),
        }
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        MetricsConfig {
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9_964))),
            allow: super::text::all_networks(),
        }
    }
}
