//! Custom servers, known to one experiment only: a command line, or the address of a remote server
//! that the user runs.
//!
//! ```toml
//! servers = ["mtd64-ng"]
//!
//! [custom.mtd64-ng]
//! command = "/opt/mtd64-ng/mtd64-ng -c {{ dir }}/mtd64.conf"
//! ipv4 = false
//! files = { "mtd64.conf" = "nameserver {{ upstream.v4 }}\ndns64-prefix {{ pref64 }}\n" }
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;

use measure::Nanos;
use serde::{Deserialize, Serialize};

use crate::settings::{text, time_text};

/// A custom server of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Custom {
    /// Command line for the shell, a template. Without `daemon` the server stays in the foreground.
    #[serde(default)]
    pub command: String,
    /// Address and port of a server that the user runs, instead of a command.
    #[serde(default)]
    pub address: Option<SocketAddr>,
    /// Port on which the server listens.
    #[serde(default = "default_port")]
    pub port: u16,
    /// Whether the server listens on IPv6; the Tester then sends over IPv6.
    #[serde(default = "default_true")]
    pub ipv6: bool,
    /// Whether the server listens on IPv4.
    #[serde(default = "default_true")]
    pub ipv4: bool,
    /// Time after the start within which the server must answer the first and the last name correctly, in
    /// nanoseconds.
    #[serde(default = "default_ready", deserialize_with = "text", serialize_with = "time_text")]
    pub ready: Nanos,
    /// Whether the server may go to the background, and its files may have absolute paths.
    #[serde(default)]
    pub daemon: bool,
    /// Configuration files: templates, by their paths in the directory of the run.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

fn default_port() -> u16 {
    53
}

fn default_true() -> bool {
    true
}

fn default_ready() -> Nanos {
    Nanos::from_secs(20)
}

impl Custom {
    /// Makes a server that `command` starts, with defaults for the rest.
    pub fn new(command: &str) -> Self {
        Custom {
            command: command.to_owned(),
            address: None,
            port: default_port(),
            ipv6: true,
            ipv4: true,
            daemon: false,
            ready: default_ready(),
            files: BTreeMap::new(),
        }
    }

    /// Makes a server that the user runs at `address`.
    pub fn at(address: SocketAddr) -> Self {
        Custom { address: Some(address), ..Custom::new("") }
    }

    /// Returns the server with a path in the place of `$PROGRAM` in its command.
    pub fn with_program(&self, program: &str) -> Self {
        Custom { command: self.command.replace("$PROGRAM", program), ..self.clone() }
    }

    /// Returns the error in the server's table; `None` if it is valid.
    pub fn invalid(&self) -> Option<&'static str> {
        if self.address.is_some_and(|address| address.port() == 0) {
            Some("the port of `address` is a number from 1 to 65535")
        } else if self.address.is_some() && !(self.command.is_empty() && self.files.is_empty()) {
            Some("it has an `address`, or a `command` and `files`, not both")
        } else if self.address.is_none() && self.command.trim().is_empty() {
            Some("it has neither a `command` nor an `address`")
        } else if self.port == 0 {
            Some("`port` is a number from 1 to 65535")
        } else if !self.ipv4 && !self.ipv6 {
            Some("it listens on `ipv4`, or on `ipv6`, or on both")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Experiment;

    const FILE: &str = r#"
name = "x"
title = "a server of my own"
role = "dns64"
method = "closed"
servers = ["unbound", "own"]
[custom.own]
command = "/opt/own -p {{ listen.port }}"
port = 5353
ipv4 = false
ready = "3s"
files = { "own.conf" = "threads {{ threads }}" }
"#;

    #[test]
    fn a_file_may_bring_a_server() {
        let experiment = Experiment::parse(FILE, Path::new("x.toml")).expect("good");
        let own = &experiment.common().custom["own"];
        assert_eq!((own.port, own.ipv6, own.ipv4), (5353, true, false));
        assert_eq!((own.ready, own.files.len()), (Nanos::from_secs(3), 1));
        let table = [
            (FILE.replace(", \"own\"", ""), "`servers` does not name own"),
            (
                FILE.replace("ipv4 = false", "ipv4 = false\nipv6 = false"),
                "own: it listens on `ipv4`",
            ),
            (FILE.replace("port = 5353", "address = \"[::1]:53\""), "own: it has an `address`, or"),
            (FILE.replace("port = 5353", "address = \"[::1]:0\""), "own: the port of `address`"),
            (FILE.replace("port = 5353", "address = \"localhost\""), "socket address"),
            (FILE.replace("port = 5353", "port = 65536"), "65536"),
            (FILE.replace("port =", "prot ="), "unknown field `prot`"),
            (FILE.replace("\"3s\"", "\"3x\""), "3x"),
        ];
        for (text, part) in table {
            let error = Experiment::parse(&text, Path::new("x.toml")).expect_err(part).to_string();
            assert!(error.starts_with("x.toml:") && error.contains(part), "{error}");
        }
    }
}
