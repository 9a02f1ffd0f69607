//! `dnsdyno run --metrics`: the progress of a run for Prometheus.
//!
//! The lab has its own network namespace, whose addresses cannot be reached from outside. So the listener is opened before
//! the lab is entered; an environment variable passes its descriptor to the program's second start.
//!
//! ```text
//!   outer process: Listener::open ──> lab::enter_with(variable) ──> inner process: Listener::open
//!                                                                     └─> serve(board) ...
//! ```

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, anyhow};
use report::live;
use streams::scrape::{self, Page};

use super::live::Board;
use crate::failure::Failure;

/// Environment variable with the descriptor of the listener, for the inner process.
const VARIABLE: &str = "DNSDYNO_METRICS_FD";

/// The listener, before and after the lab is entered.
pub(crate) enum Listener {
    /// The descriptor that stays open for the inner process.
    Bequeathed(i32),
    /// The listener in the inner process.
    Inherited(TcpListener),
}

impl Listener {
    /// Opens the listener at `address`, or uses the one that the outer process has opened.
    pub(crate) fn open(address: SocketAddr) -> Result<Self, Failure> {
        if let Some(fd) = std::env::var_os(VARIABLE) {
            let fd = fd.to_str().and_then(|fd| fd.parse().ok());
            let listener = fd.and_then(|fd| scrape::inherit(fd).ok());
            return listener.map(Listener::Inherited).ok_or_else(|| {
                Failure::input(anyhow!("{VARIABLE} is set, but not by dnsdyno: unset it"))
            });
        }
        let listener = TcpListener::bind(address)
            .with_context(|| format!("--metrics {address}: cannot listen there"))
            .map_err(Failure::BadInput)?;
        if let Ok(address) = listener.local_addr() {
            eprintln!("metrics: http://{address}/metrics");
        }
        scrape::bequeath(listener).map(Listener::Bequeathed).map_err(Failure::run)
    }

    /// Returns the environment variables that pass the listener to the inner process.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Listener::Bequeathed(fd) => vec![(VARIABLE, fd.to_string())],
            Listener::Inherited(_) => Vec::new(),
        }
    }
}

/// Serves `board` on the inherited listener, in its own thread, until the process ends.
pub(crate) fn serve(listener: Option<Listener>, board: &Board) -> Result<(), Failure> {
    let Some(Listener::Inherited(listener)) = listener else { return Ok(()) };
    let shown = board.clone();
    let page = move |path: &str| {
        (path == "/metrics").then(|| Page { ok: true, text: live::metrics(&shown.state()) })
    };
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            if let Err(e) = scrape::serve(listener, page, |_| true, std::future::pending()) {
                eprintln!("dnsdyno: the metrics ended: {e}");
            }
        })
        .map_err(Failure::run)?;
    Ok(())
}
