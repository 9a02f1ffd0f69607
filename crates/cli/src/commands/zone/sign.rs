//! `dnsdyno zone sign`: signs a zone with an installed signer.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use lab::signer::{Algorithm, Denial, SignError, Signer, ZoneToSign};

use crate::arguments::choice::{Choice, choice};
use crate::arguments::zone_file::ZoneFile;
use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub(crate) struct SignArgs {
    #[command(flatten)]
    input: ZoneFile,
    /// Program that signs [default: the first that is installed]
    #[arg(long, value_parser = choice(&SIGNERS), value_name = "PROGRAM")]
    signer: Option<Signer>,
    /// Algorithm of both keys
    #[arg(long, value_parser = choice(&ALGORITHMS), value_name = "ALGORITHM", default_value = "ecdsap256sha256")]
    algorithm: Algorithm,
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

const SIGNERS: [Choice<Signer>; 3] = [
    ("dnssec-signzone", "The signer of BIND", Signer::DnssecSignzone),
    ("kzonesign", "The signer of Knot DNS", Signer::Kzonesign),
    ("ldns-signzone", "The signer of ldns", Signer::LdnsSignzone),
];

const ALGORITHMS: [Choice<Algorithm>; 3] = [
    ("rsasha256", "Number 8, 2048 bit", Algorithm::RsaSha256),
    ("ecdsap256sha256", "Number 13", Algorithm::EcdsaP256Sha256),
    ("ed25519", "Number 15", Algorithm::Ed25519),
];

pub(crate) fn run(args: SignArgs) -> Result<(), Failure> {
    let signer = match args.signer {
        Some(signer) => signer,
        None => Signer::installed().ok_or_else(|| {
            let all = Signer::ALL.map(|s| format!("{} ({})", s.word(), s.package())).join(", ");
            Failure::input(anyhow!("no signer is installed; one of these is needed: {all}"))
        })?,
    };
    let algorithm = args.algorithm;
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
    let signing = ZoneToSign { signer, zone: &zone, input, output, keys: &keys, algorithm, denial };
    signing.run().map_err(|error| match error {
        SignError::Missing { .. } => Failure::input(error),
        _ => Failure::run(error),
    })?;
    let size = |path| std::fs::metadata(path).map_or(0, |m| m.len()) as f64 / 1e6;
    let (before, after) = (size(input), size(output));
    println!(
        "signed by {} in {:.1} s: {before:.1} MB became {after:.1} MB, {:.2} times as much",
        signer.word(),
        began.elapsed().as_secs_f64(),
        after / before.max(1e-9),
    );
    Ok(())
}
