//! `dnsdyno zone sign`: signs a zone with an installed signer.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use lab::signer::{Algorithm, Denial, SignError, Signer, Signing};

use crate::arguments::zone_file::ZoneFile;
use crate::failure::Failure;

/// `dnsdyno zone sign`
#[derive(Args, Clone, Debug)]
pub(crate) struct SignArgs {
    #[command(flatten)]
    input: ZoneFile,
    /// Program that signs [default: the first that is installed]
    #[arg(long, value_enum, value_name = "PROGRAM")]
    signer: Option<SignerArg>,
    /// Algorithm of both keys
    #[arg(long, value_enum, value_name = "ALGORITHM", default_value = "ecdsap256sha256")]
    algorithm: AlgorithmArg,
    /// NSEC3 (no salt, no extra iterations) in place of NSEC
    #[arg(long)]
    nsec3: bool,
    /// NSEC3 without records for delegations without DS
    #[arg(long, requires = "nsec3")]
    opt_out: bool,
    /// Folder for the keys [default: OUTPUT.keys]
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// The signed zone
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SignerArg {
    /// The signer of BIND
    DnssecSignzone,
    /// The signer of Knot DNS
    Kzonesign,
    /// The signer of ldns
    LdnsSignzone,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AlgorithmArg {
    /// Number 8, 2048 bit
    Rsasha256,
    /// Number 13
    Ecdsap256sha256,
    /// Number 15
    Ed25519,
}

pub(crate) fn run(args: SignArgs) -> Result<(), Failure> {
    let signer = match args.signer {
        Some(SignerArg::DnssecSignzone) => Signer::DnssecSignzone,
        Some(SignerArg::Kzonesign) => Signer::Kzonesign,
        Some(SignerArg::LdnsSignzone) => Signer::LdnsSignzone,
        None => Signer::installed().ok_or_else(|| {
            let all = Signer::ALL.map(|s| format!("{} ({})", s.program(), s.package())).join(", ");
            Failure::input(anyhow!("no signer is installed; one of these is needed: {all}"))
        })?,
    };
    let algorithm = match args.algorithm {
        AlgorithmArg::Rsasha256 => Algorithm::RsaSha256,
        AlgorithmArg::Ecdsap256sha256 => Algorithm::EcdsaP256Sha256,
        AlgorithmArg::Ed25519 => Algorithm::Ed25519,
    };
    let zone = args.input.apex()?;
    let keys = args.keys.unwrap_or_else(|| {
        let mut name = args.output.clone().into_os_string();
        name.push(".keys");
        name.into()
    });
    let (input, output) = (args.input.path(), args.output.as_path());
    let denial = match (args.nsec3, args.opt_out) {
        (false, _) => Denial::Nsec,
        (true, false) => Denial::Nsec3,
        (true, true) => Denial::Nsec3OptOut,
    };
    let began = Instant::now();
    let signing = Signing { signer, zone: &zone, input, output, keys: &keys, algorithm, denial };
    signing.run().map_err(|error| match error {
        SignError::Missing { .. } => Failure::input(error),
        _ => Failure::run(error),
    })?;
    let size = |path| std::fs::metadata(path).map_or(0, |m| m.len()) as f64 / 1e6;
    let (before, after) = (size(input), size(output));
    println!(
        "signed by {} in {:.1} s: {before:.1} MB became {after:.1} MB, {:.2} times as much",
        signer.program(),
        began.elapsed().as_secs_f64(),
        after / before.max(1e-9),
    );
    Ok(())
}
