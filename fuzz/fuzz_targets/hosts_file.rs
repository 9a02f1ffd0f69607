//! Files with the hosts of a job: what is accepted reads back the same, and no host in it is an option or has a sign of a shell.
#![no_main]

use lab::job::{BadHosts, Hosts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match text.parse::<Hosts>() {
    Ok(hosts) => {
        assert_eq!(hosts.to_string().parse().as_ref(), Ok(&hosts));
        let parts = hosts.dut.iter().chain(&hosts.auth).map(|part| &part.host);
        for host in [&hosts.conductor].into_iter().chain(&hosts.testers).chain(parts) {
            assert!(!host.starts_with('-'));
            assert!(host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_@:".contains(c)));
        }
    }
    Err(BadHosts::Line { line, .. }) => assert!((1..=text.lines().count()).contains(&line)),
    Err(_) => {}
});
