//! Query streams: queries of a file or a capture, and zones, in place of the namespace and its names.
//!
//! ```text
//!   before the run   each file is read: its names fit the zone, its hash is recorded ──> QueryStream
//!   first visit      zone file, or hosts ──slice──> zone ──> servers
//!                    Internet in a box ──> zones ──> AuthDNS; queries ──> Measurer
//!                    query file, capture, or names of the zone ──slice──> query file, capture ──> Measurer
//! ```
//!
//! Methods with a rate replay a capture at its times, as much faster as the rate needs; a closed loop and lanes send
//! its queries in their order.

mod check;
mod cold;
mod prepare;
mod servers;

use std::path::{Path, PathBuf};

use experiment::file::Role;
use experiment::settings::{InternetSettings, ZoneSlice};
use experiment::{Experiment, FileError, Point};
use record::InputFile;
use wire::{Name, Namespace};

use crate::server::internet::InternetFolderError;
use crate::server::replication::ZONE;
use crate::server::signer::Signer;

pub use self::check::Inputs;
pub(crate) use self::check::PORTS;
pub(crate) use self::cold::ColdInternet;
use self::cold::check_internet;
pub(crate) use self::prepare::{CaptureFile, Prepared};

/// Apex of a generated zone.
const MADE_ZONE: &str = "example.test";
/// Stream of queries of one point of the matrix, whose files were read and are valid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryStream {
    queries: Option<PathBuf>,
    replay: Option<PathBuf>,
    zone: Option<ZoneSource>,
    slice: Option<ZoneSlice>,
    /// Zone that the queried names are in.
    apex: Name,
    /// Internet in a box, in place of all files.
    internet: Option<InternetSettings>,
}

/// Where a zone comes from: a file of the user, or made here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ZoneSource {
    File(PathBuf),
    /// Number of hosts of a generated zone.
    Hosts(u64),
    /// Number of delegations of a zone like a top-level domain.
    Delegations(u64),
    /// Number of names of many kinds.
    Mixed(u64),
}

impl QueryStream {
    /// Returns why this host cannot make the zones of the stream; `None` if this host can make
    /// them.
    pub(crate) fn out_of_reach(&self) -> Option<String> {
        let signed = self.internet.as_ref().is_some_and(|internet| internet.signed > 0.0);
        (signed && Signer::installed().is_none()).then(|| InternetFolderError::NoSigner.to_string())
    }

    /// Reads the files of a point's stream; `None` if it queries the names of `namespace`. Files are noted in `inputs`.
    ///
    /// # Errors
    /// If a file cannot be read or is no such file, or a query does not fit the zone.
    pub(crate) fn new(
        experiment: &Experiment,
        point: &Point,
        namespace: &Namespace,
        inputs: &mut Inputs,
    ) -> Result<Option<Self>, FileError> {
        let (w, method) = (&point.settings.workload, point.settings.method);
        if !w.is_stream() {
            return Ok(None);
        }
        let bad = |key: &str, why| experiment.bad(point, &format!("workload.{key}"), why);
        let absolute = |path: &Option<PathBuf>, key| {
            let path =
                path.as_ref().map(|path| std::path::absolute(experiment.folder().join(path)));
            path.transpose().map_err(|e| bad(key, e.to_string()))
        };
        let (queries, replay) = (absolute(&w.queries, "queries")?, absolute(&w.replay, "replay")?);
        let file = absolute(&w.zone_file, "zone-file")?;
        let usual =
            if method.replicates() { ZONE.parse().expect("a name") } else { *namespace.zone() };
        let made = w.hosts.map(ZoneSource::Hosts).or(w.mixed.map(ZoneSource::Mixed));
        let made = made.or(w.delegations.map(ZoneSource::Delegations));
        let (zone, apex) = match (file, made) {
            _ if w.internet.is_some() => (None, Name::ROOT),
            (Some(path), _) => {
                let apex = inputs.zone(&path).map_err(|why| bad("zone-file", why))?;
                (Some(ZoneSource::File(path)), apex)
            }
            (None, Some(made)) => (Some(made), MADE_ZONE.parse().expect("a name")),
            (None, None) => (None, usual),
        };
        let mut internet = w.internet.clone();
        if let Some(internet) = &mut internet {
            internet.capture = absolute(&internet.capture, "internet.capture")?;
            check_internet(internet, inputs).map_err(|why| bad("internet", why))?;
        }
        let stream = Self { queries, replay, zone, slice: w.slice, apex, internet };
        let fit = |outside: check::Foreign| stream.outside_error(&outside, namespace, point);
        if let Some(path) = &stream.queries {
            let found = inputs.queries(path, &apex).map_err(|why| bad("queries", why))?;
            found.fit(w.slice.is_some()).map_err(|outside| bad("queries", fit(outside)))?;
        }
        if let Some(path) = &stream.replay {
            let found = inputs.capture(path, &apex).map_err(|why| bad("replay", why))?;
            found.fit(w.slice.is_some()).map_err(|outside| bad("replay", fit(outside)))?;
            let speed = check::speed(&point.settings, found.qps());
            speed.map_err(|why| bad("replay", why))?;
        }
        Ok(Some(stream))
    }

    /// Returns the capture or population that is replayed, if one is.
    pub(crate) fn replayed(&self) -> Option<&Path> {
        self.replay.as_deref()
    }

    /// Returns the error about a query for a name outside of the zone, and a remedy.
    fn outside_error(
        &self,
        outside: &check::Foreign,
        namespace: &Namespace,
        point: &Point,
    ) -> String {
        let apex = &self.apex;
        let example = namespace.name(namespace.nth(1));
        let (whose, remedy) = match (&self.zone, point.settings.role) {
            (Some(_), _) => (
                "the zone of `zone-file`, `hosts`, `delegations` or `mixed`".to_owned(),
                "`slice = \"1/1\"` leaves such queries out".to_owned(),
            ),
            (None, _) if point.settings.method.replicates() => (
                "the zone of `[replication]`".to_owned(),
                "give the `zone-file` of these queries".to_owned(),
            ),
            (None, role) => {
                let who = match role {
                    Role::Authoritative => "the servers have",
                    _ => "the AuthDNS answers for",
                };
                let remedy = format!(
                    "give the `zone-file` of these queries, or queries for names such as {example}"
                );
                (format!("the zone that {who}"), remedy)
            }
        };
        format!("{outside} is not in {apex} ({whose}); {remedy}")
    }
}

/// Checks that the files of a run that continues have not changed since its start.
///
/// # Errors
/// The first file that has changed, in words.
pub(crate) fn unchanged(began: &[InputFile], now: &[InputFile]) -> Result<(), String> {
    let changed = began.iter().find(|file| !now.contains(file));
    changed.map_or(Ok(()), |file| {
        let found = now.iter().find(|other| (&other.key, &other.path) == (&file.key, &file.path));
        let found = found.map_or("was removed".to_owned(), |now| format!("has {}", now.words()));
        Err(format!(
            "the file of `{}`, {}, is not the one that the run began with: it had {}, and {found}; \
             bring that file back, or begin a new run",
            file.key,
            file.path,
            file.words()
        ))
    })
}
