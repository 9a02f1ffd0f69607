//! What an adapter's templates may use, and their rendering.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use experiment::file::Role;

use crate::adapter::role_word;
use crate::replication::part::Part;

/// The variables of an adapter's templates. Beside them there is `since("1.2")`: whether the
/// server's version is at least that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The directory of the run: configuration, zone, state.
    pub dir: String,
    /// The server's own program.
    pub program: String,
    /// `dns64`, `resolver` or `authoritative`.
    pub role: &'static str,
    /// The server's version, as it says it; empty when it says none.
    pub version: String,
    /// The cores it is bound to, as `1-3`.
    pub cpus: String,
    /// How many threads or processes it shall have: one for each core.
    pub threads: usize,
    /// The power of two at or above `threads`, for tables split among them.
    pub slabs: usize,
    /// Megabytes that caches may take in all.
    pub cache_mb: u64,
    /// Bytes of socket buffer that every server is to have; sockets that ask for none have it already.
    pub buffer: u64,
    /// Whether the lab runs as the real root.
    pub privileged: bool,
    /// The zone of the namespace, without a final dot.
    pub zone: String,
    /// The block of addresses whose names they are.
    pub namespace: String,
    /// The zone of its addresses' reverse names, without a final dot.
    pub reverse_zone: String,
    /// The prefix of synthesised addresses.
    pub pref64: String,
    /// Where it shall listen.
    pub listen: Place,
    /// Where the AuthDNS listens.
    pub upstream: Place,
    /// Where the server listens that stands behind it; absent but for a front.
    pub behind: Option<Place>,
    /// The generated zone's file; empty for a server that needs none.
    pub zone_file: String,
    /// Its part among the servers that replicate a zone; absent where it is none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<Part>,
    /// What the experiment's `[variables]` say; a template gives each a default.
    #[serde(flatten)]
    pub variables: BTreeMap<String, String>,
}

/// Addresses and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address.
    pub v6: Ipv6Addr,
    /// The port of both.
    pub port: u16,
}

impl Setting {
    /// Values against which an adapter is checked when it is read: the oldest server without
    /// privileges, and the newest with them.
    pub(crate) fn samples(role: Role, front: bool) -> [Self; 2] {
        [("0", false), ("9999", true)]
            .map(|(version, privileged)| Self::sample(role, front, version, privileged))
    }

    /// The same for a server with a part in a group.
    pub(crate) fn replicating(part: Part) -> [Self; 2] {
        Self::samples(Role::Authoritative, false)
            .map(|sample| Self { replication: Some(part.clone()), ..sample })
    }

    fn sample(role: Role, front: bool, version: &str, privileged: bool) -> Self {
        let place = Place { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST, port: 53 };
        Self {
            dir: "/tmp/run".to_owned(),
            program: "/usr/sbin/program".to_owned(),
            role: role_word(role),
            version: version.to_owned(),
            cpus: "1".to_owned(),
            threads: 1,
            slabs: 1,
            cache_mb: 64,
            buffer: 212_992,
            privileged,
            zone: wire::namespace::DEFAULT_ZONE.to_owned(),
            namespace: "10.0.0.0/8".to_owned(),
            reverse_zone: "10.in-addr.arpa".to_owned(),
            pref64: "2001:db8:64::/96".to_owned(),
            listen: place,
            upstream: place,
            behind: front.then_some(place),
            zone_file: "/tmp/run/zone".to_owned(),
            replication: None,
            variables: BTreeMap::new(),
        }
    }
}

/// A template that cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateError {
    /// The line of the template, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) why: String,
}

/// Renders one template.
pub(crate) fn render(text: &str, setting: &Setting) -> Result<String, TemplateError> {
    let mut environment = Environment::new();
    // A variable that is not there is a mistake, never an empty word in a configuration.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("the delimiters are the usual ones"));
    let version = setting.version.clone();
    environment.add_function("since", move |least: &str| at_least(&version, least));
    environment.render_str(text, Serde(setting)).map_err(|e| {
        let detail = e.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        TemplateError { line: e.line().unwrap_or(1), why: format!("{}{detail}", e.kind()) }
    })
}

/// Whether a version is at least another, by their leading numbers: `9.18.49-1~deb12` is `9.18.49`.
pub(crate) fn at_least(version: &str, least: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].split('.').map_while(|part| part.parse().ok()).collect()
    };
    numbers(version) >= numbers(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let table = [
            ("1.20", "1.20", true),
            ("1.20.1", "1.20", true),
            ("1.19.3", "1.20", false),
            ("1.9", "1.20", false),
            ("9.18.49-1~deb12u3-Debian", "9.18.49", true),
            ("9.18.49-1~deb12u3-Debian", "9.19", false),
            ("", "1.0", false),
        ];
        for (version, least, wanted) in table {
            assert_eq!(at_least(version, least), wanted, "{version} {least}");
        }
    }

    #[test]
    fn renders_and_refuses() {
        let setting = Setting::sample(Role::Dns64, false, "1.0", true);
        let text = "a {{ listen.v6 }}\n  {% if since('2') %}\nnew\n{% endif %}\nz\n";
        assert_eq!(render(text, &setting).unwrap(), "a ::1\nz\n");
        let error = render("a\nb {{ nothing }}\n", &setting).unwrap_err();
        assert_eq!((error.line, error.why.contains("undefined")), (2, true), "{error:?}");
        assert_eq!(render("a\n\n{% fi %}", &setting).unwrap_err().line, 3);
    }
}
