//! Several writers of answers while the program reads them.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::clock::monotonic;
use kernel::{EncodedAnswer, KernelCache, Stored};
use measure::Nanos;
use wire::message::question_end;
use wire::{Name, Qtype, QueryTemplate};

use crate::kit::{Random, for_everyone, loaded, message, queries};

const SEED: u64 = 77;
const WRITERS: u8 = 3;
/// More names than have room.
const NAMES: u8 = 40;
const TXT: Qtype = Qtype(16);
/// Records of an answer, and octets of each one's data, which all have the version of the answer as their value.
const RECORDS: u8 = 3;
const DATA: u8 = 40;

fn name(number: u8) -> Name {
    format!("n{number}.test").parse().expect("a name")
}

/// Returns a version of the answer for a name.
fn answer(number: u8, version: u8) -> EncodedAnswer {
    let mut message = QueryTemplate::new(&name(number), TXT, true, false, None).bytes().to_vec();
    (message[2], message[7]) = (0x81, RECORDS);
    for _ in 0..RECORDS {
        message.extend_from_slice(&[0xc0, 12, 0, 16, 0, 1, 0, 0, 14, 16, 0, DATA]);
        message.extend(std::iter::repeat_n(version, DATA.into()));
    }
    let (stored, until) = (monotonic(), monotonic() + Nanos::from_secs(3_600));
    let (message, options) = (&message[..], &[][..]);
    let (generation, qtype, view) = (1, TXT, 0);
    let (rd, cd, dnssec) = (true, false, false);
    let answer =
        Stored { generation, qtype, view, rd, cd, dnssec, message, options, stored, until };
    answer.encode(SEED).expect("it is within the bounds")
}

#[test]
fn answers_that_are_overwritten_meanwhile_are_given_whole_or_not_at_all() {
    // The least memory: two blocks.
    let Some((mut kernel, map, _)) = loaded(KernelCache::load(0, SEED)) else { return };
    kernel.serve(&for_everyone([0; 4], None), 1).expect("it serves");
    let (mut random, over) = (Random::new(3), AtomicBool::new(false));
    let (mut answered, mut left, mut versions) = (0, 0, std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (mut map, over) = (map.writer(), &over);
            scope.spawn(move || {
                let mut version = writer;
                while !over.load(Ordering::Relaxed) {
                    (0..NAMES).for_each(|number| map.store(&answer(number, version)));
                    version = version.wrapping_add(WRITERS);
                }
            });
        }
        let mut out = vec![0; 1_600];
        while answered < queries(20) && left < queries(1) {
            let asked = name(random.below(NAMES.into()) as u8);
            let query = QueryTemplate::new(&asked, TXT, true, false, None);
            let frame = random.frame(query.bytes());
            let Some(len) = kernel.run(&frame, &mut out).expect("it runs") else {
                left += 1;
                continue;
            };
            answered += 1;
            let reply = message(&frame, &out[..len]);
            let body = &reply[question_end(reply).expect("a question")..];
            let records: Vec<&[u8]> = body.chunks(12 + usize::from(DATA)).collect();
            let version = records[0][12];
            versions.insert(version);
            assert_eq!(records.len(), usize::from(RECORDS));
            for record in records {
                assert!(record[12..].iter().all(|octet| *octet == version), "{record:?}");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(answered > 0 && versions.len() > 1, "{answered} answered, {versions:?}");
}
