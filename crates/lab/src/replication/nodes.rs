//! How each server is told to be a primary that takes updates, or a secondary.

use std::fmt::Write as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use super::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET, NodeError};

/// A server that replicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// BIND 9.
    Bind9,
    /// Knot DNS.
    Knot,
    /// NSD; it takes no updates.
    Nsd,
    /// YADIFA.
    Yadifa,
    /// PowerDNS with its LMDB backend; as a primary it gives no IXFR.
    Pdns,
}

/// What a server is.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// It takes updates and notifies the secondaries.
    Primary {
        /// Their addresses.
        secondaries: &'a [SocketAddrV4],
        /// The zone's file, which it gets a copy of.
        zone_file: &'a Path,
        /// How the zone is signed.
        signing: Signing,
    },
    /// It follows a primary.
    Secondary {
        /// Where that is.
        primary: SocketAddrV4,
    },
}

/// How a primary's zone is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// It is not.
    Unsigned,
    /// The primary makes keys and signs it.
    ByPrimary,
    /// Its file holds the signatures.
    InFile,
}

/// What a server has to do.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// What it is.
    pub role: Role<'a>,
    /// The zone's name, without a closing dot.
    pub zone: &'a str,
    /// Where it listens.
    pub address: SocketAddrV4,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Bind9, Kind::Knot, Kind::Nsd, Kind::Yadifa, Kind::Pdns];

    /// Its name in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bind9 => "bind9",
            Kind::Knot => "knot",
            Kind::Nsd => "nsd",
            Kind::Yadifa => "yadifa",
            Kind::Pdns => "pdns",
        }
    }

    /// The server of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The servers of names joined by `+`: one primary's secondaries.
    pub fn group(names: &str) -> Option<Vec<Self>> {
        names.split('+').map(Self::from_name).collect()
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Bind9 => "BIND 9",
            Kind::Knot => "Knot DNS",
            Kind::Nsd => "NSD",
            Kind::Yadifa => "YADIFA",
            Kind::Pdns => "PowerDNS",
        }
    }

    /// Whether it can be a primary here.
    pub fn takes_updates(self) -> bool {
        self != Kind::Nsd
    }

    /// Whether it makes keys for its zone and signs it by itself.
    pub fn signs(self) -> bool {
        matches!(self, Kind::Bind9 | Kind::Knot | Kind::Pdns)
    }

    /// Whether it serves a file that is signed as it is: PowerDNS wants its own order and hashes with it.
    pub fn serves_signed_files(self) -> bool {
        self != Kind::Pdns
    }

    /// Whether it can follow a primary: YADIFA 2.6 calls Knot DNS's AXFR an UNPROCESSABLE_MESSAGE.
    pub fn follows(self, primary: Kind) -> bool {
        !(self == Kind::Yadifa && primary == Kind::Knot)
    }

    /// Its program on this machine.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn program(self) -> Result<PathBuf, NodeError> {
        let (program, package) = match self {
            Kind::Bind9 => ("named", "bind9"),
            Kind::Knot => ("knotd", "knot"),
            Kind::Nsd => ("nsd", "nsd"),
            Kind::Yadifa => ("yadifad", "yadifa"),
            Kind::Pdns => ("pdns_server", "pdns-server pdns-backend-lmdb"),
        };
        crate::signer::find(program).ok_or(NodeError::Missing { title: self.title(), package })
    }

    /// Its arguments: in the foreground, with the configuration in `dir`.
    pub(super) fn arguments(self, dir: &Path) -> Vec<String> {
        let file = |name: &str| dir.join(name).display().to_string();
        match self {
            Kind::Bind9 => ["-g", "-n", "1", "-c", &file("named.conf")].map(str::to_owned).into(),
            Kind::Knot => ["-c", &file("knot.conf")].map(str::to_owned).into(),
            Kind::Nsd => ["-d", "-c", &file("nsd.conf")].map(str::to_owned).into(),
            Kind::Yadifa => ["--nodaemon", "-c", &file("yadifad.conf")].map(str::to_owned).into(),
            Kind::Pdns => vec![format!("--config-dir={}", dir.display())],
        }
    }

    /// Its configuration and zone: names of files in `dir`, and what is in them.
    pub(super) fn files(self, task: &Task<'_>, dir: &Path) -> Vec<(String, String)> {
        let mut files = vec![match self {
            Kind::Bind9 => ("named.conf".to_owned(), bind(task, dir)),
            Kind::Knot => ("knot.conf".to_owned(), knot(task, dir)),
            Kind::Nsd => ("nsd.conf".to_owned(), nsd(task, dir)),
            Kind::Yadifa => ("yadifad.conf".to_owned(), yadifa(task, dir)),
            Kind::Pdns => ("pdns.conf".to_owned(), pdns(task, dir)),
        }];
        // Folders that they do not make, and fail without.
        let folders: &[&str] = match self {
            Kind::Knot => &["db"],
            Kind::Yadifa => &["keys", "xfr"],
            _ => &[],
        };
        for folder in folders {
            files.push((format!("{folder}/README"), "A folder of the server.\n".to_owned()));
        }
        files
    }

    /// What is run before its start, in its folder: programs and their arguments.
    pub(super) fn preparation(self, task: &Task<'_>) -> Vec<(&'static str, Vec<String>)> {
        if self != Kind::Pdns {
            return Vec::new();
        }
        let zone = task.zone;
        let mut steps = Vec::new();
        match task.role {
            Role::Primary { secondaries, signing, .. } => {
                steps.push(format!("load-zone {zone} zone"));
                steps.push(format!("set-kind {zone} primary"));
                steps.push(format!("set-meta {zone} TSIG-ALLOW-DNSUPDATE {KEY_NAME}"));
                steps.push(format!("set-meta {zone} TSIG-ALLOW-AXFR {KEY_NAME}"));
                steps.push(format!("set-meta {zone} NOTIFY-DNSUPDATE 1"));
                let others: Vec<_> = secondaries.iter().map(ToString::to_string).collect();
                if !others.is_empty() {
                    steps.push(format!("set-meta {zone} ALSO-NOTIFY {}", others.join(" ")));
                }
                if signing == Signing::ByPrimary {
                    steps.push(format!("secure-zone {zone}"));
                }
            }
            Role::Secondary { primary } => {
                steps.push(format!("create-secondary-zone {zone} {primary}"));
                steps.push(format!("set-meta {zone} AXFR-MASTER-TSIG {KEY_NAME}"));
                steps.push(format!("set-meta {zone} IXFR 1"));
            }
        }
        steps.push(format!("import-tsig-key {KEY_NAME} {KEY_ALGORITHM} {KEY_SECRET}"));
        let words = |step: &String| {
            std::iter::once("--config-dir=.")
                .chain(step.split(' '))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        steps.iter().map(|step| ("pdnsutil", words(step))).collect()
    }

    /// Takes away what says that a killed process still runs.
    pub(super) fn forget_process(self, dir: &Path) {
        let file = match self {
            Kind::Knot => "knot.pid",
            Kind::Yadifa => "yadifad.pid",
            _ => return,
        };
        // It may never have been written.
        let _ = std::fs::remove_file(dir.join(file));
    }
}

/// Text with `write!`, which does not fail for a String.
macro_rules! add {
    ($text:expr, $($what:tt)*) => {{ let _ = writeln!($text, $($what)*); }};
}

fn bind(task: &Task<'_>, dir: &Path) -> String {
    let (dir, zone) = (dir.display(), task.zone);
    let (address, port) = (task.address.ip(), task.address.port());
    let mut text = String::new();
    add!(text, "options {{");
    add!(
        text,
        "  directory \"{dir}\"; pid-file none; lock-file none; session-keyfile \"{dir}/session.key\";"
    );
    add!(
        text,
        "  managed-keys-directory \"{dir}\"; recursion no; dnssec-validation no; querylog no;"
    );
    add!(text, "  listen-on port {port} {{ {address}; }}; listen-on-v6 {{ none; }};");
    add!(
        text,
        "  notify-source {address}; transfer-source {address}; query-source address {address};"
    );
    // Five seconds and twenty a second in a stock configuration.
    add!(text, "  notify-delay 0; notify-rate 1000; serial-query-rate 1000;");
    add!(text, "  allow-transfer {{ key {KEY_NAME}; }};");
    add!(text, "}};\ncontrols {{ }};");
    add!(text, "key {KEY_NAME} {{ algorithm {KEY_ALGORITHM}; secret \"{KEY_SECRET}\"; }};");
    add!(
        text,
        "logging {{ channel log {{ stderr; severity warning; }}; category default {{ log; }}; }};"
    );
    add!(text, "zone \"{zone}\" {{");
    match task.role {
        Role::Primary { secondaries, signing, .. } => {
            add!(
                text,
                "  type primary; file \"zone\"; check-integrity no; allow-update {{ key {KEY_NAME}; }};"
            );
            add!(text, "  notify explicit; also-notify {{");
            secondaries
                .iter()
                .for_each(|to| add!(text, "    {} port {} key {KEY_NAME};", to.ip(), to.port()));
            add!(text, "  }};");
            if signing == Signing::ByPrimary {
                add!(text, "  dnssec-policy default; key-directory \"{dir}\"; inline-signing no;");
            }
        }
        Role::Secondary { primary } => {
            add!(text, "  type secondary; file \"zone\"; notify no;");
            add!(
                text,
                "  primaries {{ {} port {} key {KEY_NAME}; }}; allow-notify {{ {}; }};",
                primary.ip(),
                primary.port(),
                primary.ip()
            );
        }
    }
    add!(text, "}};");
    text
}

fn knot(task: &Task<'_>, dir: &Path) -> String {
    let (dir, zone) = (dir.display(), task.zone);
    let (address, port) = (task.address.ip(), task.address.port());
    let mut text = String::new();
    add!(text, "server:\n  rundir: \"{dir}\"\n  listen: {address}@{port}");
    add!(text, "  udp-workers: 1\n  tcp-workers: 2\n  background-workers: 2");
    add!(
        text,
        "log:\n  - target: stderr\n    any: warning\ncontrol:\n  listen: \"{dir}/knot.sock\""
    );
    add!(
        text,
        "database:\n  storage: \"{dir}/db\"\n  timer-db-max-size: 16M\n  kasp-db-max-size: 64M"
    );
    add!(
        text,
        "key:\n  - id: {KEY_NAME}\n    algorithm: {KEY_ALGORITHM}\n    secret: {KEY_SECRET}"
    );
    add!(text, "remote:");
    let others = match task.role {
        Role::Primary { secondaries, .. } => secondaries.to_vec(),
        Role::Secondary { primary } => vec![primary],
    };
    for (number, other) in others.iter().enumerate() {
        add!(
            text,
            "  - id: other{number}\n    address: {}@{}\n    via: {address}\n    key: {KEY_NAME}",
            other.ip(),
            other.port()
        );
    }
    if others.is_empty() {
        // A list may not be empty.
        add!(text, "  - id: nobody\n    address: {address}@{port}");
    }
    add!(text, "acl:\n  - id: lab\n    key: {KEY_NAME}\n    action: [update, transfer, notify]");
    add!(text, "zone:\n  - domain: {zone}\n    storage: \"{dir}\"\n    file: zone\n    acl: lab");
    add!(text, "    zonefile-sync: -1\n    journal-content: changes\n    semantic-checks: off");
    let names: Vec<String> = (0..others.len()).map(|number| format!("other{number}")).collect();
    match task.role {
        Role::Primary { signing, .. } => {
            if !names.is_empty() {
                add!(text, "    notify: [{}]", names.join(", "));
            }
            if signing == Signing::ByPrimary {
                add!(text, "    dnssec-signing: on");
            }
        }
        Role::Secondary { .. } => {
            add!(text, "    master: [{}]\n    zonefile-load: none", names.join(", "))
        }
    }
    text
}

fn nsd(task: &Task<'_>, dir: &Path) -> String {
    let (dir, zone) = (dir.display(), task.zone);
    let (address, port) = (task.address.ip(), task.address.port());
    let mut text = String::new();
    add!(
        text,
        "server:\n  server-count: 1\n  ip-address: {address}@{port}\n  username: \"\"\n  chroot: \"\""
    );
    add!(
        text,
        "  zonesdir: \"{dir}\"\n  database: \"\"\n  zonelistfile: \"{dir}/zone.list\"\n  pidfile: \"\""
    );
    add!(
        text,
        "  xfrdfile: \"{dir}/xfrd.state\"\n  xfrdir: \"{dir}\"\n  verbosity: 0\n  rrl-ratelimit: 0"
    );
    // A second between reloads in a stock configuration; none here, as the others have none.
    add!(text, "  xfrd-reload-timeout: 0");
    add!(text, "remote-control:\n  control-enable: no");
    add!(
        text,
        "key:\n  name: {KEY_NAME}\n  algorithm: {KEY_ALGORITHM}\n  secret: \"{KEY_SECRET}\""
    );
    add!(text, "zone:\n  name: {zone}\n  zonefile: zone");
    if let Role::Secondary { primary } = task.role {
        let (from, at) = (primary.ip(), primary.port());
        add!(text, "  allow-notify: {from} {KEY_NAME}\n  allow-notify: {from} NOKEY");
        add!(text, "  request-xfr: {from}@{at} {KEY_NAME}\n  outgoing-interface: {address}");
    }
    text
}

fn yadifa(task: &Task<'_>, dir: &Path) -> String {
    let (dir, zone) = (dir.display(), task.zone);
    let (address, port) = (task.address.ip(), task.address.port());
    let primary = matches!(task.role, Role::Primary { .. });
    let allowed = if primary { format!("key {KEY_NAME}") } else { "none".to_owned() };
    let mut text = String::new();
    add!(text, "<main>\n  daemon off\n  chroot off\n  statistics off\n  queries-log-type 0");
    add!(text, "  logpath \"{dir}\"\n  pidfile \"{dir}/yadifad.pid\"\n  datapath \"{dir}\"");
    add!(text, "  keyspath \"{dir}/keys\"\n  xfrpath \"{dir}/xfr\"");
    add!(text, "  listen {address} port {port}\n  thread-count-by-address 1");
    add!(text, "  allow-query any\n  allow-notify any\n  allow-control none");
    add!(text, "  allow-update {allowed}\n  allow-transfer {allowed}\n</main>");
    add!(text, "<rrl>\n  enabled false\n</rrl>");
    add!(
        text,
        "<key>\n  name {KEY_NAME}\n  algorithm {KEY_ALGORITHM}\n  secret {KEY_SECRET}\n</key>"
    );
    add!(text, "<channels>\n  stderr STDERR\n</channels>\n<loggers>");
    for part in ["database", "server", "system", "zone"] {
        add!(text, "  {part} EMERG,ALERT,CRIT,ERR stderr");
    }
    add!(text, "</loggers>\n<zone>\n  domain {zone}\n  file \"zone\"\n  notify-auto false");
    match task.role {
        Role::Primary { secondaries, .. } => {
            add!(text, "  type primary");
            let others: Vec<_> = secondaries
                .iter()
                .map(|to| format!("{} port {} key {KEY_NAME}", to.ip(), to.port()))
                .collect();
            if !others.is_empty() {
                add!(text, "  notifies {}", others.join(", "));
            }
        }
        Role::Secondary { primary } => {
            let (from, at) = (primary.ip(), primary.port());
            add!(text, "  type secondary\n  primaries {from} port {at} key {KEY_NAME}");
            add!(text, "  transfer-source {address}");
        }
    }
    add!(text, "</zone>");
    text
}

fn pdns(task: &Task<'_>, dir: &Path) -> String {
    let dir = dir.display();
    let (address, port) = (task.address.ip(), task.address.port());
    let mut text = String::new();
    add!(text, "launch=lmdb\nlmdb-filename={dir}/pdns.lmdb\nsocket-dir={dir}");
    add!(text, "daemon=no\nguardian=no\nwrite-pid=no\ndisable-syslog=yes\nloglevel=3");
    add!(text, "security-poll-suffix=\nlocal-address={address}\nlocal-port={port}");
    add!(text, "query-local-address={address}\nreceiver-threads=1\nmax-queue-length=50000");
    // It would answer from what was there before an update for so long.
    add!(text, "cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0");
    match task.role {
        Role::Primary { .. } => {
            add!(text, "primary=yes\ndnsupdate=yes\nallow-dnsupdate-from={address}");
            add!(text, "allow-axfr-ips=");
        }
        Role::Secondary { primary } => {
            add!(text, "secondary=yes\nallow-notify-from={}", primary.ip());
            // A minute between looks for what to transfer in a stock configuration.
            add!(text, "xfr-cycle-interval=1");
        }
    }
    text
}
