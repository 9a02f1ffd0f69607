//! `dnsdyno run --metrics`: the progress of a run for Prometheus.
//!
//! The lab has its own network namespace, whose addresses cannot be reached from outside. So the
//! listener is opened before the lab is entered, and its descriptor is passed to the program's
//! second start.
//!
//! ```text
//!   outer process: Listener::open ──> lab::enter_with(handed)   ──> inner process: Listener::open
//!                                                                     └─> serve(board) ...
//! ```

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;
use report::live;
use streams::scrape::{self, Page};

use super::live::Board;
use crate::failure::Failure;

/// Name of the descriptor of the listener, which is handed to the inner process.
const LISTENER_KEY: &str = "metrics";

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
        if let Some(fd) = lab::handed(LISTENER_KEY) {
            let listener = scrape::inherit(fd.parse().map_err(Failure::run)?);
            return listener.map(Listener::Inherited).map_err(Failure::run);
        }
        let listener = TcpListener::bind(address)
            .with_context(|| format!("--metrics {address}: cannot listen there"))
            .map_err(Failure::BadInput)?;
        if let Ok(address) = listener.local_addr() {
            eprintln!("metrics: http://{address}/metrics");
        }
        scrape::bequeath(listener).map(Listener::Bequeathed).map_err(Failure::run)
    }

    /// Returns the value for the inner process.
    pub(crate) fn to_hand(&self) -> Vec<(&'static str, String)> {
        match self {
            Listener::Bequeathed(fd) => vec![(LISTENER_KEY, fd.to_string())],
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
                eprintln!("dnsdyno: serving the metrics failed: {e}");
            }
        })
        .map_err(Failure::run)?;
    Ok(())
}
