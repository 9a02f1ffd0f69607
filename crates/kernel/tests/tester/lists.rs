//! Queries of a list, frame by frame: those of the workload of the same file.

use std::path::Path;
use std::sync::Arc;

use kernel::tester::{ListOrder, QuestionList};
use load::workload::file::{Content, QueryFile, QueryOptions};
use wire::compose;
use wire::message::HEADER;

use super::*;

/// Number of queries of each load.
const QUERIES: usize = 2_000;

/// A query file with names of all lengths, and the options of its queries.
struct List {
    file: QueryFile,
    options: QueryOptions,
}

impl List {
    fn new(expect: Expect, edns: Option<Edns>, runs: Option<u64>) -> Self {
        let mut text = ". NS\nA.b TYPE65\n".to_owned();
        for number in 0..250usize {
            // Up to 253 octets in wire format.
            let long = format!("{}.", "x".repeat(61)).repeat(number / 64);
            let last = "y".repeat(1 + number % 60);
            text += &format!("n{number}.{long}{last} {}\n", ["A", "aaaa"][number % 2]);
        }
        let file = QueryFile::compile(text.as_bytes(), Path::new("q.txt"), Content::LINES);
        let options = QueryOptions { expect, recursion_desired: true, edns, runs, sample: None };
        List { file: file.expect("a good file"), options }
    }

    fn workload(&self) -> impl Workload {
        self.file.workload(0, 1, self.options.clone())
    }

    /// Returns the questions for the kernel.
    fn order(&self) -> ListOrder {
        let mut list = QuestionList::default();
        self.file.try_each(|_, question| list.push(question)).expect("few questions");
        let tail = self.options.edns.as_ref().map(Edns::to_opt);
        let mut header = vec![0; HEADER + tail.as_ref().map_or(0, Vec::len)];
        compose(&mut header, 0, &[], true, tail.as_deref());
        ListOrder {
            list: Arc::new(list),
            header: header[..HEADER].try_into().expect("a header"),
            tail: tail.unwrap_or_default(),
            runs: self.options.runs,
        }
    }

    fn plan(&self, target: &str, sources: &[&str]) -> TesterPlan {
        let sources = sources.iter().map(|ip| ip.parse().expect("an address")).collect();
        let expect = match self.options.expect {
            Expect::Answered => PlainReply::Rcodes(1 | 1 << 3),
            _ => PlainReply::Rcodes(1),
        };
        plan(target, sources, Questions::List(self.order()), expect)
    }
}

/// Lists, each with a server and the source addresses.
fn lists() -> Vec<(List, TesterPlan)> {
    let odd = Edns { options: vec![(65_001, vec![7; 3])], ..Edns::default() };
    [
        (Expect::Answered, None, "10.0.0.2:53", &["10.0.0.1"][..]),
        (Expect::NoError, Some(Edns::default()), "[fd00::2]:5300", &["fd00::1"]),
        (Expect::Answered, Some(odd), "10.0.0.2:53", &["10.0.0.1", "10.0.0.3", "10.0.0.4"]),
        (Expect::NoError, None, "[fd00::2]:53", &["fd00::1", "fd00::9"]),
    ]
    .into_iter()
    .map(|(expect, edns, target, sources)| {
        let list = List::new(expect, edns, None);
        let plan = list.plan(target, sources);
        (list, plan)
    })
    .collect()
}

#[test]
fn queries_are_those_of_the_file() {
    for (list, plan) in lists() {
        let Some(tester) = loaded(&plan) else { return };
        let (mut workload, mut octets) = (list.workload(), 0);
        for number in 0..QUERIES {
            let query = query(&next_frame(&tester), plan.target);
            let mut expected = [0; MAX_QUERY];
            let len = workload.next(&mut expected).expect("endless").len;
            assert_eq!(query.message[2..], expected[2..len], "number {number}");
            assert_eq!(query.source, plan.sources[number % plan.ports % plan.sources.len()]);
            octets += len as u64;
        }
        let counts = tester.counts().expect("counts");
        assert_eq!((counts.counted.sent, counts.counted.query_octets), (QUERIES as u64, octets));
    }
}

#[test]
fn a_file_that_is_used_twice_ends() {
    let list = List::new(Expect::Answered, None, Some(2));
    let Some(tester) = loaded(&list.plan("10.0.0.2:53", &["10.0.0.1"])) else { return };
    let all = 2 * list.file.queries().expect("complete");
    for _ in 0..all {
        next_frame(&tester);
    }
    for _ in 0..1_000 {
        assert_eq!(tester.generate_once().expect("runs"), None);
    }
    let counts = tester.counts().expect("counts");
    assert_eq!((counts.counted.sent, counts.exhausted, counts.finished), (all, true, 1));
}

/// Appends records to a reply, or changes it in another way; an empty change is the most frequent one.
fn fill(random: &mut ChaCha12Rng, reply: &mut Vec<u8>, question: usize) {
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    let has_opt = reply[11] == 1;
    let opt = reply.split_off(HEADER + question);
    let answers = below(18);
    reply[7] = answers as u8;
    for _ in 0..answers {
        match below(40) {
            0 => reply.extend(b"\x01x\0"),
            1 => reply.push(0),
            _ => reply.extend([0xc0, 12]),
        }
        let size = below(20);
        let kind = if below(60) == 0 { 41 } else { 1 };
        reply.extend([0, kind, 0, 1, 0, 0, 0, 60, 0, size as u8]);
        reply.extend(vec![1; size]);
    }
    if has_opt && below(10) > 0 {
        // As a server has it: without options.
        reply.extend([0, 0, 41, 4, 208, below(8).saturating_sub(6) as u8, 0, 0, 0, 0, 0]);
    } else {
        reply.extend(opt);
    }
    match below(16) {
        0 => reply[3] = below(16) as u8,
        1 => reply[2] |= 2,
        2 => reply.truncate(2 + below(reply.len() - 2)),
        3 => reply.extend([0; 3]),
        4 => {
            let at = HEADER + below(question);
            reply[at] ^= 0x20;
        }
        5 => {
            let at = 2 + below(reply.len() - 2);
            reply[at] ^= 1 << below(8);
        }
        6 => reply[3] = 3,
        _ => {}
    }
}

#[test]
fn replies_are_judged_as_by_the_file() {
    for (number, (list, plan)) in lists().into_iter().enumerate() {
        let Some(tester) = loaded(&plan) else { return };
        let mut workload = list.workload();
        let mut random = ChaCha12Rng::seed_from_u64(number as u64);
        let (mut valid, mut handed, mut nxdomain, mut octets) = (0, 0, 0, 0);
        for sequence in 0..QUERIES {
            let frame = next_frame(&tester);
            let mut reply = query(&frame, plan.target).message;
            let key = workload.next(&mut [0; MAX_QUERY]).expect("endless").key;
            let question = wire::reply::question(&reply).expect("a question").len();
            reply[2] |= 0x80;
            fill(&mut random, &mut reply, question);
            let verdict = workload.check(key, &reply);
            let answer = reply_frame(&frame, plan.target.is_ipv6(), &reply);
            assert!(tester.check_once(&answer).expect("runs"));
            let mut judged = None;
            tester.events(10, |event| {
                if let Event::Reply(handed) = event {
                    let place = sequence as u64 % list.file.queries().expect("complete");
                    assert_eq!(u64::from(handed.query.key), place, "its place in the file");
                    judged = Some(workload.check(key, handed.message));
                }
            });
            let counted = tester.counts().expect("counts").counted.valid;
            match judged {
                Some(judged) => assert_eq!(judged, verdict, "handed out whole"),
                None => {
                    assert!(counted == valid + 1 && verdict.is_ok(), "{verdict:?} {reply:02x?}");
                    nxdomain += u64::from(verdict == Ok(3));
                    octets += reply.len() as u64;
                }
            }
            handed += u64::from(judged.is_some());
            valid = counted;
        }
        let counts = tester.counts().expect("counts");
        assert_eq!((counts.counted.valid + handed, counts.unread), (QUERIES as u64, 0));
        assert_eq!((counts.counted.nxdomain, counts.counted.reply_octets), (nxdomain, octets));
        assert!(valid > QUERIES as u64 / 4 && handed > QUERIES as u64 / 8, "{valid} {handed}");
    }
}

#[test]
fn a_question_that_leaves_no_room_for_its_options_is_refused() {
    let edns = Edns { options: vec![(65_001, vec![0; 180])], ..Edns::default() };
    let list = List::new(Expect::Answered, Some(edns), None);
    match KernelTester::load(&list.plan("[fd00::2]:53", &["fd00::1"])) {
        Err(KernelError::Plan(why)) => assert!(why.contains("511 at most"), "{why}"),
        _ => panic!("too long"),
    }
}
