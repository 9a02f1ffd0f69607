//! Keys of TSIG and of anonymisation, and signed replies: any text is a key or refused without its secret, and any octets are no
//! valid reply.
//!
//! The input is the length of the text, the text, and the reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use update::{AheadKey, Key, Update};

/// Seconds since 1970 at which messages are signed.
const NOW: u64 = 1_800_000_000;

fuzz_target!(|input: &[u8]| {
    let Some((&len, rest)) = input.split_first() else { return };
    let (text, reply) = rest.split_at(rest.len().min(len.into()));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let _ = (text.parse::<trace::anonymise::Key>(), Key::from_file_text(text));
    let update = Update::new("test".parse().expect("a name"));
    if let Ok(key) = text.parse::<Key>() {
        let again: Key = format!("{}:{}:{}", key.algorithm(), key.name(), key.secret())
            .parse()
            .expect("its own parts");
        assert_eq!(again.sign(&update, 7, NOW).0, key.sign(&update, 7, NOW).0);
        let (_, signed) = key.sign(&update, 7, NOW);
        // Nobody else has the key: a reply without an error is not signed by it.
        assert!(!matches!(signed.check(reply, NOW), Ok(0)));
    }
    if let Ok(key) = text.parse::<AheadKey>() {
        assert!(key.sign_update(&update, NOW).len() > update.to_wire(0).len());
    }
});
