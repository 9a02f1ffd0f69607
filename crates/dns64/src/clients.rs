//! Clients by network: what the rules say about all addresses of a network at once.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::policy::View;
use crate::question::KeyFlags;
use crate::settings::Settings;

/// Clients in a network, except clients of smaller networks with their own entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientClass {
    /// The network, which may contain smaller ones with entries of their own.
    pub network: IpNet,
    /// Whether the clients of the network may send queries.
    pub allowed: bool,
    /// Blocks that serve queries without RD, with RD, and both again for queries with DO and CD.
    pub views: [View; 4],
}

impl Settings {
    /// Returns all clients by network, IPv4 and IPv6. The longest network that contains a client decides: it is within all
    /// networks of the rules that contain the client. The clients of pools depend on more than their network.
    pub fn client_classes(&self) -> Vec<ClientClass> {
        let server = &self.config.server;
        let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        let rules = server.allow.iter().chain(&server.deny).chain(self.policy.client_networks());
        let mut networks: Vec<IpNet> = all.iter().chain(rules).map(IpNet::trunc).collect();
        networks.sort_unstable();
        networks.dedup();
        networks.into_iter().map(|network| self.class_of(network)).collect()
    }

    fn class_of(&self, network: IpNet) -> ClientClass {
        let view = self.policy.view_of_network(network);
        let views = [0u8, 1, 2, 3].map(|bits| {
            let validates = bits & 2 != 0;
            let flags = KeyFlags { rd: bits & 1 != 0, cd: validates, dnssec: validates };
            self.policy.permitted(view, flags)
        });
        ClientClass { network, allowed: self.config.server.permits_network(network), views }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::Config;

    const FILE: &str = "server.allow = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n\
        server.deny = [\"10.1.0.0/16\", \"2001:db8:1::/48\", \"2001:db8:2::1\"]\n\
        [[dns64]]\nprefix = \"2001:db8:a::/96\"\nclients = [\"10.0.0.0/9\", \"2001:db8:2::/48\"]\nrecursive-only = true\n\
        [[dns64]]\nprefix = \"2001:db8:b::/96\"\nclients = [\"10.1.2.0/24\", \"2001:db8::/33\"]\nbreak-dnssec = true\n\
        [[dns64]]\nprefix = \"2001:db8:c::/96\"\nfollow = \"upstream\"";

    /// Addresses near the bounds of networks.
    fn address() -> impl Strategy<Value = IpAddr> {
        let v4 = prop::sample::select(vec![0x0a00_0000u32, 0x0a01_0000, 0x0a01_0200, 0x0a80_0000]);
        let v6 = prop::sample::select(vec![1u128, 0x2_0000, 0x1_0000, 0x8000_0000]);
        prop_oneof![
            (v4, 0u32..600).prop_map(|(at, by)| IpAddr::V4((at + by - 300).into())),
            (v6, 0u128..3, 0u32..90).prop_map(|(rest, by, shift)| {
                IpAddr::V6(((0x2001_0db8 << 96 | rest << 64) + (by << shift)).into())
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_class_is_what_the_rules_say_of_its_clients(client in address(), bits in 0usize..4) {
            let settings = Settings::new(Config::parse(FILE).expect("it is right"), 1, [0; 16]);
            let classes = settings.client_classes();
            let within = classes.iter().filter(|class| class.network.contains(&client));
            let class = within.max_by_key(|class| class.network.prefix_len()).expect("all have one");
            prop_assert_eq!(class.allowed, settings.config.server.permits(client));
            let (rd, validates) = (bits & 1 != 0, bits & 2 != 0);
            let flags = KeyFlags { rd, cd: validates, dnssec: validates };
            let view = settings.policy.permitted(settings.policy.view(client), flags);
            prop_assert_eq!(class.views[bits], view);
        }
    }
}
