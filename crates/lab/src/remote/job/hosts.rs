//! The file with the hosts of a job: a role and a host on each line.
//!
//! ```text
//! # role      host             addresses
//! conductor   192.0.2.9                         at most one; this host without it
//! tester      192.0.2.11                        one line for each Tester
//! tester      192.0.2.12
//! dut         root@192.0.2.1   192.0.2.1,2001:db8::1     at most one; servers are started there
//! auth        root@192.0.2.2                    one line for each AuthDNS; it is started there
//! ```
//!
//! Each AuthDNS has all names: the names of an experiment are in one zone, and a server sends its
//! queries for them to any AuthDNS of the zone, whatever the prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Largest number of Testers of a job.
const MAX_TESTERS: usize = 1_024;
/// Largest number of AuthDNS: dns64d allows no more upstream servers.
pub const MOST_AUTHDNS: usize = 16;

/// Why a second host of a role is refused.
const SECOND_HOST: &str = "another line has this role already";
/// Why an AuthDNS for a prefix is refused.
const ALL_NAMES: &str = "each AuthDNS has all names: they are in one zone, and a server under test chooses its AuthDNS by zone, not by prefix";
/// Why a second AuthDNS on a host is refused.
const ONE_EACH: &str = "this host already has an AuthDNS: give each AuthDNS a host of its own";

/// Hosts of a job by their roles, from the file that `--hosts` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Host of the conductor, which starts all trials; this one if the file names none.
    pub conductor: String,
    /// Hosts of the Testers; one that is named twice has two. A job that runs already needs none.
    pub testers: Vec<String>,
    /// Host of the servers under test; absent if the file names none.
    pub dut: Option<PartHost>,
    /// Hosts of the AuthDNS; empty if the file names none.
    pub auth: Vec<PartHost>,
}

/// Host on which an agent starts a part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartHost {
    /// Name or address, with a user before `@` or without.
    pub host: String,
    /// Addresses at which the part is queried; if empty, the addresses by which the remote shell
    /// reached the host.
    pub addresses: Vec<IpAddr>,
}

/// Error of a file with hosts: the line, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHosts {
    /// A line names no host with a role.
    #[error("line {line}: `{text}`: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The line as it is in the file.
        text: String,
        /// The problem, and what is accepted.
        why: &'static str,
    },
    /// No line names a Tester.
    #[error("it names no Tester: write `tester HOST`, one line for each")]
    NoTester,
    /// The job has more Testers, or fewer.
    #[error(
        "it names {named} as Testers, but the job has {ranks} beside its first rank: name as many, or none, since they already run"
    )]
    OtherTesters {
        /// Number of lines that name a Tester.
        named: usize,
        /// Number of Testers of the job.
        ranks: usize,
    },
    /// The AuthDNS has a host, but the servers that query it have none.
    #[error("it names a host for the AuthDNS but none for the servers: write `dut HOST` too")]
    AuthAlone,
    /// There are more Testers or AuthDNS than a job can have.
    #[error("it names more than {MAX_TESTERS} Testers, or more than {MOST_AUTHDNS} AuthDNS")]
    TooMany,
}

impl Hosts {
    /// Returns the hosts in the order of the ranks, as the starter expects them.
    pub(super) fn list(&self) -> String {
        let all: Vec<&str> =
            [&self.conductor].into_iter().chain(&self.testers).map(String::as_str).collect();
        all.join(",")
    }

    /// Checks the Testers: a job to start needs at least one; for a job that already runs with
    /// `running` Testers the file names all of them or none.
    ///
    /// # Errors
    /// [`BadHosts::NoTester`] or [`BadHosts::OtherTesters`].
    pub fn check_testers(&self, running: Option<usize>) -> Result<(), BadHosts> {
        match (self.testers.len(), running) {
            (0, None) => Err(BadHosts::NoTester),
            (0, Some(_)) | (_, None) => Ok(()),
            (named, Some(ranks)) if named == ranks => Ok(()),
            (named, Some(ranks)) => Err(BadHosts::OtherTesters { named, ranks }),
        }
    }
}

impl Default for Hosts {
    /// The hosts of an empty file: this host is the conductor.
    fn default() -> Self {
        let conductor = "localhost".to_owned();
        Hosts { conductor, testers: Vec::new(), dut: None, auth: Vec::new() }
    }
}

impl FromStr for Hosts {
    type Err = BadHosts;

    /// Reads the text of a file; `#` starts a comment.
    fn from_str(text: &str) -> Result<Self, BadHosts> {
        let (mut conductor, mut testers) = (None, Vec::new());
        let (mut dut, mut auth) = (None, Vec::<PartHost>::new());
        for (number, whole) in text.lines().enumerate() {
            let bad = |why| BadHosts::Line {
                line: number + 1,
                text: crate::testbed::process::harmless(whole.trim()),
                why,
            };
            let line = whole.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (role, host, addresses) = match words[..] {
                [] => continue,
                [role, host] => (role, host, ""),
                [role, host, addresses] if ["dut", "auth"].contains(&role) => {
                    (role, host, addresses)
                }
                _ => return Err(bad("write a role and a host, and addresses of `dut` and `auth`")),
            };
            match role {
                "tester" => testers.push(rank_host(host).map_err(bad)?),
                "conductor" => {
                    set(&mut conductor, rank_host(host).map_err(bad)?)
                        .ok_or_else(|| bad(SECOND_HOST))?;
                }
                "dut" => {
                    let found = part_host(host, addresses).map_err(bad)?;
                    set(&mut dut, found).ok_or_else(|| bad(SECOND_HOST))?;
                }
                "auth" if addresses.contains('/') => return Err(bad(ALL_NAMES)),
                "auth" if auth.iter().any(|other| other.host == host) => {
                    return Err(bad(ONE_EACH));
                }
                "auth" => auth.push(part_host(host, addresses).map_err(bad)?),
                _ => return Err(bad("the roles are `conductor`, `tester`, `dut` and `auth`")),
            }
            if testers.len() > MAX_TESTERS || auth.len() > MOST_AUTHDNS {
                return Err(BadHosts::TooMany);
            }
        }
        if !auth.is_empty() && dut.is_none() {
            return Err(BadHosts::AuthAlone);
        }
        let conductor = conductor.unwrap_or_else(|| Hosts::default().conductor);
        Ok(Hosts { conductor, testers, dut, auth })
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conductor {}", self.conductor)?;
        self.testers.iter().try_for_each(|host| writeln!(f, "tester {host}"))?;
        let auth = self.auth.iter().map(|part| ("auth", part));
        for (role, PartHost { host, addresses }) in
            self.dut.iter().map(|part| ("dut", part)).chain(auth)
        {
            let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            writeln!(f, "{role} {host} {}", addresses.join(","))?;
        }
        Ok(())
    }
}

/// Reads the host of a rank: a name or an address, without characters that the starter or a shell
/// interprets.
fn rank_host(text: &str) -> Result<String, &'static str> {
    let why = "a host is a name or an address, without a user";
    if is_plain(text, ".-_") { Ok(text.to_owned()) } else { Err(why) }
}

/// Reads the host of a part, and its addresses with commas between them.
fn part_host(host: &str, addresses: &str) -> Result<PartHost, &'static str> {
    if !is_plain(host, ".-_@:") {
        return Err("a host is a name or an address, with a user before `@` or without");
    }
    let texts = addresses.split(',').filter(|_| !addresses.is_empty());
    let addresses = texts.map(str::parse).collect::<Result<Vec<IpAddr>, _>>();
    let addresses = addresses.map_err(|_| "its addresses are IP addresses, separated by commas")?;
    Ok(PartHost { host: host.to_owned(), addresses })
}

/// Sets the host of a role that has one host only; `None` if it has one already.
fn set<T>(host: &mut Option<T>, found: T) -> Option<()> {
    host.replace(found).is_none().then_some(())
}

/// Whether a text has only letters, digits and `signs`, and is no option.
fn is_plain(text: &str, signs: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    text.len() <= 253 && !text.starts_with('-') && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_are_read() {
        let hosts: Hosts = "# ours\nconductor c # beside\n\n tester 192.0.2.11\ntester\tb.test\n"
            .parse()
            .expect("hosts");
        assert_eq!(hosts.list(), "c,192.0.2.11,b.test");
        assert_eq!("tester a".parse::<Hosts>().expect("hosts").list(), "localhost,a");
        let hosts = "dut root@fd00::1 fd00::1,192.0.2.1\ntester a\nauth b".parse::<Hosts>();
        let hosts = hosts.expect("hosts");
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let part = |host: &str, addresses| PartHost { host: host.to_owned(), addresses };
        assert_eq!(hosts.dut, Some(part("root@fd00::1", vec![ip("fd00::1"), ip("192.0.2.1")])));
        assert_eq!((hosts.list(), hosts.auth), ("localhost,a".to_owned(), vec![part("b", vec![])]));
        let several = "tester a\ndut b\nauth c 192.0.2.3\nauth d".parse::<Hosts>().expect("hosts");
        assert_eq!(several.auth, [part("c", vec![ip("192.0.2.3")]), part("d", vec![])]);
        for (text, why) in [
            ("tester", "line 1: `tester`: write a role and a host"),
            ("tester a b", "write a role and a host"),
            ("\nworker a", "line 2: `worker a`: the roles are"),
            ("conductor a\nconductor b", "line 2: `conductor b`: another line has this role"),
            ("dut a\ndut b", "line 2: `dut b`: another line has this role already"),
            ("auth a\nauth a ::1", "line 2: `auth a ::1`: this host already has an AuthDNS"),
            ("auth a 10.0.0.0/9", "chooses its AuthDNS by zone, not by prefix"),
            ("dut a 192.0.2.1,x", "its addresses are IP addresses, separated by commas"),
            ("dut a 192.0.2.1 192.0.2.2", "write a role and a host"),
            ("dut -oProxyCommand=x", "a host is a name"),
            ("tester a\nauth b", "a host for the AuthDNS but none for the servers"),
            ("tester user@a", "without a user"),
            ("tester -x", "a host is a name"),
            ("tester a,b", "a host is a name"),
            ("tester $(x)", "a host is a name"),
        ] {
            let error = text.parse::<Hosts>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        for (text, running, wanted) in [
            ("", None, Err(BadHosts::NoTester)),
            ("conductor a", None, Err(BadHosts::NoTester)),
            ("tester a", None, Ok(())),
            ("dut a", Some(2), Ok(())),
            ("tester a\ntester b", Some(2), Ok(())),
            ("tester a", Some(2), Err(BadHosts::OtherTesters { named: 1, ranks: 2 })),
        ] {
            let hosts: Hosts = text.parse().expect(text);
            assert_eq!(hosts.check_testers(running), wanted, "{text}");
        }
        let many = "tester a\n".repeat(MAX_TESTERS + 1);
        assert_eq!(many.parse::<Hosts>(), Err(BadHosts::TooMany));
        let auth = (0..=MOST_AUTHDNS).map(|number| format!("auth a{number}\n")).collect::<String>();
        assert_eq!(auth.parse::<Hosts>(), Err(BadHosts::TooMany));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            conductor in "[a-z][a-z0-9.-]{0,9}", testers in prop::collection::vec("[a-z0-9.]{1,9}", 1..5),
            host in prop::option::of("[a-z]{1,5}@[a-z0-9.:]{1,9}"), addresses: Vec<IpAddr>
        ) {
            let dut = host.map(|host| PartHost { host, addresses });
            let other = |part: &PartHost| PartHost { host: format!("x{}", part.host), ..part.clone() };
            let auth = dut.iter().flat_map(|part| [part.clone(), other(part)]).collect();
            let hosts = Hosts { conductor, testers, auth, dut };
            prop_assert_eq!(hosts.to_string().parse(), Ok(hosts));
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in "(.{0,12}|tester [a-z]{0,3}|conductor [a-z.]{0,3}|(dut|auth) [a-z@:]{0,3}|[ \n#]){0,6}") {
            if let Ok(hosts) = text.parse::<Hosts>() {
                prop_assert_eq!(hosts.to_string().parse(), Ok(hosts), "{}", text);
            }
        }
    }
}
