//! The command line.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{CommandFactory, Parser};

/// A DNS64 server (RFC 6147): AAAA for names that have only A.
///
/// It forwards queries to the resolvers that the configuration names, and synthesises AAAA records for hosts that
/// reach IPv4 through a NAT64.
///
/// Signals: SIGHUP reads the configuration again, without losing a query (addresses to listen on, the number of
/// workers and the bound of outstanding queries need a restart); SIGTERM and SIGINT end the server after the queries
/// under way have been answered, 5 s at most.
///
/// Exit codes: 0 fine, 1 the server failed, 2 a mistake in the configuration or the command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "dns64d", version)]
pub(crate) struct Args {
    /// The configuration, TOML.
    #[arg(short, long, value_name = "FILE", default_value = "/etc/dns64d.toml")]
    pub(crate) config: PathBuf,

    /// Only check the configuration: says what is wrong and where, or that nothing is.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print all settings with their defaults and what they mean, as a configuration to start from.
    #[arg(long)]
    pub(crate) print_defaults: bool,

    /// Write the man page into this folder.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) man: Option<PathBuf>,
}

/// Writes `dns64d.8` into `folder`.
pub(crate) fn write_man(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("dns64d.8");
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).section("8").render(&mut page)?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, page))
        .with_context(|| format!("cannot write {}", path.display()))
}
