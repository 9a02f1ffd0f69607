//! Zones signed by the signers that operators use, with new keys.
//!
//! | signer | package | how |
//! |---|---|---|
//! | `dnssec-signzone` | bind9-utils | `dnssec-keygen` twice, then "smart signing" with what lies in the key folder |
//! | `kzonesign` | knot-dnssecutils | a configuration with a policy; it makes its keys itself |
//! | `ldns-signzone` | ldnsutils | `ldns-keygen` twice, then both keys by name |
//!
//! A signer runs to its end in this process's own namespaces: it serves nothing and needs no namespace of its own.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::Name;

/// A program that signs zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// `dnssec-signzone` of BIND (package bind9-utils).
    DnssecSignzone,
    /// `kzonesign` of Knot DNS (package knot-dnssecutils).
    Kzonesign,
    /// `ldns-signzone` of NLnet Labs' ldns (package ldnsutils).
    LdnsSignzone,
}

measure::words! {
    Signer {
        DnssecSignzone = "dnssec-signzone",
        Kzonesign = "kzonesign",
        LdnsSignzone = "ldns-signzone",
    }
}

impl Signer {
    /// Returns the Debian package of the program.
    pub fn package(self) -> &'static str {
        match self {
            Signer::DnssecSignzone => "bind9-utils",
            Signer::Kzonesign => "knot-dnssecutils",
            Signer::LdnsSignzone => "ldnsutils",
        }
    }

    /// Returns the first of [`ALL`](Self::ALL) that is installed.
    pub fn installed() -> Option<Self> {
        Self::ALL.into_iter().find(|signer| signer.is_installed())
    }

    /// Returns whether the signer's program is installed.
    pub fn is_installed(self) -> bool {
        find(self.word()).is_some()
    }
}

/// An algorithm that all signers know (RFC 8624 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Number 8, with 2048-bit keys.
    RsaSha256,
    /// Number 13 of IANA's registry (RFC 6605).
    EcdsaP256Sha256,
    /// Number 15 of IANA's registry (RFC 8080).
    Ed25519,
}

impl Algorithm {
    /// Returns the mnemonic of the algorithm.
    pub fn mnemonic(self) -> &'static str {
        match self {
            Algorithm::RsaSha256 => "RSASHA256",
            Algorithm::EcdsaP256Sha256 => "ECDSAP256SHA256",
            Algorithm::Ed25519 => "ED25519",
        }
    }
}

/// A zone to be signed.
#[derive(Clone, Debug)]
pub struct ZoneToSign<'a> {
    /// Program that signs the zone.
    pub signer: Signer,
    /// Apex of the zone, which the signer needs in addition to the file.
    pub zone: &'a Name,
    /// Path of the zone file.
    pub input: &'a Path,
    /// Path of the signed zone file.
    pub output: &'a Path,
    /// Folder for keys and other files of the signer; made if it does not exist.
    pub keys: &'a Path,
    /// Algorithm of the key-signing and the zone-signing key.
    pub algorithm: Algorithm,
    /// Kind of the records that deny names.
    pub denial: Denial,
}

/// The records that deny names (RFC 4034 section 4, RFC 5155).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// NSEC records (RFC 4034), which list all names.
    #[default]
    Nsec,
    /// NSEC3 without salt and extra iterations (RFC 9276).
    Nsec3,
    /// NSEC3 without records for delegations without DS (opt-out), as large zones of delegations are signed.
    /// ldns-signzone only sets the flag that allows it.
    Nsec3OptOut,
}

/// Error while signing a zone.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The signer is not installed.
    #[error("{program} is not installed: apt-get install {package}")]
    Missing {
        /// Name of the program on PATH.
        program: &'static str,
        /// Debian package that has the program.
        package: &'static str,
    },
    /// The signer ended with an error.
    #[error("{program} failed ({status})\n{output}")]
    Failed {
        /// The program that makes keys or signs the zone.
        program: String,
        /// Exit code of the program, or the signal that ended it.
        status: String,
        /// Last output of the program.
        output: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use {path}: {1}", path = .0.display())]
    File(PathBuf, #[source] io::Error),
}

impl ZoneToSign<'_> {
    /// Makes keys and signs the zone.
    ///
    /// # Errors
    /// If the signer is missing or fails.
    pub fn run(&self) -> Result<(), SignError> {
        let signer = self.signer;
        if !signer.is_installed() {
            return Err(SignError::Missing { program: signer.word(), package: signer.package() });
        }
        fs::create_dir_all(self.keys).map_err(file_error(self.keys))?;
        // The signers work in the folder of the keys.
        let (keys, input) = (absolute(self.keys)?, absolute(self.input)?);
        let output = std::path::absolute(self.output).map_err(file_error(self.output))?;
        match signer {
            Signer::DnssecSignzone => self.with_bind(&keys, &input, &output),
            Signer::Kzonesign => self.with_knot(&keys, &input, &output),
            Signer::LdnsSignzone => self.with_ldns(&keys, &input, &output),
        }
    }

    fn origin(&self) -> String {
        if self.zone.is_root() { ".".to_owned() } else { format!("{}.", self.zone) }
    }

    fn with_bind(&self, keys: &Path, input: &Path, output: &Path) -> Result<(), SignError> {
        let origin = self.origin();
        let mut make = vec!["-q", "-a", self.algorithm.mnemonic()];
        if self.algorithm == Algorithm::RsaSha256 {
            make.extend(["-b", "2048"]);
        }
        for kind in [&["-f", "KSK"][..], &[]] {
            let all = [&make[..], kind, &[origin.as_str()]].concat();
            execute("dnssec-keygen", keys, all.iter().map(OsStr::new))?;
        }
        let mut arguments: Vec<&OsStr> =
            ["-S", "-K", ".", "-d", ".", "-o", &origin, "-f"].map(OsStr::new).into();
        arguments.push(output.as_os_str());
        if self.denial != Denial::Nsec {
            arguments.extend(["-3", "-", "-H", "0"].map(OsStr::new));
        }
        if self.denial == Denial::Nsec3OptOut {
            arguments.push("-A".as_ref());
        }
        arguments.push(input.as_os_str());
        execute("dnssec-signzone", keys, arguments).map(drop)
    }

    fn with_knot(&self, keys: &Path, input: &Path, output: &Path) -> Result<(), SignError> {
        let configuration = format!(
            "database:\n  storage: \"{keys}\"\npolicy:\n  - id: made\n    algorithm: {algorithm}\n    \
             nsec3: {nsec3}\n    nsec3-iterations: 0\n    nsec3-salt-length: 0\n    nsec3-opt-out: {opt_out}\nzone:\n  - domain: \"{zone}\"\n    \
             file: \"{input}\"\n    dnssec-policy: made\n    dnssec-signing: on\n",
            keys = keys.display(),
            algorithm = self.algorithm.mnemonic().to_ascii_lowercase(),
            nsec3 = if self.denial != Denial::Nsec { "on" } else { "off" },
            opt_out = if self.denial == Denial::Nsec3OptOut { "on" } else { "off" },
            zone = self.origin(),
            input = input.display(),
        );
        let path = keys.join("kzonesign.conf");
        fs::write(&path, configuration).map_err(file_error(&path))?;
        let out = keys.join("signed");
        fs::create_dir_all(&out).map_err(file_error(&out))?;
        let origin = self.origin();
        let arguments: [&OsStr; 5] =
            ["-c".as_ref(), path.as_ref(), "-o".as_ref(), out.as_ref(), origin.as_ref()];
        execute("kzonesign", keys, arguments)?;
        let signed = out.join(input.file_name().unwrap_or_default());
        // A rename if both are on one file system, otherwise a copy.
        if fs::rename(&signed, output).is_err() {
            fs::copy(&signed, output).map_err(file_error(output))?;
            fs::remove_file(&signed).map_err(file_error(&signed))?;
        }
        Ok(())
    }

    fn with_ldns(&self, keys: &Path, input: &Path, output: &Path) -> Result<(), SignError> {
        let origin = self.origin();
        let mut bases = Vec::new();
        for kind in [&["-k"][..], &[]] {
            let all = [&["-a", self.algorithm.mnemonic()], kind, &[origin.as_str()]].concat();
            let said = execute("ldns-keygen", keys, all.iter().map(OsStr::new))?;
            bases.push(said.trim().to_owned());
        }
        let mut arguments: Vec<&OsStr> = ["-o", &origin, "-f"].map(OsStr::new).into();
        arguments.push(output.as_os_str());
        if self.denial != Denial::Nsec {
            arguments.extend(["-n", "-t", "0"].map(OsStr::new));
        }
        if self.denial == Denial::Nsec3OptOut {
            arguments.push("-p".as_ref());
        }
        arguments.push(input.as_os_str());
        arguments.extend(bases.iter().map(OsStr::new));
        execute("ldns-signzone", keys, arguments).map(drop)
    }
}

/// Runs a program to its end and returns its output.
pub(crate) fn execute<'a>(
    program: &str,
    dir: &Path,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Result<String, SignError> {
    let path = find(program).unwrap_or_else(|| program.into());
    let done = Command::new(path).args(arguments).current_dir(dir).output();
    let done = done.map_err(file_error(Path::new(program)))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let lines: Vec<_> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n");
    Err(SignError::Failed {
        program: program.to_owned(),
        status: done.status.to_string(),
        output: last,
    })
}

/// Returns the path of a program: in `PATH`, or in Debian's system directories.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|p| p.is_file())
}

fn absolute(path: &Path) -> Result<PathBuf, SignError> {
    path.canonicalize().map_err(file_error(path))
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> SignError + '_ {
    move |source| SignError::File(path.to_owned(), source)
}
