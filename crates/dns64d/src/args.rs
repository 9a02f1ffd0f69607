use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::control::Ctl;

/// What `--version` prints: the version, and what this build is.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("DNSDYNO_BUILD_COMMIT"),
    "\nfeatures: ",
    env!("DNSDYNO_BUILD_FEATURES"),
    "\nkernel engine: ",
    env!("DNSDYNO_BUILD_KERNEL_ENGINE"),
);

/// A DNS64 server (RFC 6147): AAAA records for names that have only A records.
///
/// It forwards queries to the configured resolvers, and synthesises AAAA records for hosts that reach IPv4
/// through a NAT64.
///
/// Signals: SIGHUP reads the configuration again without losing a query (the log names changed settings that need a
/// restart); SIGTERM and SIGINT stop the server after pending queries are answered, at most 5 s later.
///
/// With `[kernel]` a program in XDP answers before the sockets; it needs root, or CAP_BPF and CAP_NET_ADMIN, at the
/// start.
///
/// `dns64d ctl` shows and changes the state of a running server through a UNIX socket (`control.socket`).
///
/// Exit codes: 0 success, 1 failure of the server, 2 error in the configuration or the command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "dns64d", version, long_version = LONG_VERSION)]
pub(crate) struct Args {
    /// Configuration file, TOML.
    #[arg(short, long, value_name = "FILE", default_value = "/etc/dns64d.toml", global = true)]
    pub(crate) config: PathBuf,

    /// Only check the configuration, with the certificates, keys, users, rules and folders that it names, and print the
    /// first error with its place.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print all settings with their defaults and explanations, as a first configuration file.
    #[arg(long)]
    pub(crate) print_defaults: bool,

    /// Write the man page into this folder.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) man: Option<PathBuf>,

    /// Print the completions of a shell.
    #[arg(long, value_name = "SHELL", hide = true)]
    pub(crate) completions: Option<Shell>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Commands other than running a server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    Ctl(Ctl),
}

pub(crate) fn write_man(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("dns64d.8");
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).section("8").render(&mut page)?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, page))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Prints the completions of `shell`.
pub(crate) fn print_completions(shell: Shell) {
    clap_complete::generate(shell, &mut Args::command(), "dns64d", &mut std::io::stdout());
}
