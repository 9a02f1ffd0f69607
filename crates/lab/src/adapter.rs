//! Adapters: how a server is found, configured, started and stopped, as data.
//!
//! Each file `servers/*.toml` is one adapter; a new server needs no Rust, and `--servers-dir DIR` adds to the
//! built-in adapters or replaces them. Configuration files and arguments are templates
//! ([minijinja](https://docs.rs/minijinja), the syntax of Jinja) over the [`Setting`]. The whole adapter is checked
//! when it is read: unknown keys and unknown variables are errors with file and line.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use experiment::Custom;
use experiment::file::{Role, place};
use measure::Transport;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use wire::Pref64;

pub(crate) use self::source::Source;
pub(crate) use self::tables::{
    FileTemplate, Listen, Ready, ReplicationTable, Start, Stop, Variable, VersionQuery, duration,
};
use crate::adapter::part::ReplicationRole;
use crate::adapter::template::Setting;

pub mod builds;
pub mod built_in;
pub(crate) mod catalogue;
pub mod detect;
pub(crate) mod part;
mod program;
mod source;
mod tables;
pub(crate) mod template;
pub(crate) mod variables;

/// Description of one server: how it is configured, started, queried and stopped (a file of
/// `servers/`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Name in arguments and files: lower case letters, digits and dashes.
    pub name: String,
    /// Display name of the server.
    pub title: String,
    /// Roles of the server; a front has the roles of the server behind it.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// Reason why some synthesised addresses of the server are wrong, so that they are not checked;
    /// absent for other servers.
    #[serde(default, rename = "wrong-addresses")]
    pub wrong_addresses: Option<String>,
    /// The only prefix with which the server synthesises addresses; any if absent.
    #[serde(default, rename = "only-pref64", deserialize_with = "some_prefix")]
    pub only_pref64: Option<Pref64>,
    /// Whether the server is a front, which forwards queries to another server.
    #[serde(default)]
    pub front: bool,
    /// Transports other than UDP and TCP, each with the first version that supports it.
    #[serde(default)]
    pub transports: BTreeMap<Transport, String>,
    /// Variables of the server's templates that an experiment may set, by name.
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
    /// Number of open files that the server needs for each connection.
    #[serde(default = "default_files", rename = "files-per-connection")]
    pub files_per_connection: u64,
    /// Memory that the server needs for each name of a zone, in bytes, as measured
    /// (docs/experiments/auth-memory.md).
    #[serde(default = "default_bytes", rename = "bytes-per-name")]
    pub bytes_per_name: u64,
    /// Server behind a front; only in adapters that [`Catalogue`](crate::Catalogue) joins.
    #[serde(skip)]
    pub behind: Option<Box<Adapter>>,
    /// Address and port of a server that the user runs; only in adapters made by [`Adapter::custom`].
    #[serde(skip)]
    pub remote: Option<SocketAddr>,
    /// Program that was built for this run; searched for if absent.
    #[serde(skip)]
    pub(crate) built: Option<PathBuf>,
    /// Text of the adapter's file.
    #[serde(skip)]
    pub(crate) source: Source,
    /// Package that contains the server; empty if none does.
    #[serde(default)]
    pub package: String,
    /// Command that builds the server, if no package contains it.
    #[serde(default)]
    pub build: Option<String>,
    /// Names of the server's program, searched for on PATH and in the system's directories.
    pub binaries: Vec<String>,
    /// How to query the server's version; absent if it prints none.
    pub version: Option<VersionQuery>,
    /// The command line of the server's process, and its environment.
    pub start: Start,
    /// The server's port, and the addresses and transports over which it is queried.
    #[serde(default)]
    pub listen: Listen,
    /// When the server must be ready.
    #[serde(default)]
    pub ready: Ready,
    /// The signal that ends the server, and the time limit.
    #[serde(default)]
    pub stop: Stop,
    /// Configuration files of the server.
    #[serde(default)]
    pub files: Vec<FileTemplate>,
    /// How to configure the server as a primary or a secondary; absent if the adapter does not
    /// support it.
    #[serde(default)]
    pub replication: Option<ReplicationTable>,
}

fn default_files() -> u64 {
    1
}

fn default_bytes() -> u64 {
    1_024
}

fn some_prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pref64>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// Why an adapter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// A file is not valid.
    #[error("{}:{line}:{column}: {why}", path.display())]
    Bad {
        /// Path of the adapter's file, or of the experiment with a custom server.
        path: PathBuf,
        /// Line of the value, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// The problem, and accepted values.
        why: String,
    },
    /// There is no such server.
    #[error("there is no server `{name}`; known are {known}")]
    Unknown {
        /// Name in the experiment or on the command line.
        name: String,
        /// Names of all adapters, for the reader to choose from.
        known: String,
    },
    /// The server does not support the role.
    #[error("{title} cannot be measured as {role}; its adapter supports {known}")]
    WrongRole {
        /// Display name of the server.
        title: String,
        /// Role of the experiment's servers.
        role: &'static str,
        /// Roles that the adapter has, joined by commas.
        known: String,
    },
    /// The server has no table `[replication]`.
    #[error("{title} cannot be a primary or a secondary: its adapter has no table `[replication]`")]
    NotReplicating {
        /// Display name of the server.
        title: String,
    },
    /// The program of the server is not on this machine.
    #[error(
        "{title} is not installed: no program {binaries} on PATH or in /usr/sbin; \
         {remedy}"
    )]
    NotInstalled {
        /// Display name of the server.
        title: String,
        /// Programs that were looked for.
        binaries: String,
        /// How to install or build it.
        remedy: String,
    },
}

impl Adapter {
    /// Parses an adapter and checks it completely; errors name `path`.
    ///
    /// # Errors
    /// [`AdapterError::Bad`] with its place.
    pub fn parse(text: &str, path: &Path) -> Result<Self, AdapterError> {
        let bad = |at: usize, why: String| {
            let (line, column) = place(text, at);
            AdapterError::Bad { path: path.to_owned(), line, column, why }
        };
        let adapter: Self = toml::from_str(text).map_err(|e| {
            bad(e.span().map_or(0, |span| span.start), e.message().replace('\n', "; "))
        })?;
        let adapter = Adapter { source: Source::File(text.to_owned()), ..adapter };
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

    /// Makes an adapter for a custom server of the user, which the shell starts.
    ///
    /// # Errors
    /// If its name, its command or one of its files is invalid.
    pub fn custom(name: &str, role: Role, custom: &Custom) -> Result<Self, AdapterError> {
        let template = |text: &str| Spanned::new(0..0, text.to_owned());
        let files = custom.files.iter();
        let files =
            files.map(|(path, text)| FileTemplate { path: path.clone(), text: template(text) });
        let adapter = Adapter {
            files_per_connection: default_files(),
            bytes_per_name: default_bytes(),
            name: name.to_owned(),
            title: name.to_owned(),
            roles: vec![role],
            remote: custom.address,
            source: Source::Custom(name.to_owned(), role, Box::new(custom.clone())),
            binaries: vec!["sh".to_owned()],
            start: Start {
                daemon: custom.daemon,
                arguments: vec![template("-c"), template(&custom.command)],
                ..Start::default()
            },
            listen: Listen {
                port: custom.port,
                ipv6: custom.ipv6,
                ipv4: custom.ipv4,
                ..Listen::default()
            },
            ready: Ready { timeout: custom.ready.into() },
            files: files.collect(),
            ..Adapter::default()
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

    /// Returns the adapter under the name of a server that was built for this run; its own program is looked for if `built` is absent.
    pub(crate) fn named(&self, name: &str, built: Option<&Path>) -> Self {
        let (name, title) = (name.to_owned(), format!("{} ({name})", self.title));
        Adapter { name, title, built: built.map(Path::to_owned), ..self.clone() }
    }

    /// Returns values to test the templates with: each role, with each value of each variable.
    fn samples(&self) -> impl Iterator<Item = Setting> {
        let roles = if self.front { Role::ALL.as_slice() } else { self.roles.as_slice() };
        let values = self.variables.iter().flat_map(|(name, variable)| {
            variable.values.iter().map(|value| [(name.clone(), value.clone())].into())
        });
        let choices: Vec<BTreeMap<String, String>> =
            std::iter::once(BTreeMap::new()).chain(values).collect();
        roles.iter().flat_map(move |role| {
            let settings = Setting::samples(*role, self.front);
            let choices = choices.clone();
            settings.into_iter().flat_map(move |setting| {
                let with = |choice: &BTreeMap<String, String>| Setting {
                    variables: self.with_defaults(choice),
                    ..setting.clone()
                };
                choices.iter().map(with).collect::<Vec<_>>()
            })
        })
    }

    /// Returns `chosen` with the defaults of the variables that it leaves out.
    pub(crate) fn with_defaults(
        &self,
        chosen: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let defaults = self
            .variables
            .iter()
            .filter_map(|(name, variable)| Some((name.clone(), variable.values.first()?.clone())));
        let mut all: BTreeMap<String, String> = defaults.collect();
        all.extend(chosen.clone());
        all
    }

    /// Returns all templates of the adapter: files, arguments and environment.
    fn templates(&self) -> impl Iterator<Item = &Spanned<String>> {
        let files = self.files.iter().map(|file| &file.text);
        files.chain(&self.start.arguments).chain(self.start.environment.values())
    }

    /// Returns whether the server, or that behind a front, supports several AuthDNS: a template
    /// names `upstreams`.
    pub(crate) fn asks_several(&self) -> bool {
        self.mentions("upstreams")
    }

    /// Returns whether the server, or that behind a front, loads a zone file; others compute their
    /// answers.
    pub fn loads_zones(&self) -> bool {
        self.mentions("zone_file")
    }

    fn mentions(&self, variable: &str) -> bool {
        let mut templates = self.chain().flat_map(Adapter::templates);
        templates.any(|template| template.get_ref().contains(variable))
    }

    /// Returns the templates of the configuration as a primary or a secondary.
    fn replication_templates(&self) -> impl Iterator<Item = &Spanned<String>> {
        let tables = self.replication.iter();
        tables.flat_map(|r| r.files.iter().map(|file| &file.text).chain([&r.prepare]))
    }

    /// Returns all templates of the adapter, each with test values.
    fn templates_and_samples(&self) -> Vec<(&Spanned<String>, Vec<Setting>)> {
        let usual: Vec<Setting> = self.samples().collect();
        let parts: Vec<Setting> =
            ReplicationRole::samples().into_iter().flat_map(Setting::replicating).collect();
        let all = self.templates().map(|template| (template, usual.clone()));
        let defaults = self.with_defaults(&BTreeMap::new());
        let parts: Vec<Setting> =
            parts.into_iter().map(|part| Setting { variables: defaults.clone(), ..part }).collect();
        let replication = self.replication_templates().map(|template| (template, parts.clone()));
        all.chain(replication).collect()
    }

    /// Returns the server's configuration as a primary or a secondary.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn replicating(&self) -> Result<&ReplicationTable, AdapterError> {
        let title = || self.title.clone();
        self.replication.as_ref().ok_or_else(|| AdapterError::NotReplicating { title: title() })
    }

    /// Returns whether the server's `version` supports `transport`.
    pub fn speaks(&self, transport: Transport, version: Option<&str>) -> bool {
        let since = self.transports.get(&transport);
        match transport {
            // The user is responsible for the transports of a remote server.
            _ if self.remote.is_some() => true,
            Transport::Udp => self.listen.udp,
            Transport::Tcp => true,
            _ => since.is_some_and(|since| template::at_least(version.unwrap_or_default(), since)),
        }
    }

    /// Returns whether the server or the one behind it has the variable `name`, or uses it in a
    /// template.
    pub(crate) fn knows_variable(&self, name: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let uses = |text: &Spanned<String>| text.get_ref().split(|c| !word(c)).any(|w| w == name);
        let declared = |a: &Adapter| a.variables.contains_key(name);
        let used = |a: &Adapter| a.templates().chain(a.replication_templates()).any(uses);
        self.chain().any(|a| declared(a) || used(a))
    }

    /// Returns why the server or the one behind it does not accept a value of a variable; `None` if
    /// it does.
    pub(crate) fn refuses(&self, name: &str, value: &str) -> Option<String> {
        self.chain().find_map(|adapter| {
            let known = &adapter.variables.get(name)?.values;
            let why =
                || format!("`{value}`: `{name}` of {} is {}", adapter.title, known.join(" or "));
            (!known.iter().any(|known| known == value)).then(why)
        })
    }

    /// Returns why `version` no longer supports a value of a variable; `None` if it does.
    pub(crate) fn lacks(&self, name: &str, value: &str, version: Option<&str>) -> Option<String> {
        let until = self.variables.get(name)?.until.get(value)?;
        let version = version.unwrap_or_default();
        template::at_least(version, until).then(|| {
            format!(
                "{} {version} does not support `{name}` {value}: only versions before {until} do",
                self.title
            )
        })
    }

    /// Returns the error in the adapter; `None` if it is valid.
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
            let why = "`roles` needs at least one entry; with `front = true`, omit `roles`";
            return Some(why.to_owned());
        }
        for (name, variable) in &self.variables {
            if variable.values.is_empty() {
                return Some(format!("the variable `{name}` needs at least one value"));
            }
            let unknown = |value: &&String| !variable.values.contains(value);
            if let Some(value) = variable.notes.keys().find(unknown) {
                return Some(format!(
                    "the variable `{name}` has a note on `{value}`, which is not one of its values"
                ));
            }
            if let Some(value) = variable.until.keys().find(unknown) {
                return Some(format!(
                    "the variable `{name}` lists a version for `{value}`, which is not one of its values"
                ));
            }
            if let Some(value) = variable.programs.iter().find(unknown) {
                return Some(format!(
                    "the variable `{name}` lists programs for `{value}`, which is not one of its values"
                ));
            }
        }
        let outside = |path: &str| {
            let path = path.strip_prefix('/').filter(|_| self.start.daemon).unwrap_or(path);
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
        Some(format!(
            "the path `{path}` does not stay in the directory of the run (absolute paths need `daemon = true`)"
        ))
    }

    /// Returns how to get the server's program, in words.
    pub fn remedy(&self) -> String {
        match &self.build {
            Some(command) => format!("build it: {command}"),
            None => format!("as root: apt-get install {}", self.package),
        }
    }

    /// Checks that the server supports `role`.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn check_role(&self, role: Role) -> Result<(), AdapterError> {
        if self.roles.contains(&role) {
            return Ok(());
        }
        let known: Vec<&str> = self.roles.iter().map(|role| role.word()).collect();
        let (title, known) = (self.title.clone(), known.join(", "));
        Err(AdapterError::WrongRole { title, role: role.word(), known })
    }

    /// Joins a front with the server `behind` it: a server with the roles of `behind`.
    pub(crate) fn before(&self, behind: &Adapter) -> Self {
        let text = match &self.source {
            Source::File(text) => text.clone(),
            Source::Front(..) | Source::Custom(..) => String::new(),
        };
        Adapter {
            source: Source::Front(text, Box::new(behind.source.clone())),
            name: format!("{}+{}", self.name, behind.name),
            title: format!("{} before {}", self.title, behind.title),
            roles: behind.roles.clone(),
            behind: Some(Box::new(behind.clone())),
            ready: Ready { timeout: self.ready.timeout.max(behind.ready.timeout) },
            ..self.clone()
        }
    }

    /// Returns this adapter and the adapters of the servers behind it.
    pub fn chain(&self) -> impl Iterator<Item = &Adapter> {
        std::iter::successors(Some(self), |adapter| adapter.behind.as_deref())
    }
}

#[cfg(test)]
pub(crate) mod tests;
