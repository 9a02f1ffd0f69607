//! What several tests use: here a `dnsdyno auth` on free ports of 127.0.0.1.

pub(crate) mod capture;
pub(crate) mod cases;
pub(crate) mod command;
pub(crate) mod held;
pub(crate) mod host;
pub(crate) mod peer;
pub(crate) mod serve;
pub(crate) mod shared;
pub(crate) mod short_form;
pub(crate) mod sshd;
pub(crate) mod two_namespaces;
pub(crate) mod words;

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use self::command::Held;

/// An AuthDNS; it ends when dropped.
pub(crate) struct AuthDns {
    child: Held,
    output: BufReader<ChildStdout>,
    /// Addresses: plain, then those of TLS, HTTPS and QUIC if it has them.
    addresses: Vec<String>,
    /// Folder with ca.pem, server.pem and server.key, if it has TLS.
    pub(crate) dir: tempfile::TempDir,
}

impl AuthDns {
    /// Starts one for plain DNS.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(tempfile::tempdir().expect("a folder"), args)
    }

    /// Starts one for plain DNS, TLS, HTTPS and QUIC.
    pub(crate) fn encrypted(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        // The program makes it.
        std::fs::remove_dir(dir.path()).expect("an empty folder");
        let folder = dir.path().display().to_string();
        let any = "127.0.0.1:0";
        let all = ["--tls", any, "--https", any, "--quic", any, "--tls-write", &folder];
        Self::spawn(dir, &[&all, args].concat())
    }

    fn spawn(dir: tempfile::TempDir, args: &[&str]) -> Self {
        let mut child = Command::new(cargo_bin("dnsdyno"))
            .args(["auth", "--listen", "127.0.0.1:0", "--duration", "10m"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let words = line.split_ascii_whitespace();
        let addresses = words.filter(|word| word.starts_with("127.0.0.1:")).map(str::to_owned);
        let addresses: Vec<String> = addresses.collect();
        assert!(!addresses.is_empty(), "it does not say where it listens: {line}");
        AuthDns { child: Held(child), output, addresses, dir }
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// The address of plain DNS.
    pub(crate) fn plain(&self) -> &str {
        &self.addresses[0]
    }

    /// The address of a transport.
    pub(crate) fn address(&self, transport: &str) -> &str {
        &self.addresses[match transport {
            "udp" | "tcp" => 0,
            "tls" => 1,
            "https" | "http3" => 2,
            _ => 3,
        }]
    }

    /// The file with the certificate of its authority.
    pub(crate) fn authority(&self) -> String {
        self.dir.path().join("ca.pem").display().to_string()
    }

    /// Ends it with SIGTERM, which nobody ignores; returns what it prints.
    pub(crate) fn end(mut self) -> String {
        host::signal(self.pid(), "TERM");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        rest
    }
}
