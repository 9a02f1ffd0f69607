//! The queries that a program in front of the server may resolve itself; it leaves all others to
//! the server.
//!
//! The plain case of DNS64 is a usual name, a client that one prefix serves, no AAAA record, and A
//! records at the name itself. All other cases belong to the server: the program passes such a
//! query on, with upstream's reply if it has one ([`ContinuedQuery`]).

use std::net::SocketAddr;

use engine::SocketId;
use wire::Name;

pub use crate::policy::PlainBlock;

use crate::clients::ClientClass;
use crate::config::{UpstreamConfig, ports};
use crate::extended_error::ExtendedError;
use crate::settings::Settings;
use crate::special;

/// A client's query over UDP that the server continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinuedQuery {
    /// The socket that would have received it.
    pub socket: SocketId,
    /// Address and port of the client, which gets the answer.
    pub client: SocketAddr,
    /// The client's query as received.
    pub message: Vec<u8>,
    /// The reply to a query for AAAA of its name, and the upstream server that sent it.
    pub reply: Option<(SocketAddr, Vec<u8>)>,
}

/// Rules for the names and clients that a program may resolve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRules {
    /// Blocks whose prefix may be used.
    pub blocks: Vec<PlainBlock>,
    /// Names at and below which the program resolves nothing, in lower case.
    pub apart: Vec<Name>,
    /// EDNS options of synthesised answers, in wire form.
    pub options: Vec<u8>,
}

impl Settings {
    /// Returns the rules for a program that has room for `most` names and as many networks; `None`
    /// if that is too little room.
    pub fn plain_rules(&self, most: usize) -> Option<PlainRules> {
        // Reverse names, and names that are answered locally.
        let mut apart: Vec<Name> = vec!["arpa".parse().expect("a constant name")];
        apart.extend(special::local_domains());
        apart.extend(self.policy.domains());
        let blocks: Vec<PlainBlock> = self.policy.plain_blocks().collect();
        let networks: usize = blocks.iter().map(|block| block.networks.len()).sum();
        if apart.len() + self.rules.len() > most || networks > most {
            return None;
        }
        apart.extend(self.rules.common.names().chain(self.rules.hosts.names()));
        let mut options = Vec::new();
        ExtendedError::Synthesized.push(&mut options);
        Some(PlainRules { blocks, apart, options })
    }

    /// Returns the block whose prefix alone serves these clients, for queries with RD and without CD and DO.
    pub fn plain_block(&self, clients: &ClientClass) -> Option<u32> {
        self.policy.plain_block(clients.views[1])
    }
}

impl UpstreamConfig {
    /// Returns whether queries may have this source port.
    pub fn is_usable(&self, port: u16) -> bool {
        ports::is_usable(port, &self.avoid_ports)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::rules::{RuleSets, RulesFormat};
    use crate::{Config, Settings};

    #[test]
    fn names_with_rules_are_apart() {
        let config = Config::parse(
            "[synthesis]\nnever = [\"Never.test\"]\nalways = [\"always.test\"]\nignore-nxdomain = [\"Broken.test\"]\n\
             [[forward]]\nzones = [\"Corp.test\"]\nservers = [\"192.0.2.1\"]",
        );
        let mut rules = RuleSets::default();
        Arc::make_mut(&mut rules.common)
            .add(RulesFormat::List, "a.test nxdomain\n*.b.test never\n")
            .expect("two rules");
        let settings = Settings::new(config.expect("it is right"), 1, [0; 16]).with_rules(rules);
        let plain = settings.plain_rules(100).expect("few names");
        for name in [
            "arpa",
            "localhost",
            "onion",
            "never.test",
            "always.test",
            "broken.test",
            "corp.test",
            "a.test",
            "b.test",
        ] {
            assert!(plain.apart.contains(&name.parse().expect("a name")), "{name}");
        }
        assert_eq!(plain.options, [0, 15, 0, 2, 0, 29]);
        assert_eq!(settings.plain_rules(5), None);
    }
}
