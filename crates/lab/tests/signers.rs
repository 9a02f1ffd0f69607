//! Zones signed by the signers that are installed.

use std::fs;

use dnsdyno_lab::signer::{Algorithm, SignError, Signer, Signing};
use zone::TldZone;
use zone::stats::Stats;

#[test]
fn each_signer_signs() {
    let dir = tempfile::tempdir().expect("a folder");
    let input = dir.path().join("tld.zone");
    let name = "test".parse().expect("a name");
    let mut file = fs::File::create(&input).expect("creates");
    let written = TldZone::new(name, 100, 1).write(&mut file).expect("writes");
    for signer in Signer::ALL {
        if !signer.is_installed() {
            eprintln!("skipped: {} is not installed ({})", signer.program(), signer.package());
            continue;
        }
        for nsec3 in [false, true] {
            let keys = dir.path().join(format!("{}-{nsec3}.keys", signer.program()));
            let output = dir.path().join(format!("{}-{nsec3}.zone", signer.program()));
            let signing = Signing {
                signer,
                zone: &name,
                input: &input,
                output: &output,
                keys: &keys,
                algorithm: Algorithm::EcdsaP256Sha256,
                nsec3,
            };
            signing.run().expect("signs");
            let signed = zone::Reader::open(&output, Some(name)).and_then(Stats::of);
            let signed = signed.expect("can be read");
            let count = |rtype: &str| {
                signed.type_counts().find(|(t, _)| t == rtype).map_or(0, |(_, count)| count)
            };
            assert!(signed.signed(), "{output:?}");
            assert_eq!(count("DNSKEY"), 2, "{output:?}");
            assert_eq!(signed.delegations, 100);
            let chain = if nsec3 { count("NSEC3") } else { count("NSEC") };
            assert!(chain >= 101, "{chain} in {output:?}");
            assert!(signed.records > written.records + 200);
        }
    }
}

#[test]
fn what_a_signer_refuses_is_said() {
    if !Signer::DnssecSignzone.is_installed() {
        eprintln!("skipped: dnssec-signzone is not installed (bind9-utils)");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let input = dir.path().join("no.zone");
    fs::write(&input, "$ORIGIN test.\na 60 A 192.0.2.1\n").expect("writes");
    let signing = Signing {
        signer: Signer::DnssecSignzone,
        zone: &"test".parse().expect("a name"),
        input: &input,
        output: &dir.path().join("out.zone"),
        keys: &dir.path().join("keys"),
        algorithm: Algorithm::Ed25519,
        nsec3: false,
    };
    match signing.run() {
        Err(SignError::Failed { program, said, .. }) => {
            assert_eq!(program, "dnssec-signzone");
            assert!(said.contains("SOA"), "{said}");
        }
        other => panic!("{other:?}"),
    }
}
