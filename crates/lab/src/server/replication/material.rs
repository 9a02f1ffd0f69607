//! Files for the servers of a group: a zone of delegations, updates for it, queries for it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use experiment::Method;
use experiment::settings::ReplicationSettings;
use update::{Generate, GenerateError, stream};
use wire::Name;
use zone::queries::QueriesError;
use zone::slice::SliceError;
use zone::stats::Stats;
use zone::{Reader, TldZone, ZoneFileError};

use super::ZONE;
use crate::server::query_stream::{Prepared, QueryStream};
use crate::server::signer::{Algorithm, Denial, SignError, Signer, ZoneToSign};
use crate::server::zonefile::{cut_zone, write_queries};

/// TTL of the zone's records, in seconds: BIND's default signing policy refuses more.
const TTL: u32 = 86_400;
/// Largest number of updates in one stream during queries.
const MOST_UPDATES: u64 = 500_000;

/// Files that all cells of one zone share.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    /// Apex of the zone that the group replicates.
    pub(crate) apex: Name,
    /// File of the initial zone, unsigned.
    pub(crate) zone: PathBuf,
    /// Signed form of the zone; only if the method sends no updates and the zone is signed.
    pub(crate) signed: Option<PathBuf>,
    /// Stream of updates; only if the method sends any.
    pub(crate) updates: Option<PathBuf>,
    /// Queries for names of the zone, and for some that do not exist.
    pub(crate) queries: PathBuf,
    /// Number of delegations of the zone.
    pub(crate) delegations: u64,
}

/// Files of the cells that share them: their settings and paths.
pub(crate) type SharedFiles = Vec<(MadeFor, Material)>;

/// Settings that decide about the files of a cell, its method, and its stream of queries.
pub(crate) type MadeFor = (ReplicationSettings, Method, Option<QueryStream>);

/// Error while making the files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MaterialError {
    /// A file could not be read or written.
    #[error("the zone of delegations: {0}")]
    File(#[from] io::Error),
    /// The zone could not be read again.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// The zone could not be sliced.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// The queries could not be made.
    #[error(transparent)]
    Queries(#[from] QueriesError),
    /// The zone is to be signed and no signer is installed; the package that has one.
    #[error("no signer is installed: apt-get install {0}")]
    NoSigner(&'static str),
    /// The zone could not be signed.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// The updates could not be made.
    #[error(transparent)]
    Updates(#[from] GenerateError),
}

impl Material {
    /// Makes the files in the directory `dir`, and the directory. The zone and the queries come
    /// from `stream`, if it has them.
    pub(crate) fn make(
        settings: &ReplicationSettings,
        method: Method,
        stream: Option<&Prepared>,
        dir: &Path,
    ) -> Result<Self, MaterialError> {
        std::fs::create_dir_all(dir)?;
        let apex = stream.map_or(ZONE.parse().expect("a name"), |stream| stream.apex);
        let zone = match stream.and_then(|stream| stream.zone.clone()) {
            Some(zone) => zone,
            None => delegations(settings, dir)?,
        };
        let queries = match stream {
            Some(stream) => stream.queries.clone(),
            None => {
                let queries = dir.join("queries");
                write_queries(&zone, 0.5, &queries)?;
                queries
            }
        };
        // Without updates no server signs again, so that all servers can share the signed zone.
        let in_file = settings.signed && method == Method::SignedUnsigned;
        let signed = in_file.then(|| sign(&zone, &apex, dir)).transpose()?;
        let delegations = match stream.and_then(|stream| stream.zone.as_ref()) {
            Some(zone) => Stats::of(|| Reader::open(zone, None))?.delegations,
            None => settings.delegations / settings.slice.map_or(1, |slice| slice.of() as u64),
        };
        let count = match method {
            Method::UpdateRate => settings.updates + 3 * settings.killed_after,
            // Two of three updates need a delegation without names below it.
            Method::QueryUnderUpdate => (delegations / 2).min(MOST_UPDATES),
            _ => 0,
        };
        let updates = (count > 0).then(|| generate(&zone, count, dir)).transpose()?;
        Ok(Material { apex, zone, signed, updates, queries, delegations })
    }
}

/// Writes the zone of delegations, or its slice; returns its path.
fn delegations(settings: &ReplicationSettings, dir: &Path) -> Result<PathBuf, MaterialError> {
    let path = dir.join("zone");
    let mut tld = TldZone::new(ZONE.parse().expect("a name"), settings.delegations, 1);
    tld.ttl = TTL;
    tld.write(&mut File::create(&path)?)?;
    let Some(slice) = settings.slice else { return Ok(path) };
    let part = dir.join("slice");
    cut_zone(&path, slice, &part)?;
    Ok(part)
}

/// Makes a stream of updates for a zone.
fn generate(zone: &Path, count: u64, dir: &Path) -> Result<PathBuf, GenerateError> {
    let updates = dir.join("updates");
    let mut out = BufWriter::new(File::create(&updates)?);
    stream::begin(&mut out)?;
    let put = |update: &_| stream::write(&mut out, update);
    Generate::new(count, 1).run(Reader::open(zone, None)?, put)?;
    out.flush()?;
    Ok(updates)
}

/// Signs the zone like a top-level domain, by the first installed signer.
fn sign(input: &Path, apex: &Name, dir: &Path) -> Result<PathBuf, MaterialError> {
    let signer = Signer::installed().ok_or(MaterialError::NoSigner(Signer::ALL[0].package()))?;
    let output = dir.join("signed-zone");
    ZoneToSign {
        signer,
        zone: apex,
        input,
        output: &output,
        keys: &dir.join("keys"),
        algorithm: Algorithm::EcdsaP256Sha256,
        denial: Denial::Nsec3OptOut,
    }
    .run()?;
    Ok(output)
}
