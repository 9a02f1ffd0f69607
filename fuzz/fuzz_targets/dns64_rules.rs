//! Rules of the DNS64 server for single names: any list and any policy zone is accepted, or refused with a line; any hosts file and any
//! leases are read.
#![no_main]

use std::sync::Arc;

use dns64::config::LeaseFormat;
use dns64::{RuleSets, Rules};
use dns64::rules::{Leases, RulesFormat};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (mut hosts, domain) = (Rules::default(), "lan".parse().expect("a name"));
    hosts.add_hosts(text);
    let leases = [LeaseFormat::Dnsmasq, LeaseFormat::Kea];
    hosts.add_leases(&leases.map(|format| Leases { format, texts: vec![text], domain: &domain }), 7);
    for format in [RulesFormat::List, RulesFormat::Zone] {
        let mut rules = RuleSets::default();
        match Arc::make_mut(&mut rules.common).add(format, text) {
            Ok(()) => assert!(rules.len() <= text.len()),
            Err(error) => assert!(error.line >= 1 && !error.problem.is_empty()),
        }
    }
});
