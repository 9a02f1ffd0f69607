//! Requests for trials and attacks, and certificates: any octets are refused with their place, or read and written again.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use record::{AttackRequest, CertificateFile, TrialRequest};

fuzz_target!(|json: &[u8]| {
    if let Ok(request) = serde_json::from_slice::<TrialRequest>(json) {
        let again = serde_json::to_vec(&request).expect("JSON");
        let again = serde_json::from_slice::<TrialRequest>(&again).expect("what was written");
        assert_eq!(again.target, request.target);
    }
    if let Ok(request) = serde_json::from_slice::<AttackRequest>(json) {
        let again = serde_json::to_vec(&request).expect("JSON");
        let again = serde_json::from_slice::<AttackRequest>(&again).expect("what was written");
        assert_eq!((again.kind, again.target), (request.kind, request.target));
    }
    match CertificateFile::parse(&String::from_utf8_lossy(json), Path::new("c.json")) {
        Ok(file) => {
            let again = serde_json::to_string(&file).expect("JSON");
            assert_eq!(CertificateFile::parse(&again, Path::new("c")).expect("written"), file);
        }
        Err(error) => assert!(error.to_string().starts_with("c.json:"), "{error}"),
    }
});
