//! Texts that become part of a command on another host: only characters without a meaning for
//! shells.

/// Signs in names and addresses of hosts; they are an argument of the local program only.
const OF_HOSTS: &str = "._-@:%[]";

/// Signs in names of processes and in paths that no shell interprets.
const OF_PROCESSES: &str = "._+-";
const OF_PATHS: &str = "._+-/";

/// Reads a name or a path without spaces and signs of shells.
fn plain(text: &str, signs: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    match text {
        "" => Err("it is empty".to_owned()),
        text if text.starts_with('-') => Err("it begins with `-`".to_owned()),
        text => match text.chars().find(|c| !known(*c)) {
            Some(c) => Err(format!("`{c}` is not one of letters, digits and {signs}")),
            None => Ok(text.to_owned()),
        },
    }
}

/// Reads a host, with a user before it or without: `dns@192.0.2.1`.
pub(crate) fn host(text: &str) -> Result<String, String> {
    plain(text, OF_HOSTS)
}

/// Reads the name of a process: `unbound`.
pub(crate) fn process(text: &str) -> Result<String, String> {
    plain(text, OF_PROCESSES)
}

/// Reads the path of a program: `/opt/dnsdyno/bin/dnsdyno`.
pub(crate) fn program(text: &str) -> Result<String, String> {
    plain(text, OF_PATHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_take_apart_is_refused() {
        for text in ["dns@192.0.2.1", "host-1.example", "root@[fd00::1%eth0]"] {
            assert_eq!(host(text), Ok(text.to_owned()));
        }
        assert_eq!(process("pdns_recursor"), Ok("pdns_recursor".to_owned()));
        for text in ["", "-oProxyCommand=x", "a b", "$(x)", "a;b", "a'b", "a\nb"] {
            assert!(
                host(text).is_err() && process(text).is_err() && program(text).is_err(),
                "{text}"
            );
        }
        assert!(process("../x").is_err());
    }
}
