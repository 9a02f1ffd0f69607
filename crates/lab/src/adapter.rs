//! Adapters: how a server is found, configured, started and stopped, as data.
//!
//! One TOML file under `servers/` for each; adding a server needs no Rust, and `--servers DIR` adds
//! to, or replaces, those that are built in. Configuration files and arguments are templates
//! ([minijinja](https://docs.rs/minijinja), the syntax of Jinja) over the [`Setting`]. An adapter
//! is checked whole when it is read: unknown keys and unknown variables are errors with file and line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use experiment::Custom;
use experiment::file::{Role, place};
use measure::Transport;
use nix::sys::signal::Signal;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;

use crate::replication::part::{Part, Signing};
use crate::template::{self, Setting};
use crate::testbed::PORT;

/// Where servers are installed that are not on everyone's PATH.
const SYSTEM_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Every role.
pub(crate) const ROLES: [Role; 3] = [Role::Dns64, Role::Resolver, Role::Authoritative];

/// The word of a role in the TOML files.
pub fn role_word(role: Role) -> &'static str {
    match role {
        Role::Dns64 => "dns64",
        Role::Resolver => "resolver",
        Role::Authoritative => "authoritative",
    }
}

/// How to drive one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The name it is asked for by: lower case letters, digits and dashes.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it can be; what stands in front of another server is what that is.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// Whether it stands in front of another server and passes queries on to it.
    #[serde(default)]
    pub front: bool,
    /// Transports beside UDP and TCP that it speaks, each with the version from which on it does.
    #[serde(default)]
    pub transports: BTreeMap<Transport, String>,
    /// Open files that it must be allowed for each connection.
    #[serde(default = "one", rename = "files-per-connection")]
    pub files_per_connection: u64,
    /// The server that stands behind it: only in adapters that [`Catalogue`](crate::Catalogue) joins.
    #[serde(skip)]
    pub behind: Option<Box<Adapter>>,
    /// Where it is, when the user runs it: only in adapters made by [`Adapter::custom`].
    #[serde(skip)]
    pub remote: Option<SocketAddr>,
    /// The package that has it.
    pub package: String,
    /// Its program: candidates, looked for on PATH and where servers are installed.
    pub binaries: Vec<String>,
    /// How it tells its version.
    pub version: VersionQuery,
    /// How it is started.
    pub start: Start,
    /// Where it listens.
    #[serde(default)]
    pub listen: Listen,
    /// When it must be ready.
    #[serde(default)]
    pub ready: Ready,
    /// How it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// Its configuration.
    #[serde(default)]
    pub files: Vec<FileTemplate>,
    /// How it is told to be a primary or a secondary; absent where it is not driven as one.
    #[serde(default)]
    pub replication: Option<ReplicationTable>,
}

/// How a server is told to be a primary or a secondary of a zone. Its arguments are those of `start`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReplicationTable {
    /// Whether it takes dynamic updates as a primary (RFC 2136).
    pub updates: bool,
    /// How the zone of a primary may be signed.
    #[serde(default)]
    pub signing: Vec<Signing>,
    /// Primaries that it cannot follow, by the names of their adapters, and why.
    #[serde(default)]
    pub cannot_follow: BTreeMap<String, String>,
    /// Files that say that it still runs, and are taken away before it is started again after SIGKILL.
    #[serde(default)]
    pub stale_files: Vec<String>,
    /// Commands run in its directory before its first start, one a line; a template.
    #[serde(default = "no_text")]
    pub prepare: Spanned<String>,
    /// Its configuration.
    pub files: Vec<FileTemplate>,
}

fn no_text() -> Spanned<String> {
    Spanned::new(0..0, String::new())
}

fn one() -> u64 {
    1
}

/// How a server tells its version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionQuery {
    /// The arguments that make it print its version.
    pub arguments: Vec<String>,
    /// The version is the word that follows this text, on either output stream.
    pub after: String,
}

/// How a server is started: in the foreground, as the current user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program started instead of its own, which then is `{{ program }}`: such as a shell that
    /// starts one process for each core.
    #[serde(default)]
    pub through: Option<PathBuf>,
    /// Its arguments, each a template.
    pub arguments: Vec<Spanned<String>>,
    /// Variables added to its environment, each value a template.
    #[serde(default)]
    pub environment: BTreeMap<String, Spanned<String>>,
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// The port: for one that cannot be told.
    pub port: u16,
    /// Whether it listens on IPv6: the Tester then asks over it.
    pub ipv6: bool,
    /// Whether it listens on IPv4.
    pub ipv4: bool,
}

impl Default for Listen {
    fn default() -> Self {
        Self { port: PORT, ipv6: true, ipv4: true }
    }
}

/// When a server must be ready.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// It must answer the first and the last name right within this time of its start.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
}

impl Default for Ready {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(20) }
    }
}

/// How a server is stopped.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// The signal that asks it to end.
    #[serde(deserialize_with = "signal")]
    pub signal: Signal,
    /// After this time it is ended by force.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: Signal::SIGTERM, timeout: Duration::from_secs(5) }
    }
}

/// A file of a server's configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTemplate {
    /// Its path in the directory of the run.
    pub path: String,
    /// Its text, a template.
    pub text: Spanned<String>,
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    measure::Nanos::from_str(&text).map(Duration::from).map_err(D::Error::custom)
}

fn signal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Signal, D::Error> {
    let text = String::deserialize(deserializer)?;
    Signal::from_str(&text).map_err(|_| {
        D::Error::custom(format!("`{text}` is not a signal such as SIGTERM or SIGINT"))
    })
}

/// An adapter that cannot be used, or is not there.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// A file is not understood.
    #[error("{}:{line}:{column}: {why}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// There is no such server.
    #[error("there is no server `{name}`; known are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The server cannot be what is wanted.
    #[error("{title} cannot be measured as {role}; its adapter knows it as {known}")]
    WrongRole {
        /// The server.
        title: String,
        /// What was wanted.
        role: &'static str,
        /// What it can be.
        known: String,
    },
    /// The server is driven neither as a primary nor as a secondary.
    #[error(
        "{title} is not driven as a primary or a secondary: its adapter has no table `[replication]`"
    )]
    NotReplicating {
        /// The server.
        title: String,
    },
    /// The server's program is not on this machine.
    #[error(
        "{title} is not installed: no program {binaries} on PATH or in /usr/sbin; \
         as root: apt-get install {package}"
    )]
    NotInstalled {
        /// The server.
        title: String,
        /// The programs looked for.
        binaries: String,
        /// The package that has it.
        package: String,
    },
}

impl Adapter {
    /// Reads an adapter and checks it whole; `path` is named in errors.
    ///
    /// # Errors
    /// [`AdapterError::Bad`] with the place.
    pub fn parse(text: &str, path: &Path) -> Result<Self, AdapterError> {
        let bad = |at: usize, why: String| {
            let (line, column) = place(text, at);
            AdapterError::Bad { path: path.to_owned(), line, column, why }
        };
        let adapter: Self = toml::from_str(text).map_err(|e| {
            bad(e.span().map_or(0, |span| span.start), e.message().replace('\n', "; "))
        })?;
        if let Some(why) = adapter.invalid() {
            return Err(bad(0, why));
        }
        for (template, samples) in adapter.templates_and_samples() {
            for sample in samples {
                template::render(template.get_ref(), &sample).map_err(|e| {
                    let (start, _) = place(text, template.span().start);
                    // The text of a multi-line string begins on the line after its quotes.
                    let quotes = &text[template.span()];
                    let multi_line = quotes.starts_with("'''\n") || quotes.starts_with("\"\"\"\n");
                    let line = start + usize::from(multi_line) + e.line - 1;
                    AdapterError::Bad { path: path.to_owned(), line, column: 1, why: e.why }
                })?;
            }
        }
        Ok(adapter)
    }

    /// An adapter for a server of the user's own, which the shell starts.
    ///
    /// # Errors
    /// When its name, its command or a file of it makes no sense.
    pub fn custom(name: &str, role: Role, custom: &Custom) -> Result<Self, AdapterError> {
        let template = |text: &str| Spanned::new(0..0, text.to_owned());
        let files = custom.files.iter();
        let files =
            files.map(|(path, text)| FileTemplate { path: path.clone(), text: template(text) });
        let adapter = Adapter {
            transports: BTreeMap::new(),
            files_per_connection: one(),
            name: name.to_owned(),
            title: name.to_owned(),
            roles: vec![role],
            front: false,
            behind: None,
            remote: custom.address,
            package: String::new(),
            binaries: vec!["sh".to_owned()],
            // It is not known how to ask for its version.
            version: VersionQuery { arguments: vec!["-c".into(), ":".into()], after: "\0".into() },
            start: Start {
                through: None,
                arguments: vec![template("-c"), template(&format!("exec {}", custom.command))],
                environment: BTreeMap::new(),
            },
            listen: Listen { port: custom.port, ipv6: custom.ipv6, ipv4: custom.ipv4 },
            ready: Ready { timeout: custom.ready.into() },
            stop: Stop::default(),
            files: files.collect(),
            replication: None,
        };
        let bad = |line: usize, why: String| {
            let path = PathBuf::from(format!("server {name}"));
            AdapterError::Bad { path, line, column: 1, why }
        };
        if let Some(why) = adapter.invalid().or_else(|| custom.invalid().map(str::to_owned)) {
            return Err(bad(1, why));
        }
        for (text, sample) in
            adapter.templates().flat_map(|t| adapter.samples().map(move |s| (t, s)))
        {
            template::render(text.get_ref(), &sample).map_err(|e| bad(e.line, e.why))?;
        }
        Ok(adapter)
    }

    /// Values to try its templates with.
    fn samples(&self) -> impl Iterator<Item = Setting> {
        let roles = if self.front { ROLES.as_slice() } else { self.roles.as_slice() };
        roles.iter().flat_map(|role| Setting::samples(*role, self.front))
    }

    /// Everything of it that is a template.
    fn templates(&self) -> impl Iterator<Item = &Spanned<String>> {
        let files = self.files.iter().map(|file| &file.text);
        files.chain(&self.start.arguments).chain(self.start.environment.values())
    }

    /// Everything of it that is a template, each with the values to try it with.
    fn templates_and_samples(&self) -> Vec<(&Spanned<String>, Vec<Setting>)> {
        let usual: Vec<Setting> = self.samples().collect();
        let all = self.templates().map(|template| (template, usual.clone()));
        let replication = self.replication.iter().flat_map(|r| {
            let parts = Part::samples();
            let samples: Vec<Setting> = parts.into_iter().flat_map(Setting::replicating).collect();
            let files = r.files.iter().map(|file| &file.text);
            files.chain([&r.prepare]).map(move |template| (template, samples.clone()))
        });
        all.chain(replication).collect()
    }

    /// How it is told to be a primary or a secondary.
    ///
    /// # Errors
    /// When it is not driven as one.
    pub fn replicating(&self) -> Result<&ReplicationTable, AdapterError> {
        let title = || self.title.clone();
        self.replication.as_ref().ok_or_else(|| AdapterError::NotReplicating { title: title() })
    }

    /// Whether its `version` speaks `transport`.
    pub fn speaks(&self, transport: Transport, version: Option<&str>) -> bool {
        let since = self.transports.get(&transport);
        matches!(transport, Transport::Udp | Transport::Tcp)
            // What the user's own server speaks, the user knows.
            || self.remote.is_some()
            || since.is_some_and(|since| template::at_least(version.unwrap_or_default(), since))
    }

    /// Whether one of its templates, or of what stands behind it, uses the variable `name`.
    pub fn knows_variable(&self, name: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let uses = |text: &Spanned<String>| text.get_ref().split(|c| !word(c)).any(|w| w == name);
        self.chain().any(|adapter| adapter.templates().any(uses))
    }

    /// What makes no sense, if anything.
    fn invalid(&self) -> Option<String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return Some(format!(
                "the name `{}` is not made of lower case letters, digits and dashes",
                self.name
            ));
        }
        if self.binaries.is_empty() {
            return Some("`binaries` needs at least one entry".to_owned());
        }
        if self.front != self.roles.is_empty() {
            let why = "`roles` needs at least one entry, and none where `front` is true";
            return Some(why.to_owned());
        }
        let outside = |path: &str| {
            let normal = |part| matches!(part, Component::Normal(_));
            path.is_empty() || !Path::new(path).components().all(normal)
        };
        if self.listen.port == 0 || !(self.listen.ipv4 || self.listen.ipv6) {
            return Some("`listen` needs a port, and IPv6 or IPv4".to_owned());
        }
        let replication = self.replication.iter();
        let files = replication.clone().flat_map(|r| &r.files).chain(&self.files);
        let paths = replication.flat_map(|r| &r.stale_files).chain(files.map(|file| &file.path));
        let path = { paths }.find(|path| outside(path))?;
        Some(format!("the path `{path}` does not stay in the directory of the run"))
    }

    /// Whether it can be `role`.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check_role(&self, role: Role) -> Result<(), AdapterError> {
        if self.roles.contains(&role) {
            return Ok(());
        }
        let known: Vec<&str> = self.roles.iter().map(|role| role_word(*role)).collect();
        let (title, known) = (self.title.clone(), known.join(", "));
        Err(AdapterError::WrongRole { title, role: role_word(role), known })
    }

    /// It, a front, with `behind` behind it: a server of the other's roles.
    pub(crate) fn before(&self, behind: &Adapter) -> Self {
        Adapter {
            name: format!("{}+{}", self.name, behind.name),
            title: format!("{} before {}", self.title, behind.title),
            roles: behind.roles.clone(),
            behind: Some(Box::new(behind.clone())),
            ready: Ready { timeout: self.ready.timeout.max(behind.ready.timeout) },
            ..self.clone()
        }
    }

    /// It and what stands behind it, itself first.
    pub fn chain(&self) -> impl Iterator<Item = &Adapter> {
        std::iter::successors(Some(self), |adapter| adapter.behind.as_deref())
    }

    /// Its program on this machine; whatever stands behind it is there, too.
    ///
    /// # Errors
    /// When one is not installed; names the package.
    pub fn program(&self) -> Result<PathBuf, AdapterError> {
        if let Some(behind) = &self.behind {
            behind.program()?;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        self.find_program(&path).ok_or_else(|| AdapterError::NotInstalled {
            title: self.title.clone(),
            binaries: self.binaries.join(" or "),
            package: self.package.clone(),
        })
    }

    fn find_program(&self, path: &OsStr) -> Option<PathBuf> {
        // What was built together with this program goes first.
        let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
        let dirs: Vec<PathBuf> = own
            .into_iter()
            .chain(std::env::split_paths(path))
            .chain(SYSTEM_DIRS.map(PathBuf::from))
            .collect();
        let executable = |file: &PathBuf| {
            fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        let mut candidates =
            self.binaries.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        candidates.find(executable)
    }

    /// The version in what the server printed, if it is there.
    pub fn read_version(&self, printed: &str) -> Option<String> {
        let (_, rest) = printed.split_once(self.version.after.as_str())?;
        let word = rest.split_whitespace().next()?.trim_end_matches([',', ';', ')']);
        (!word.is_empty()).then(|| word.to_owned())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const GOOD: &str = r#"
name = "x"
title = "X"
roles = ["dns64"]
package = "x-server"
binaries = ["no-such-x", "sh"]
version = { arguments = ["-v"], after = "X " }
[start]
arguments = ["-c", "{{ dir }}/x.conf"]
environment = { X_THREADS = "{{ threads }}" }
[[files]]
path = "x.conf"
text = '''
listen {{ listen.v6 }}
{% if since("1.2") %}new{% endif %}
'''
"#;

    fn parse(text: &str) -> Result<Adapter, AdapterError> {
        Adapter::parse(text, Path::new("x.toml"))
    }

    #[test]
    fn errors_have_their_place() {
        assert!(parse(GOOD).is_ok());
        let table = [
            (GOOD.replace("title", "titel"), "x.toml:3:1: unknown field `titel`"),
            (GOOD.replace("\"dns64\"]", "\"dns65\"]"), "x.toml:4:10: unknown variant `dns65`"),
            (GOOD.replace("name = \"x\"", "name = \"X y\""), "x.toml:1:1: the name `X y`"),
            (GOOD.replace("\"x.conf\"\n", "\"../x\"\n"), "x.toml:1:1: the path `../x`"),
            (GOOD.replace("listen.v6", "listen.v7"), "x.toml:14:1: "),
            (GOOD.replace("endif", "endfi"), "x.toml:15:1: "),
            (GOOD.replace("{{ threads }}", "{{ treads }}"), "x.toml:10:1: "),
            (GOOD.replace("[start]", "[stop]\nsignal = \"HUPP\"\n[start]"), "x.toml:9:10: `HUPP`"),
            (GOOD.replace("[start]", "[ready]\ntimeout = \"5\"\n[start]"), "x.toml:9:11: `5`"),
        ];
        for (text, start) in table {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}\nwanted {start}");
        }
    }

    #[test]
    fn a_server_of_the_users_own() {
        let mut custom = Custom::new("/opt/x/x -p {{ listen.port }} {{ dir }}/x.conf");
        custom.files.insert("x.conf".to_owned(), "threads {{ threads }}\n".to_owned());
        let adapter = Adapter::custom("x", Role::Dns64, &custom).unwrap();
        assert_eq!((adapter.listen.port, adapter.roles.as_slice()), (53, [Role::Dns64].as_slice()));
        assert!(adapter.program().is_ok() && adapter.read_version("1.0").is_none());
        let table = [
            ("X", Custom::new("x"), "server X:1:1: the name `X`"),
            ("x", Custom::new("x {{ nothing }}"), "server x:1:1: undefined"),
            ("x", Custom::new(" "), "server x:1:1: it has neither a `command` nor an `address`"),
            ("x", Custom { port: 0, ..Custom::new("x") }, "server x:1:1: `listen` needs a port"),
        ];
        for (name, custom, start) in table {
            let error = Adapter::custom(name, Role::Dns64, &custom).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn programs_are_found() {
        let adapter = parse(GOOD).unwrap();
        assert_eq!(adapter.find_program(OsStr::new("/nowhere:/bin")), Some("/bin/sh".into()));
        let mut adapter = adapter;
        adapter.binaries = vec!["no-such-x".to_owned()];
        let error = adapter.program().unwrap_err().to_string();
        assert!(error.contains("apt-get install x-server"), "{error}");
        assert!(adapter.check_role(Role::Dns64).is_ok());
        let error = adapter.check_role(Role::Authoritative).unwrap_err().to_string();
        assert!(error.contains("as authoritative; its adapter knows it as dns64"), "{error}");
    }
}
