//! The Internet in a box as a folder: its zones, signed from the leaves to the root, and the hints
//! and trust anchor for resolvers.
//!
//! ```text
//!   zones/h1.zone ...   zone files; a signed zone's DS record is in its parent before that is signed
//!   hints               names and addresses of the root's servers, as resolvers read them
//!   anchor              DS record of the root, if it is signed
//!   keys/               keys of the signed zones
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wire::{Name, Qtype};
use zone::internet::{Internet, file_name};
use zone::{Reader, ZoneFileError};

use crate::server::signer::{Algorithm, Denial, SignError, Signer, ZoneToSign};

/// An Internet in a box in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternetFolder {
    /// Path of the root hints.
    pub hints: PathBuf,
    /// Path of the root's DS record; `None` if the root is not signed.
    pub anchor: Option<PathBuf>,
    /// Number of zones, the root among them.
    pub zones: usize,
    /// Number of zones that are signed.
    pub signed: usize,
}

/// Error while an Internet in a box is written.
#[derive(Debug, thiserror::Error)]
pub enum InternetFolderError {
    /// The folder has zones already.
    #[error("{path} exists already: choose another folder, or remove it", path = .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// Zones are to be signed, and none of the programs that do it is installed.
    #[error("no signer is installed: apt-get install {}, or leave the zones unsigned", Signer::ALL[0].package())]
    NoSigner,
    /// The program that signs a zone failed.
    #[error("the zone {0}: {1}")]
    Sign(String, #[source] SignError),
    /// A signed zone cannot be read.
    #[error(transparent)]
    Read(#[from] ZoneFileError),
    /// A signed zone has no key that its parent could name.
    #[error("the signer gave the zone {0} no key signing key")]
    NoKey(String),
}

/// Writes the zones of an Internet in a box, and signs the signed ones, with the first signer that
/// is installed. The folder may exist, without zones in it.
///
/// # Errors
/// If a file cannot be written, or a zone not be signed.
pub fn write_internet(
    internet: &Internet,
    dir: &Path,
) -> Result<InternetFolder, InternetFolderError> {
    let folder = dir.join("zones");
    make_folder(dir)?;
    fs::create_dir(&folder).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => InternetFolderError::Exists(folder.clone()),
        _ => InternetFolderError::Write(folder.clone(), source),
    })?;
    let hints = dir.join("hints");
    write(&hints, |out| internet.write_hints(out))?;
    let signer = match Signer::installed() {
        None if internet.plan().signed > 0.0 => return Err(InternetFolderError::NoSigner),
        signer => signer,
    };
    let mut written = InternetFolder { hints, anchor: None, zones: 0, signed: 0 };
    // DS records by their parent zone.
    let mut delegated: BTreeMap<Name, String> = BTreeMap::new();
    for zone in internet.zones() {
        let path = folder.join(file_name(&zone));
        let signers = delegated.remove(&zone).unwrap_or_default();
        write(&path, |out| {
            internet.write_zone(&zone, out)?;
            out.write_all(signers.as_bytes())
        })?;
        written.zones += 1;
        let Some(signer) = signer.filter(|_| internet.is_signed(&zone)) else { continue };
        let keys = dir.join("keys").join(file_name(&zone));
        sign(&zone, &path, &keys, signer)?;
        written.signed += 1;
        let ttl = internet.plan().delegation_ttl;
        let dot = if zone.is_root() { "" } else { "." };
        let signers = format!("{zone}{dot} {ttl} IN DS {}\n", delegation_signer(&zone, &path)?);
        match zone.parent() {
            Some(parent) => delegated.entry(parent).or_default().push_str(&signers),
            None => {
                let anchor = dir.join("anchor");
                write(&anchor, |out| out.write_all(signers.as_bytes()))?;
                written.anchor = Some(anchor);
            }
        }
    }
    Ok(written)
}

/// Replaces a zone file by its signed form.
fn sign(zone: &Name, path: &Path, keys: &Path, signer: Signer) -> Result<(), InternetFolderError> {
    make_folder(keys)?;
    let output = keys.join("signed.zone");
    let signing = ZoneToSign {
        signer,
        zone,
        input: path,
        output: &output,
        keys,
        algorithm: Algorithm::EcdsaP256Sha256,
        denial: Denial::Nsec,
    };
    signing.run().map_err(|source| InternetFolderError::Sign(zone.to_string(), source))?;
    fs::rename(&output, path).map_err(|source| InternetFolderError::Write(path.to_owned(), source))
}

/// Returns the data of the DS record for the key signing key of a signed zone.
fn delegation_signer(zone: &Name, path: &Path) -> Result<String, InternetFolderError> {
    let mut reader = Reader::open(path, Some(*zone))?;
    while let Some(record) = reader.next_record()? {
        let is_own = record.owner().eq_ignore_ascii_case(zone.as_wire());
        let is_key = is_own && record.rtype().to_int() == Qtype::DNSKEY.0;
        // The last bit of the flags marks a key that signs keys (RFC 4034 section 2.1.1).
        if is_key
            && let [_, flags, _, algorithm, ..] = *record.data()
            && flags & 1 == 1
        {
            let key = record.data();
            let (tag, digest) = (key_tag(key), digest(zone, key));
            return Ok(format!("{tag} {algorithm} 2 {digest}"));
        }
    }
    Err(InternetFolderError::NoKey(zone.to_string()))
}

/// Returns the tag of a key from the data of its DNSKEY record (RFC 4034 appendix B).
fn key_tag(key: &[u8]) -> u16 {
    let pairs = key.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let sum: u32 = pairs.sum();
    (sum + (sum >> 16)) as u16
}

/// Returns the SHA-256 digest of a key in hexadecimal (RFC 4509), from the data of its DNSKEY record.
fn digest(zone: &Name, key: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(zone.to_lowercase().as_wire());
    hash.update(key);
    hash.finalize().iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Makes a folder and its parents.
fn make_folder(path: &Path) -> Result<(), InternetFolderError> {
    fs::create_dir_all(path).map_err(|source| InternetFolderError::Write(path.to_owned(), source))
}

/// Writes a file by `put`.
fn write(
    path: &Path,
    put: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), InternetFolderError> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        put(&mut out)?;
        out.flush()
    });
    written.map_err(|source| InternetFolderError::Write(path.to_owned(), source))
}

#[cfg(test)]
mod tests {
    use zone::internet::{InternetPlan, synthetic};

    use super::*;

    #[test]
    fn a_key_has_the_tag_and_the_digest_of_the_rfc() {
        // RFC 4034 section 5.4, RFC 4509 section 2.3.
        let text = "dskey.example.com. 86400 IN DNSKEY 256 3 5 ( AQOeiiR0GOMYkDshWoSKz9Xz \
                    fwJr1AYtsmx3TGkJaNXVbfi/ 2pHm822aJ5iI9BMzNXxeYCmZ \
                    DRD99WYwYqUSdjMmmAphXdvx egXd/M5+X7OrzKBaMbCVdFLU \
                    Uh6DhweJBjEVv5f2wwjM9Xzc nOf+EPbtG9DMBmADjFDc2w/r ljwvFw== )\n";
        let zone: Name = "dskey.example.com".parse().unwrap();
        let mut reader = Reader::new(text.as_bytes(), Path::new("key"), Some(zone));
        let key = reader.next_record().unwrap().unwrap().data().to_vec();
        assert_eq!(key_tag(&key), 60_485);
        assert_eq!(
            digest(&"DSKEY.example.com".parse().unwrap(), &key),
            "d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a"
        );
    }

    #[test]
    fn unsigned_zones_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let internet = Internet::new(InternetPlan::default(), synthetic(2, 3, 4)).unwrap();
        let written = write_internet(&internet, dir.path()).unwrap();
        assert_eq!((written.zones, written.signed, written.anchor), (2 * 3 + 2 + 1, 0, None));
        let files = fs::read_dir(dir.path().join("zones")).unwrap().count();
        assert_eq!(files, written.zones);
        let hints = fs::read_to_string(written.hints).unwrap();
        assert!(
            hints
                .starts_with(". 3600000 NS a.root-servers.\na.root-servers. 3600000 A 10.53.0.1\n")
        );
        let again = write_internet(&internet, dir.path()).unwrap_err().to_string();
        assert!(again.contains("zones exists already: choose another folder"), "{again}");
    }
}
