//! Zones signed by the signers that are installed.

mod signed;

use std::fs;

use lab::signer::{Algorithm, Denial, SignError, Signer, ZoneToSign};
use zone::TldZone;
use zone::stats::Stats;

#[test]
fn each_signer_signs() {
    let dir = tempfile::tempdir().expect("a folder");
    let input = dir.path().join("tld.zone");
    let name = "test".parse().expect("a name");
    let mut file = fs::File::create(&input).expect("creates");
    let written = TldZone::new(name, 100, 1).write(&mut file).expect("writes");
    signed::by_each_signer(dir.path(), &name, &input, |signer, denial, output| {
        let signed = Stats::of(|| zone::Reader::open(output, Some(name))).expect("can be read");
        let count = |rtype: &str| {
            signed.type_counts().find(|(t, _)| t == rtype).map_or(0, |(_, count)| count)
        };
        assert!(signed.signed(), "{output:?}");
        assert_eq!(count("DNSKEY"), 2, "{output:?}");
        assert_eq!(signed.delegations, 100);
        let secure = count("DS");
        assert!((1..50).contains(&secure), "{secure} delegations of 100 with DS");
        match denial {
            Denial::Nsec => assert!(count("NSEC") >= 101, "{output:?}"),
            Denial::Nsec3 => assert!(count("NSEC3") >= 101, "{output:?}"),
            // The apex, its server's name, what stands between them, and what is secure.
            // ldns-signzone sets the flag, and no less records.
            Denial::Nsec3OptOut => {
                let all = if signer == Signer::LdnsSignzone { 100 } else { secure };
                assert_eq!(count("NSEC3"), all + 3, "{output:?}");
            }
        }
        assert_eq!(count("NSEC") > 0, denial == Denial::Nsec);
        assert!(signed.records > written.records + 2 * secure);
    });
}

#[test]
fn what_a_signer_refuses_is_said() {
    if !Signer::DnssecSignzone.is_installed() {
        return skip::because("dnssec-signzone is not installed (bind9-utils)");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let input = dir.path().join("no.zone");
    fs::write(&input, "$ORIGIN test.\na 60 A 192.0.2.1\n").expect("writes");
    let signing = ZoneToSign {
        signer: Signer::DnssecSignzone,
        zone: &"test".parse().expect("a name"),
        input: &input,
        output: &dir.path().join("out.zone"),
        keys: &dir.path().join("keys"),
        algorithm: Algorithm::Ed25519,
        denial: Denial::Nsec,
    };
    match signing.run() {
        Err(SignError::Failed { program, output, .. }) => {
            assert_eq!(program, "dnssec-signzone");
            assert!(output.contains("SOA"), "{output}");
        }
        other => panic!("{other:?}"),
    }
}
