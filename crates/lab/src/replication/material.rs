//! What the servers of a group are given: a zone of delegations, updates that fit it, queries for it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::Method;
use experiment::settings::ReplicationSettings;
use wire::LabelRange;
use zone::queries::{Queries, QueriesError};
use zone::{Reader, TldZone, ZoneFileError};

use super::ZONE;
use crate::enter::program;
use crate::process::{Launch, Process, ProcessError};
use crate::signer::{Algorithm, Denial, SignError, Signer, Signing};
use crate::testbed::{Host, Testbed};

/// TTL of the zone's records, seconds: more is refused by BIND's default policy for signing.
const TTL: u32 = 86_400;
/// The most updates of one stream under queries.
const MOST_UPDATES: u64 = 500_000;
/// Queries of the file that is asked from.
const QUERIES: u64 = 200_000;
/// How long the stream of updates may take to be made.
const MAKING: Duration = Duration::from_secs(600);

/// Files that all cells of one zone share.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    /// The zone, unsigned.
    pub(crate) zone: PathBuf,
    /// The same zone with signatures; only where the method updates nothing and the zone is signed.
    pub(crate) signed: Option<PathBuf>,
    /// The stream of updates; only where the method sends any.
    pub(crate) updates: Option<PathBuf>,
    /// Queries for names of the zone, and some that are not there.
    pub(crate) queries: PathBuf,
    /// Delegations of the zone.
    pub(crate) delegations: u64,
}

/// Why there is no material.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MaterialError {
    /// A file could not be read or written.
    #[error("the zone of delegations: {0}")]
    File(#[from] io::Error),
    /// The zone could not be read again.
    #[error(transparent)]
    Zone(#[from] ZoneFileError),
    /// The queries could not be made.
    #[error(transparent)]
    Queries(#[from] QueriesError),
    /// Nobody here signs zones.
    #[error("no signer is installed: apt-get install {0}")]
    NoSigner(&'static str),
    /// The signer failed.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// The updates could not be made.
    #[error(transparent)]
    Updates(#[from] ProcessError),
}

impl Material {
    /// Makes the files in the directory `dir`, which it makes too.
    pub(crate) fn make(
        settings: &ReplicationSettings,
        method: Method,
        testbed: &Testbed,
        dir: &Path,
    ) -> Result<Self, MaterialError> {
        std::fs::create_dir_all(dir)?;
        let (zone, queries) = (dir.join("zone"), dir.join("queries"));
        let mut tld = TldZone::new(ZONE.parse().expect("a name"), settings.delegations, 1);
        tld.ttl = TTL;
        tld.write(&mut File::create(&zone)?)?;
        let asked = Queries {
            count: QUERIES,
            range: LabelRange::default(),
            missing: 0.1,
            www: 0.5,
            exponent: 0.9,
            seed: 1,
        };
        asked
            .write(Reader::open(&zone, None)?, &mut io::BufWriter::new(File::create(&queries)?))?;
        // Without updates nobody has to sign again, and all servers can have the same signed zone.
        let in_file = settings.signed && method == Method::SignedUnsigned;
        let signed = in_file.then(|| sign(&zone, dir)).transpose()?;
        let count = match method {
            Method::UpdateRate => settings.updates + 2 * settings.killed_after,
            // Two of three updates need a delegation with nothing below it.
            Method::QueryUnderUpdate => (settings.delegations / 2).min(MOST_UPDATES),
            _ => 0,
        };
        let updates = (count > 0).then(|| generate(&zone, count, testbed, dir)).transpose()?;
        let delegations = settings.delegations;
        Ok(Material { zone, signed, updates, queries, delegations })
    }
}

/// Makes a stream of updates for a zone.
fn generate(
    zone: &Path,
    count: u64,
    testbed: &Testbed,
    dir: &Path,
) -> Result<PathBuf, ProcessError> {
    let updates = dir.join("updates");
    let count = count.to_string();
    let mut command = vec![program().into(), "update".into(), "generate".into(), zone.into()];
    command.extend(["--count", &count, "--output"].map(Into::into));
    command.push(updates.clone().into());
    let mut process = Process::start(&Launch {
        name: "update-generate",
        namespace: testbed.namespace(Host::Tester),
        cpus: testbed.cpus(Host::Tester),
        dir,
        command,
        environment: Vec::new(),
    })?;
    match process.wait(MAKING) {
        None => Err(process.late("make the updates", MAKING)),
        Some(status) if status.success() => Ok(updates),
        Some(_) => process.check().map(|()| updates),
    }
}

/// The zone signed as those of top-level domains are, by the first signer that is installed.
fn sign(input: &Path, dir: &Path) -> Result<PathBuf, MaterialError> {
    let signer = Signer::installed().ok_or(MaterialError::NoSigner(Signer::ALL[0].package()))?;
    let output = dir.join("signed-zone");
    Signing {
        signer,
        zone: &ZONE.parse().expect("a name"),
        input,
        output: &output,
        keys: &dir.join("keys"),
        algorithm: Algorithm::EcdsaP256Sha256,
        denial: Denial::Nsec3OptOut,
    }
    .run()?;
    Ok(output)
}
