//! systemd-resolved in front of dns64d, as on a desktop: without systemd as the first process and without D-Bus, in namespaces
//! of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::faults::{MAX_WAIT, SYNTHESISED, dns64d, ipv4_only, wait_for};
use crate::kit::client::Query;
use crate::kit::held::Held;
use crate::kit::message::Reply;
use crate::nat64::in_namespace;

/// Starts it for an upstream, as an ordinary user with a /run of its own; `None` if it is not there.
fn start(upstream: SocketAddr, log: &Path) -> Option<Held> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/resolved/lib/systemd");
    if !Path::new(folder).join("systemd-resolved").exists() {
        return skip::none("no systemd-resolved: scripts/install-resolved unpacks it");
    }
    let script = format!(
        "caps=+net_bind_service,+net_raw,+setpcap; mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/resolve /run/systemd/resolved.conf.d /run/dbus && \
         printf '[Resolve]\\nDNS={upstream}\\nDomains=~.\\nFallbackDNS=\\nDNSSEC=no\\nLLMNR=no\\nMulticastDNS=no\\nCache=no\\n' \
         >/run/systemd/resolved.conf.d/test.conf && chown -R 65534:65534 /run/systemd/resolve && \
         exec env LD_LIBRARY_PATH=\"$0\" SYSTEMD_LOG_LEVEL=debug \
         setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps $caps --ambient-caps $caps \"$0/systemd-resolved\""
    );
    let log = std::fs::File::create(log).expect("a log");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script, folder])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Some(Held(command.stderr(log).spawn().expect("util-linux")))
}

/// A link that is up: without one it answers nothing, whatever its server.
const LINK: [&str; 4] = [
    "ip link add host0 type veth peer name router0",
    "ip addr add 198.51.100.9/24 dev host0",
    "ip link set host0 up",
    "ip link set router0 up",
];

#[test]
fn names_resolve_through_systemd_resolved() {
    in_namespace(&LINK, || {
        let upstream = ipv4_only();
        let server = dns64d(&[&upstream], "");
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("log");
        let Some(mut resolved) = start(server.address(), &log) else { return };
        let stub = "127.0.0.53:53".parse().expect("an address");
        let ask = |query: &str| Query::parse(query).ask(stub, MAX_WAIT);
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_for("its stub answers", || {
            assert!(resolved.0.try_wait().expect("our own child").is_none(), "{}", said());
            let ready = Query::parse("ready.example AAAA").ask(stub, Duration::from_secs(2));
            ready.is_some_and(|reply| reply.rcode == "NOERROR")
        });
        let data = |reply: Option<Reply>| -> Vec<String> {
            let mut all: Vec<_> =
                reply.into_iter().flat_map(|r| r.answer).map(|r| r.data).collect();
            all.sort();
            all
        };
        assert_eq!(data(ask("www.example AAAA")), [SYNTHESISED], "{}", said());
        assert_eq!(data(ask("www.example AAAA +tcp")), [SYNTHESISED], "{}", said());
        assert_eq!(data(ask("www.example A")), ["192.0.2.33"], "{}", said());
        let prefix = ["2001:db8:64::c000:aa", "2001:db8:64::c000:ab"];
        assert_eq!(data(ask("ipv4only.arpa AAAA")), prefix, "{}", said());
    });
}
