//! `dns64d ctl`: sends a request, shows the answer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::Value;

use super::request::Request;
use super::show;

/// Longest wait for the server: longer than any step of it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Control a running server, through the socket that its configuration names (`control.socket`).
#[derive(Clone, Debug, Args)]
pub(crate) struct Ctl {
    /// Socket of the server; without it the one that the configuration file names.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Show the answer as JSON.
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    request: Request,
}

impl Ctl {
    /// Sends the request to the server at `socket`, and writes its answer to `out`.
    ///
    /// # Errors
    /// When there is no server, or it refuses the request.
    pub(crate) fn run(&self, socket: &Path, out: &mut impl Write) -> anyhow::Result<()> {
        let place = || {
            format!(
                "{}: no answer; is dns64d running with this `control.socket`?",
                socket.display()
            )
        };
        let mut stream = UnixStream::connect(socket).with_context(place)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut line = serde_json::to_string(&self.request)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).with_context(place)?;
        let mut any = false;
        for line in BufReader::new(stream).lines() {
            let line = line.with_context(place)?;
            let document: Value = serde_json::from_str(&line).map_err(|error| {
                anyhow!("{}: not an answer of dns64d: {error}", socket.display())
            })?;
            if let Some(error) = document.get("error").and_then(Value::as_str) {
                bail!("{error}");
            }
            any = true;
            match self.json {
                true => writeln!(out, "{line}")?,
                false => write!(out, "{}", show::text(&document))?,
            }
        }
        if any { Ok(()) } else { Err(anyhow!(place())) }
    }
}
