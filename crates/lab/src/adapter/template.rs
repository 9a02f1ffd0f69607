//! Variables of an adapter's templates, and their rendering.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};

use experiment::file::Role;

use crate::adapter::part::ReplicationRole;
use crate::testbed::place::Place;

/// Variables of an adapter's templates. In addition there is `since("1.2")`: whether the server's version is at least
/// that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// Directory of the run: configuration, zone, state.
    pub(crate) dir: String,
    /// Path of the server's own program.
    pub(crate) program: String,
    /// Role in which the server is measured.
    pub(crate) role: Role,
    /// Version of the server as it prints it; empty if it prints none.
    pub(crate) version: String,
    /// Cores of the server, as `1-3`.
    pub(crate) cpus: String,
    /// Number of threads or processes: one for each core.
    pub(crate) threads: usize,
    /// Power of two at or above `threads`, for tables split among them.
    pub(crate) slabs: usize,
    /// Size of all caches, in megabytes.
    pub(crate) cache_mb: u64,
    /// Bytes of socket buffer that every server should have; it is the default of its sockets
    /// already.
    pub(crate) buffer: u64,
    /// Whether the lab runs as the real root.
    pub(crate) privileged: bool,
    /// Zone of the namespace, without a final dot.
    pub(crate) zone: String,
    /// Block of addresses of the names.
    pub(crate) namespace: String,
    /// Zone of the addresses' reverse names, without a final dot.
    pub(crate) reverse_zone: String,
    /// Prefix under which a DNS64 synthesises.
    pub(crate) pref64: String,
    /// Addresses and port on which the server must listen.
    pub(crate) listen: Place,
    /// Addresses and port of the AuthDNS, the first one if there are several.
    pub(crate) upstream: Place,
    /// Addresses and ports of all AuthDNS: each has all names.
    pub(crate) upstreams: Vec<Place>,
    /// Network devices of the server's host.
    pub(crate) devices: Vec<String>,
    /// Addresses and port of the server behind it; present only for a front.
    pub(crate) behind: Option<Place>,
    /// Path of the generated zone file; empty for a server without one.
    pub(crate) zone_file: String,
    /// Role in a group that replicates a zone; absent outside of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replication: Option<ReplicationRole>,
    /// Variables of the experiment's `[variables]`; a template gives each a default.
    #[serde(flatten)]
    pub(crate) variables: BTreeMap<String, String>,
}

impl Setting {
    /// Returns values that an adapter is checked against: the oldest server without privileges, and the newest with
    /// them.
    pub(crate) fn samples(role: Role, front: bool) -> [Self; 2] {
        [("0", false), ("9999", true)]
            .map(|(version, privileged)| Self::sample(role, front, version, privileged))
    }

    /// Returns the same values for a server in a group.
    pub(crate) fn replicating(part: ReplicationRole) -> [Self; 2] {
        Self::samples(Role::Authoritative, false)
            .map(|sample| Self { replication: Some(part.clone()), ..sample })
    }

    pub(crate) fn sample(role: Role, front: bool, version: &str, privileged: bool) -> Self {
        let place = Place { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST, port: 53 };
        Self {
            dir: "/tmp/run".to_owned(),
            program: "/usr/sbin/program".to_owned(),
            role,
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
            upstreams: vec![place],
            devices: vec!["lan0".to_owned()],
            behind: front.then_some(place),
            zone_file: "/tmp/run/zone".to_owned(),
            replication: None,
            variables: BTreeMap::new(),
        }
    }
}

/// Most steps of a template: far more than a configuration needs, and far fewer than fill a disk.
const MAX_STEPS: u64 = 1_000_000;

/// Why a template cannot be rendered, and at which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateError {
    /// Line of the template, from 1.
    pub(crate) line: usize,
    /// The problem.
    pub(crate) why: String,
}

/// Renders a template with the values of a server and its run.
pub(crate) fn render(text: &str, setting: &Setting) -> Result<String, TemplateError> {
    let mut environment = Environment::new();
    // An unknown variable is an error, never an empty text in a configuration.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_syntax(syntax.build().expect("the default delimiters are valid"));
    let version = setting.version.clone();
    environment.add_function("since", move |least: &str| at_least(&version, least));
    environment.render_str(text, Serde(setting)).map_err(|e| {
        let detail = e.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        let line = e.line().unwrap_or(1);
        let place = text.lines().nth(line - 1).unwrap_or_default().trim().escape_debug();
        TemplateError { line, why: format!("{} in `{place}`{detail}", e.kind()) }
    })
}

/// Returns whether a version is at least another, by their leading numbers: `9.18.49-1~deb12` is `9.18.49`.
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
        assert_eq!((error.line, &*error.why), (2, "undefined value in `b {{ nothing }}`"));
        let endless =
            "{% for n in range(90000) %}{% for m in range(90000) %}x{% endfor %}{% endfor %}";
        assert!(render(endless, &setting).unwrap_err().why.contains("fuel"));
        assert_eq!(render("a\n\n{% fi %}", &setting).unwrap_err().line, 3);
    }
}
