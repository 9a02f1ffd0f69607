//! The file with the hosts of a job: a role and a host on each line.
//!
//! ```text
//! # role      host
//! conductor   192.0.2.9        at most one; this host without it
//! tester      192.0.2.11       one line for each Tester
//! tester      192.0.2.12
//! ```

use std::fmt;
use std::str::FromStr;

/// Largest number of hosts.
const MOST: usize = 1_024;

/// Hosts of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Host of the conductor.
    pub conductor: String,
    /// Hosts of the Testers; one that is named twice has two.
    pub testers: Vec<String>,
}

/// Error of a file with hosts: the line, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHosts {
    /// A line is none.
    #[error("line {line}: `{text}`: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong, and what is accepted.
        why: &'static str,
    },
    /// There are no Testers.
    #[error("it names no Tester: write `tester HOST`, one line for each")]
    NoTester,
    /// There are too many.
    #[error("it names more than {MOST} Testers")]
    TooMany,
}

impl Hosts {
    /// Returns the hosts in the order of the ranks, as the starter takes them.
    pub(super) fn list(&self) -> String {
        let all: Vec<&str> =
            [&self.conductor].into_iter().chain(&self.testers).map(String::as_str).collect();
        all.join(",")
    }
}

impl FromStr for Hosts {
    type Err = BadHosts;

    /// Reads the text of a file; what follows `#` on a line is left out.
    fn from_str(text: &str) -> Result<Self, BadHosts> {
        let (mut conductor, mut testers) = (None, Vec::new());
        for (number, whole) in text.lines().enumerate() {
            let bad = |why| BadHosts::Line {
                line: number + 1,
                text: crate::process::harmless(whole.trim()),
                why,
            };
            let line = whole.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (role, host) = match words[..] {
                [] => continue,
                [role, host] => (role, host),
                _ => return Err(bad("write a role and a host")),
            };
            if !is_host(host) {
                return Err(bad("a host is a name or an address, without a user"));
            }
            match role {
                "tester" => testers.push(host.to_owned()),
                "conductor" if conductor.is_none() => conductor = Some(host.to_owned()),
                "conductor" => return Err(bad("there is a conductor already")),
                _ => return Err(bad("the roles are `conductor` and `tester`")),
            }
            if testers.len() > MOST {
                return Err(BadHosts::TooMany);
            }
        }
        if testers.is_empty() {
            return Err(BadHosts::NoTester);
        }
        Ok(Hosts { conductor: conductor.unwrap_or_else(|| "localhost".to_owned()), testers })
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conductor {}", self.conductor)?;
        self.testers.iter().try_for_each(|host| writeln!(f, "tester {host}"))
    }
}

/// Whether a text is a name or an address of a host: nothing that the starter or a shell reads otherwise.
fn is_host(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
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
        for (text, why) in [
            ("", "it names no Tester"),
            ("conductor a", "it names no Tester"),
            ("tester", "line 1: `tester`: write a role and a host"),
            ("tester a b", "write a role and a host"),
            ("\nworker a", "line 2: `worker a`: the roles are"),
            ("conductor a\nconductor b", "line 2: `conductor b`: there is a conductor already"),
            ("tester user@a", "without a user"),
            ("tester -x", "a host is a name"),
            ("tester a,b", "a host is a name"),
            ("tester $(x)", "a host is a name"),
        ] {
            let error = text.parse::<Hosts>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let many = "tester a\n".repeat(MOST + 1);
        assert_eq!(many.parse::<Hosts>(), Err(BadHosts::TooMany));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(conductor in "[a-z][a-z0-9.-]{0,9}", testers in prop::collection::vec("[a-z0-9.]{1,9}", 1..5)) {
            let hosts = Hosts { conductor, testers };
            prop_assert_eq!(hosts.to_string().parse(), Ok(hosts));
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in "(.{0,12}|tester [a-z]{0,3}|conductor [a-z.]{0,3}|[ \n#]){0,6}") {
            if let Ok(hosts) = text.parse::<Hosts>() {
                prop_assert_eq!(hosts.to_string().parse(), Ok(hosts), "{}", text);
            }
        }
    }
}
