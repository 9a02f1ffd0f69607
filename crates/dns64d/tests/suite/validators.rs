//! Resolvers behind dns64d: BIND as a plain forwarder, and validating ones, Unbound and BIND with a trust anchor for a signed `arpa`, whose delegation of
//! `ipv4only.arpa` is insecure as in the real zone (RFC 8880).
//!
//! ```text
//!   client ──> Unbound or BIND, validates ──> dns64d ──> BIND, authoritative for the signed arpa
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use domain::base::iana::Rtype;
use wire::Pref64;

use crate::faults::{SYNTHESISED, ipv4_only};
use crate::kit::client::Query;
use crate::kit::held::Held;
use crate::kit::message::{Reply, Seen};
use crate::kit::server::{Kind, PREFIX, Server, free_port, unbound_forwarder};

/// The zone: what is delegated without a DS record, and one name to show that validation works.
const ARPA: &str = "$TTL 3600
@ SOA ns.arpa. host.arpa. 1 7200 3600 86400 300
@ NS ns.arpa.
ns A 127.0.0.1
v4 A 192.0.2.33
forged A 192.0.2.34
ipv4only NS ns.ipv4only.invalid.
170.0.0.192.in-addr NS ns.ipv4only.invalid.
171.0.0.192.in-addr NS ns.ipv4only.invalid.
www.deep A 192.0.2.40
www.deep TXT \"x\"
www.deep HTTPS 1 .
www.deep SRV 0 0 5060 v4
six.deep AAAA 2001:db8::40
six.deep A 192.0.2.41
mail.deep MX 10 www.deep
alias.deep CNAME www.deep
old.deep DNAME deep
*.wild.deep A 192.0.2.42
*.wild.deep TXT \"any\"
*.mail.deep MX 10 www.deep
*.alias.deep.other CNAME www.deep
dual A 192.0.2.43
dual A 127.0.0.43
dual HTTPS 1 www.deep ipv4hint=192.0.2.40
local A 127.0.0.44
gone.deep CNAME no.deep
to-six.deep CNAME six.deep
to-wild.deep CNAME a.wild.deep
chain.deep CNAME www.old.deep
long DNAME a23456789012345678901234567890123456789012345678901234567890.b23456789012345678901234567890123456789012345678901234567890.c23456789012345678901234567890123456789012345678901234567890.deep
a.b.c.deep CAA 0 issue \"x\"
many.deep SVCB 1 www.deep
many.deep PTR www.deep
many.deep NAPTR 1 1 \"s\" \"x\" \"\" www.deep
many.deep TLSA 3 1 1 0000000000000000000000000000000000000000000000000000000000000000
many.deep SSHFP 4 2 0000000000000000000000000000000000000000000000000000000000000000
many.deep LOC 47 0 0 N 19 0 0 E 100m
many.deep HINFO \"x\" \"y\"
open NS ns.open
ns.open A 127.0.0.1
closed NS ns.closed
closed DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000
ns.closed A 127.0.0.1
";

/// Names beside those of the zone: below wildcards, aliases and delegations, without records, and ones that do not exist.
const BESIDE: [&str; 24] = [
    "arpa",
    "deep.arpa",
    "c.deep.arpa",
    "b.c.deep.arpa",
    "wild.deep.arpa",
    "x.wild.deep.arpa",
    "y.z.wild.deep.arpa",
    "*.x.wild.deep.arpa",
    "x.mail.deep.arpa",
    "x.alias.deep.other.arpa",
    "other.arpa",
    "no.deep.arpa",
    "x.www.deep.arpa",
    "www.old.deep.arpa",
    "six.old.deep.arpa",
    "x.wild.old.deep.arpa",
    "no.old.deep.arpa",
    "alias.old.deep.arpa",
    "www.open.arpa",
    "www.closed.arpa",
    "x.ns.closed.arpa",
    "x.long.arpa",
    // Too long behind the alias.
    "d23456789012345678901234567890123456789012345678901234567890.e23456789012345678901234567890.long.arpa",
    "zz.arpa",
];
const TYPES: [&str; 20] = [
    "A", "AAAA", "TXT", "MX", "HTTPS", "SRV", "CAA", "CNAME", "NS", "SOA", "DNSKEY", "DS", "DNAME",
    "SVCB", "PTR", "NAPTR", "TLSA", "SSHFP", "LOC", "HINFO",
];
/// A way to deny that a name exists: options of the signer, and settings of dns64d.
#[derive(Clone, Copy, Debug)]
struct Denial {
    signer: &'static [&'static str],
    settings: &'static str,
    /// Whether validators get synthesised records, which some of them take for forged ones.
    synthesises: bool,
}

const LEAVE_SIGNED: &str = "synthesis.leave-alone = \"signed\"";
const DENIALS: [Denial; 3] = [
    Denial { signer: &[], settings: "", synthesises: false },
    Denial { signer: &["-3", "-", "-H", "0"], settings: LEAVE_SIGNED, synthesises: false },
    // With opt-out.
    Denial { signer: &["-3", "aabb", "-H", "1", "-A"], settings: "", synthesises: true },
];

/// Runs a program in `dir`; returns what it prints, or `None` if it is not installed.
fn run(dir: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(dir).output();
    let output = skip::unless_ok(output, format_args!("no {program} (package bind9-utils)"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Signs the zone in `dir`, with these options; returns the DNSKEY record of its key, or `None` if that cannot be done here.
fn sign(dir: &Path, options: &[&str]) -> Option<String> {
    fs::write(dir.join("arpa"), ARPA).expect("writes");
    let keygen = ["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "arpa"];
    let key = run(dir, "dnssec-keygen", &keygen)?;
    let key = key.trim();
    let signzone = [options, &["-q", "-S", "-z", "-o", "arpa", "arpa"]].concat();
    run(dir, "dnssec-signzone", &signzone)?;
    // The signature of one record does not fit its data.
    let signed = dir.join("arpa.signed");
    let zone = fs::read_to_string(&signed).expect("the signed zone");
    let forged = zone.replace("192.0.2.34", "192.0.2.35");
    assert_ne!(zone, forged, "the record is there");
    fs::write(&signed, forged).expect("writes");
    let text = fs::read_to_string(dir.join(format!("{key}.key"))).expect("the key");
    text.lines().find(|line| line.starts_with("arpa.")).map(str::to_owned)
}

/// A server of another make; it ends when dropped.
pub(crate) struct Daemon {
    child: Held,
    pub(crate) address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Daemon {
    /// Starts `program` in a folder of its own; `configure` writes its configuration for a port. Returns `None` if it
    /// is not installed.
    pub(crate) fn start(program: &str, configure: impl Fn(u16, &Path) -> String) -> Option<Self> {
        for _ in 0..3 {
            let dir = tempfile::tempdir().expect("a folder");
            let port = free_port();
            let file = dir.path().join("config");
            fs::write(&file, configure(port, dir.path())).expect("writes");
            let log = fs::File::create(dir.path().join("log")).expect("a log");
            let mut command = Command::new(program);
            match program {
                "unbound" => command.args(["-d", "-c"]),
                "kresd" => command.arg(dir.path()).args(["-n", "-c"]),
                _ => command.args(["-g", "-n", "1", "-c"]),
            };
            let log_too = log.try_clone().expect("a log");
            command.arg(&file).stdin(Stdio::null()).stdout(log_too).stderr(log);
            let child = skip::unless_ok(command.spawn(), format_args!("no {program}"))?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let mut daemon = Daemon { child: Held(child), address, dir };
            if daemon.answers(program) {
                return Some(daemon);
            }
        }
        panic!("{program} does not start")
    }

    /// Waits until it answers; returns `false` if it ends instead, for example since its port is taken.
    fn answers(&mut self, program: &str) -> bool {
        let ready = Query::parse(match program {
            // It has no answer of its own.
            "kresd" => "arpa SOA +tcp",
            _ => "version.bind TXT +class=CH +noedns +tcp",
        });
        for _ in 0..1_000 {
            if self.child.0.try_wait().expect("our own child").is_some() {
                return false;
            }
            if ready.ask(self.address, Duration::from_secs(5)).is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not answer: {}", self.log())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn ask(&self, query: &str) -> Reply {
        Query::parse(query)
            .ask(self.address, Duration::from_secs(20))
            .unwrap_or_else(|| panic!("no reply to {query}: {}", self.log()))
    }
}

/// Options of BIND for all its roles here.
pub(crate) fn bind(port: u16, dir: &Path, options: &str) -> String {
    let dir = dir.display();
    format!(
        "options {{ listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; directory \"{dir}\";
        pid-file none; session-keyfile \"{dir}/session.key\"; lock-file none; empty-zones-enable no;
        allow-query {{ any; }}; {options}
        controls {{ }};\n"
    )
}

/// Configuration of the authoritative server.
fn authority(port: u16, dir: &Path, zone: &Path, minimal: &str) -> String {
    let zone = zone.display();
    let options = format!("recursion no; dnssec-validation no; minimal-responses {minimal}; }};");
    bind(port, dir, &format!("{options} zone \"arpa\" {{ type primary; file \"{zone}\"; }};"))
}

/// Configuration of Unbound as a validator that forwards to `to`.
fn unbound(port: u16, dir: &Path, to: SocketAddr, key: &str) -> String {
    let server = format!(
        "access-control: 127.0.0.0/8 allow
        module-config: \"validator iterator\"
        trust-anchor: \"{key}\""
    );
    unbound_forwarder(port, dir, &[to], &server)
}

/// Configuration of BIND as a validator that forwards to `to`.
fn bind_validator(port: u16, dir: &Path, to: SocketAddr, key: &str) -> String {
    // `arpa. 3600 IN DNSKEY 257 3 13 KEY`
    let data: Vec<&str> = key.split_whitespace().skip_while(|word| *word != "DNSKEY").collect();
    let (numbers, key) = (data[1..4].join(" "), data[4..].concat());
    let options = format!(
        "recursion yes; allow-recursion {{ any; }}; dnssec-validation yes; qname-minimization off; forward only;
        forwarders {{ {} port {}; }}; }};
        trust-anchors {{ arpa. static-key {numbers} \"{key}\"; }};",
        to.ip(),
        to.port()
    );
    bind(port, dir, &options)
}

/// Configuration of Knot Resolver as a validator that forwards to `to`.
fn kresd(port: u16, _: &Path, to: SocketAddr, key: &str) -> String {
    let (ip, at) = (to.ip(), to.port());
    let key = key.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "net.listen('127.0.0.1', {port}, {{ kind = 'dns' }})
        for _, name in ipairs({{'ta_signal_query', 'ta_sentinel', 'priming', 'detect_time_skew', 'detect_time_jump'}}) do
            modules.unload(name)
        end
        trust_anchors.remove('.')
        trust_anchors.add('{key}')
        cache.size = 10 * MB
        policy.add(policy.all(policy.FORWARD('{ip}@{at}')))\n"
    )
}

/// Configuration of a validator: its port, its folder, the server that it asks, its trust anchor.
type Configure = fn(u16, &Path, SocketAddr, &str) -> String;

/// Starts all servers and checks what the clients of `validator` get; `configure` is its configuration.
fn check(validator: &str, configure: Configure) {
    let zone = tempfile::tempdir().expect("a folder");
    let Some(key) = sign(zone.path(), &[]) else { return };
    let file = zone.path().join("arpa.signed");
    let Some(authority) = Daemon::start("named", |port, dir| authority(port, dir, &file, "yes"))
    else {
        return;
    };
    let server = Server::start(Kind::Dns64d, &[authority.address], "").expect("it starts");
    let to = server.address();
    let Some(validator) = Daemon::start(validator, |port, dir| configure(port, dir, to, &key))
    else {
        return;
    };
    // It validates.
    let good = validator.ask("v4.arpa A +do");
    assert!(good.rcode == "NOERROR" && good.flags.contains(&"ad"), "{good}\n{}", validator.log());
    assert_eq!(validator.ask("forged.arpa A +do").rcode, "SERVFAIL");
    // Hosts find the prefix through it.
    for (query, data) in [
        ("ipv4only.arpa AAAA", &["2001:db8:64::c000:aa", "2001:db8:64::c000:ab"][..]),
        ("ipv4only.arpa A", &["192.0.0.170", "192.0.0.171"]),
        ("170.0.0.192.in-addr.arpa PTR", &["ipv4only.arpa."]),
    ] {
        let reply = validator.ask(query);
        let mut seen: Vec<&str> = reply.answer.iter().map(|seen| seen.data.as_str()).collect();
        seen.sort();
        assert_eq!((reply.rcode.as_str(), &seen[..]), ("NOERROR", data), "{query}: {reply}");
    }
    assert_eq!(validator.ask("ipv4only.arpa DS").rcode, "NOERROR");
}

/// Returns all names of the zone but those that dns64d answers itself, and names beside them.
fn names() -> Vec<String> {
    let lines = ARPA.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let owners = lines.filter(|owner| *owner != "@" && !owner.starts_with("ipv4only"));
    let owners = owners.filter(|owner| !owner.ends_with("in-addr")).map(|o| format!("{o}.arpa"));
    let names: BTreeSet<String> = owners.chain(BESIDE.map(str::to_owned)).collect();
    names.into_iter().collect()
}

/// Returns what a server says of all names and types.
fn replies(server: &Daemon, names: &[String]) -> Vec<Reply> {
    let queries = names.iter().flat_map(|name| TYPES.map(|rtype| format!("{name} {rtype} +do")));
    queries.map(|query| server.ask(&query)).collect()
}

/// Returns what the client of a validator sees of a reply: the return code, AD, and the number of
/// records.
fn status(reply: &Reply) -> (&str, bool, usize) {
    (&reply.rcode, reply.flags.contains(&"ad"), reply.answer.len())
}

/// Returns the data of the records of a type in a reply.
fn data_of(reply: &Reply, rtype: Rtype) -> BTreeSet<&str> {
    let own = reply.answer.iter().filter(|seen| seen.rtype == rtype);
    own.map(|seen| seen.data.as_str()).collect()
}

/// Returns the addresses that are due to a name: of its A records that are mapped, if it has no
/// AAAA records.
fn due(authority: &Daemon, name: &str) -> BTreeSet<String> {
    let [aaaa, a] = ["AAAA", "A"].map(|rtype| authority.ask(&format!("{name} {rtype}")));
    if !data_of(&aaaa, Rtype::AAAA).is_empty() {
        return BTreeSet::new();
    }
    let addresses = data_of(&a, Rtype::A).into_iter().map(|a| a.parse().expect("an address"));
    let mapped = addresses.filter(|address: &Ipv4Addr| !address.is_loopback());
    let prefix: Pref64 = PREFIX.parse().expect("a prefix");
    mapped.map(|a| prefix.embed(a).to_string()).collect()
}

/// Checks that a validator behind dns64d says of all names what it says without dns64d, with one way to deny that a name exists. Where
/// synthesis is due the answer may be another one.
fn compare(denial: Denial, validator: &str, configure: Configure) {
    let zone = tempfile::tempdir().expect("a folder");
    let Some(key) = sign(zone.path(), denial.signer) else { return };
    let file = zone.path().join("arpa.signed");
    let start = |port: u16, dir: &Path| authority(port, dir, &file, "no");
    let Some(authority) = Daemon::start("named", start) else { return };
    let server = Server::start(Kind::Dns64d, &[authority.address], denial.settings);
    let server = server.expect("it starts");
    let names = names();
    for name in &names {
        for rtype in TYPES {
            // What a validator itself asks stays as it is.
            let query = format!("{name} {rtype} +do +cd");
            let [one, other] = [&server.ask(&query), &authority.ask(&query)].map(essence);
            assert_eq!(one, other, "{denial:?} {query}");
        }
    }
    let [behind, without] = [server.address(), authority.address]
        .map(|to| Daemon::start(validator, |port, dir| configure(port, dir, to, &key)));
    let (Some(behind), Some(without)) = (behind, without) else { return };
    let [ours, others] = [&behind, &without].map(|server| replies(server, &names));
    let queries = names.iter().flat_map(|name| TYPES.map(|rtype| (name, rtype)));
    for ((name, rtype), (one, other)) in queries.zip(ours.iter().zip(&others)) {
        let is_due =
            || denial.synthesises && rtype == "AAAA" && is_synthesised(one, &due(&authority, name));
        if status(one) != status(other) && !is_due() {
            panic!("{denial:?} {name} {rtype}: {one}, but {other}: {}", behind.log());
        }
    }
}

/// Returns whether the client of a validator that asks without CD gets what it can get where these
/// addresses are due: they are taken for forged, or are there, all of them and no others, but never
/// as authentic.
fn is_synthesised(reply: &Reply, due: &BTreeSet<String>) -> bool {
    let (rcode, is_authentic, count) = status(reply);
    let seen = data_of(reply, Rtype::AAAA);
    let are_there = rcode == "NOERROR" && seen.iter().eq(due);
    !due.is_empty() && !is_authentic && (are_there || rcode == "SERVFAIL" && count == 0)
}

/// Returns what a validator needs of a reply: the return code, the answer, and the proofs beside it.
fn essence(reply: &Reply) -> (String, BTreeSet<String>) {
    let proof = |seen: &&Seen| !matches!(seen.rtype, Rtype::NS) && !seen.data.starts_with("ns ");
    let records = reply.answer.iter().chain(reply.authority.iter().filter(proof));
    let text = |seen: &Seen| format!("{} {} {}", seen.owner, seen.rtype, seen.data);
    (reply.rcode.clone(), records.map(text).collect())
}

#[test]
fn all_names_of_a_signed_zone_are_the_same_for_validators() {
    let validators: [(&str, Configure); 3] =
        [("unbound", unbound), ("named", bind_validator), ("kresd", kresd)];
    for (validator, configure) in validators {
        for denial in DENIALS {
            compare(denial, validator, configure);
        }
    }
}

#[test]
fn validators_find_ipv4only_arpa_usable() {
    check("unbound", unbound);
    check("named", bind_validator);
}

#[test]
fn clients_of_a_forwarding_bind_get_synthesised_records_if_so_configured() {
    let script = ipv4_only();
    let leave_signed = "synthesis.leave-alone = \"signed\"";
    for (config, answers) in [("", &[][..]), (leave_signed, &[SYNTHESISED])] {
        let server = Server::start(Kind::Dns64d, &[script.address()], config).expect("it starts");
        let to = server.address();
        let forwarder = Daemon::start("named", |port, dir| {
            let options = format!(
                "recursion yes; allow-recursion {{ any; }}; dnssec-validation no; forward only;
                forwarders {{ {} port {}; }}; }};",
                to.ip(),
                to.port()
            );
            bind(port, dir, &options)
        });
        let Some(forwarder) = forwarder else { return };
        // It sets DO and CD, whatever its client sets.
        let reply = forwarder.ask("v4.example AAAA");
        let seen: Vec<&str> = reply.answer.iter().map(|seen| seen.data.as_str()).collect();
        assert_eq!((reply.rcode.as_str(), &seen[..]), ("NOERROR", answers), "{config}: {reply}");
    }
}
