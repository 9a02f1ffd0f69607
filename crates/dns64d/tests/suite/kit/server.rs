//! The servers under test as processes: dns64d, Unbound and BIND 9.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::client::Query;
use super::held::Held;
use super::ports::next_port;

/// Default prefix of the rows.
pub(crate) const PREFIX: &str = "2001:db8:64::/96";

/// Kind of server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Dns64d,
    /// NLnet Labs Unbound with its dns64 module.
    Unbound,
    /// ISC BIND 9 with a dns64 block.
    Bind,
}

impl Kind {
    /// Returns its name in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Dns64d => "dns64d",
            Kind::Unbound => "Unbound",
            Kind::Bind => "BIND",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Kind::Dns64d => env!("CARGO_BIN_EXE_dns64d"),
            Kind::Unbound => "unbound",
            Kind::Bind => "named",
        }
    }

    /// Returns the release whose differences the rows describe.
    pub(crate) fn tried(self) -> &'static str {
        match self {
            Kind::Dns64d => env!("CARGO_PKG_VERSION"),
            Kind::Unbound => "1.17",
            Kind::Bind => "9.18",
        }
    }

    /// Returns its version; `None` if it is not installed.
    pub(crate) fn version(self) -> Option<String> {
        let flag = if self == Kind::Dns64d { "--version" } else { "-V" };
        let output = Command::new(self.program()).arg(flag).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = text.split_ascii_whitespace();
        words.map(str::to_owned).find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// A running server; it ends when dropped.
pub(crate) struct Server {
    child: Held,
    dir: tempfile::TempDir,
    port: u16,
    metrics: SocketAddr,
}

impl Server {
    /// Starts a server that queries `upstreams`; `config` is the row's addition to its configuration.
    ///
    /// # Errors
    /// Output of the server when it did not start.
    pub(crate) fn start(
        kind: Kind,
        upstreams: &[SocketAddr],
        config: &str,
    ) -> Result<Self, String> {
        Self::start_with(kind, upstreams, config, |_| ())
    }

    /// Works as [`start`](Self::start); `prepare` changes the process before it starts.
    pub(crate) fn start_with(
        kind: Kind,
        upstreams: &[SocketAddr],
        config: &str,
        prepare: impl Fn(&mut Command),
    ) -> Result<Self, String> {
        // If another test takes the free port first, the start is tried again.
        let mut said = String::new();
        for _ in 0..3 {
            match Self::try_start(kind, upstreams, config, &prepare) {
                Ok(server) => return Ok(server),
                Err(error) => said = error,
            }
        }
        Err(said)
    }

    fn try_start(
        kind: Kind,
        upstreams: &[SocketAddr],
        config: &str,
        prepare: &dyn Fn(&mut Command),
    ) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let port = free_port();
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let file = dir.path().join("config");
        let text = match kind {
            Kind::Dns64d => dns64d(port, metrics, upstreams, config),
            Kind::Unbound => unbound(port, dir.path(), upstreams, config),
            Kind::Bind => bind(port, dir.path(), upstreams, config),
        };
        fs::write(&file, text).map_err(|e| e.to_string())?;
        let child = spawn(kind, dir.path(), prepare)?;
        let mut server = Server { child, dir, port, metrics };
        server.wait_until_ready(kind)?;
        Ok(server)
    }

    /// Waits for the end of dns64d and starts it again, with its configuration and its log.
    pub(crate) fn restart(&mut self, prepare: impl Fn(&mut Command)) {
        assert!(self.wait().success(), "{}", self.log());
        self.child = spawn(Kind::Dns64d, self.dir.path(), &prepare).expect("it can be started");
        self.wait_until_ready(Kind::Dns64d).expect("it starts");
    }

    fn wait_until_ready(&mut self, kind: Kind) -> Result<(), String> {
        // The other servers answer this query, and none sends it upstream. BIND limits its rate over UDP.
        let ready = Query::parse("version.bind TXT +class=CH +noedns +tcp");
        // Long for a single server, but not for one of many on a busy machine.
        for _ in 0..1000 {
            if self.child.0.try_wait().map_err(|e| e.to_string())?.is_some() {
                return Err(self.log());
            }
            let is_ready = match kind {
                // This test's address may be one that dns64d permits nothing.
                // Its sockets are bound, and take connections, before it is there.
                Kind::Dns64d => http(self.metrics, "/metrics").is_ok_and(|text| !text.is_empty()),
                _ => ready.ask(self.address(), Duration::from_secs(5)).is_some(),
            };
            if is_ready {
                return Ok(());
            }
            // A closed port fails at once.
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("it does not answer: {}", self.log()))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns a socket of a client at an address of this host, connected to the server.
    pub(crate) fn socket_of(&self, client: impl Into<IpAddr>) -> UdpSocket {
        let socket = UdpSocket::bind((client.into(), 0)).expect("a free port");
        socket.connect(self.address()).expect("loopback");
        socket
    }

    pub(crate) fn address6(&self) -> SocketAddr {
        (Ipv6Addr::LOCALHOST, self.port).into()
    }

    /// Returns the id of the thread with this name.
    pub(crate) fn thread(&self, name: &str) -> Pid {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.0.id())).expect("it is alive");
        let mut ids = tasks.map(|task| task.expect("a thread").path());
        let found = ids.find(|task| {
            fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        });
        let id = found.and_then(|task| task.file_name()?.to_str()?.parse().ok());
        Pid::from_raw(id.unwrap_or_else(|| panic!("no thread {name}")))
    }

    /// Returns the path of its configuration file.
    pub(crate) fn config(&self) -> std::path::PathBuf {
        self.dir.path().join("config")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).expect("it is alive");
    }

    /// Returns the number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Waits for its end; returns its exit status.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.0.wait().expect("our own child")
    }

    /// Returns its resident memory, in octets.
    pub(crate) fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the most resident memory that it had so far, in octets.
    pub(crate) fn most_resident(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> u64 {
        let line = self.status(field);
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    /// Returns its real, effective, saved and file system user.
    pub(crate) fn user_ids(&self) -> Vec<u32> {
        let line = self.status("Uid:");
        line.split_ascii_whitespace().map(|id| id.parse().expect("a number")).collect()
    }

    /// Returns the rest of a line of its status.
    fn status(&self, field: &str) -> String {
        let path = format!("/proc/{}/status", self.child.0.id());
        let status = fs::read_to_string(path).expect("it is alive");
        status.lines().find_map(|line| line.strip_prefix(field)).expect("a line").to_owned()
    }

    /// Returns dns64d's reply to an HTTP request.
    pub(crate) fn http(&self, path: &str) -> String {
        http(self.metrics, path).expect("the metrics")
    }

    /// Returns a metric of dns64d, as published last.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.http("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name}"));
        value.parse::<f64>().expect("a number") as u64
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Sends a query to dns64d and waits long enough for all its retransmissions.
    pub(crate) fn ask(&self, query: &str) -> super::message::Reply {
        let query = Query::parse(query);
        let address = if query.v6 { self.address6() } else { self.address() };
        query
            .ask(address, Duration::from_secs(20))
            .unwrap_or_else(|| panic!("no reply: {}", self.log()))
    }

    /// Writes another configuration for dns64d, at once: a reload that was asked for before may be reading the file.
    pub(crate) fn rewrite(&self, upstreams: &[SocketAddr], config: &str) {
        let text = dns64d(self.port, self.metrics, upstreams, config);
        let (new, file) = (self.dir.path().join("config.new"), self.dir.path().join("config"));
        fs::write(&new, text).expect("writes");
        fs::rename(new, file).expect("renames");
    }

    /// Replaces the configuration of dns64d, and lets it read that.
    pub(crate) fn reload(&self, upstreams: &[SocketAddr], config: &str) {
        self.rewrite(upstreams, config);
        self.signal(Signal::SIGHUP);
    }
}

/// Starts a server with the files in a folder.
fn spawn(kind: Kind, dir: &Path, prepare: &dyn Fn(&mut Command)) -> Result<Held, String> {
    let log = fs::File::options().append(true).create(true).open(dir.join("log"));
    let log = log.map_err(|e| e.to_string())?;
    let mut command = Command::new(kind.program());
    match kind {
        Kind::Dns64d => command.arg("--config"),
        Kind::Unbound => command.args(["-d", "-c"]),
        Kind::Bind => command.args(["-g", "-n", "1", "-c"]),
    };
    command
        .arg(dir.join("config"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(|e| e.to_string())?)
        .stderr(log);
    prepare(&mut command);
    command.spawn().map(Held).map_err(|e| format!("{}: {e}", kind.program()))
}

/// Returns the next port that is free for UDP and TCP, IPv4 and IPv6.
pub(crate) fn free_port() -> u16 {
    let v6 = has_ipv6().then_some(IpAddr::from(Ipv6Addr::LOCALHOST));
    loop {
        let port = next_port();
        let taken = |ip: IpAddr| {
            UdpSocket::bind((ip, port)).is_err() || TcpListener::bind((ip, port)).is_err()
        };
        if ![Some(Ipv4Addr::LOCALHOST.into()), v6].into_iter().flatten().any(taken) {
            return port;
        }
    }
}

/// Runs a program; returns what it prints on both outputs. Without the program the test is skipped.
pub(crate) fn printed(command: &mut Command, name: &str) -> Option<String> {
    let output = skip::unless_ok(command.output(), format_args!("no {name}"))?;
    Some([&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat())
}

/// Asks for a path over HTTP.
fn http(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns whether this host has IPv6 on loopback.
pub(crate) fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Merges the tables and values of `changes` into `base`.
fn merge(base: &mut toml::Table, changes: toml::Table) {
    for (key, value) in changes {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Writes dns64d's configuration. Timeouts are long, so that a busy machine causes no repetition; tests of silent upstreams set
/// short ones.
fn dns64d(port: u16, metrics: SocketAddr, upstreams: &[SocketAddr], config: &str) -> String {
    let listen6 = if has_ipv6() { format!(", \"[::1]:{port}\"") } else { String::new() };
    let servers: Vec<String> = upstreams.iter().map(|address| format!("\"{address}\"")).collect();
    let base = format!(
        "dns64 = [{{ prefix = \"{PREFIX}\" }}]
        [server]
        listen = [\"127.0.0.1:{port}\"{listen6}]
        workers = 1
        user = \"root\"
        [upstream]
        servers = [{}]
        first-timeout = \"5s\"
        min-timeout = \"5s\"
        give-up-after = \"15s\"
        attempts = 2
        source-ports = 16
        [metrics]
        listen = \"{metrics}\"",
        servers.join(", ")
    );
    let mut table: toml::Table = base.parse().expect("our own TOML");
    merge(&mut table, config.parse().unwrap_or_else(|e| panic!("{config}: {e}")));
    table.to_string()
}

/// Writes Unbound's configuration. `config` goes into the `server:` clause; a line `prefix: P` replaces the
/// prefix.
fn unbound(port: u16, dir: &Path, upstreams: &[SocketAddr], config: &str) -> String {
    let listen6 = if has_ipv6() { format!("interface: ::1@{port}\n") } else { String::new() };
    let (prefix, config) = split_prefix(config);
    let server = format!(
        "{listen6}
        access-control: 0.0.0.0/0 allow
        access-control: ::/0 allow
        module-config: \"dns64 iterator\"
        dns64-prefix: {prefix}
        insecure-lan-zones: yes
        local-zone: \"2.0.192.in-addr.arpa.\" nodefault
        {config}"
    );
    unbound_forwarder(port, dir, upstreams, &server)
}

/// Writes the configuration of an Unbound that forwards all queries to `upstreams`; `server` are further lines of the
/// `server:` clause.
pub(crate) fn unbound_forwarder(
    port: u16,
    dir: &Path,
    upstreams: &[SocketAddr],
    server: &str,
) -> String {
    let mut text = format!(
        "server:
        interface: 127.0.0.1@{port}
        chroot: \"\"
        directory: \"{}\"
        username: \"\"
        pidfile: \"\"
        use-syslog: no
        num-threads: 1
        do-not-query-localhost: no
        unblock-lan-zones: yes
        local-zone: \"8.b.d.0.1.0.0.2.ip6.arpa.\" nodefault
        {server}
        remote-control:
        control-enable: no
        forward-zone:
        name: \".\"\n",
        dir.display()
    );
    for address in upstreams {
        let _ = writeln!(text, "forward-addr: {}@{}", address.ip(), address.port());
    }
    text
}

/// Writes BIND's configuration. `config` goes into the `dns64` block; a line `prefix: P` replaces the prefix,
/// lines after `options:` are options.
fn bind(port: u16, dir: &Path, upstreams: &[SocketAddr], config: &str) -> String {
    let listen6 = if has_ipv6() { "::1;" } else { "none;" };
    let (prefix, config) = split_prefix(config);
    let (block, options) = config.split_once("options:").unwrap_or((&config, ""));
    let forwarders: Vec<String> =
        upstreams.iter().map(|a| format!("{} port {};", a.ip(), a.port())).collect();
    format!(
        "options {{
        listen-on port {port} {{ 127.0.0.1; }};
        listen-on-v6 port {port} {{ {listen6} }};
        directory \"{}\";
        pid-file none;
        session-keyfile \"{}/session.key\";
        lock-file none;
        recursion yes;
        allow-query {{ any; }};
        allow-recursion {{ any; }};
        dnssec-validation no;
        qname-minimization off;
        empty-zones-enable no;
        max-cache-size 16M;
        forward only;
        forwarders {{ {} }};
        dns64 {prefix} {{
            {block}
        }};
        {options}
        }};
        controls {{ }};\n",
        dir.display(),
        dir.display(),
        forwarders.join(" ")
    )
}

/// Returns the prefix, and the configuration without the line that names it.
fn split_prefix(config: &str) -> (String, String) {
    let line = config.lines().map(str::trim).find_map(|line| line.strip_prefix("prefix: "));
    let rest = config.lines().filter(|line| !line.trim().starts_with("prefix: "));
    (line.unwrap_or(PREFIX).to_owned(), rest.collect::<Vec<_>>().join("\n"))
}

/// Returns the loopback address of a family.
pub(crate) fn loopback(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
}
