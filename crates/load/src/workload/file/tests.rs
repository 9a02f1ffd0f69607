//! Tests of how query files are read, shared by workers and used again.

use proptest::prelude::*;
use wire::reply;

use super::*;

fn compile(text: &str) -> Result<QueryFile, QueryFileError> {
    QueryFile::compile(text.as_bytes(), Path::new("q.txt"), Content::LINES)
}

fn options() -> QueryOptions {
    QueryOptions { recursion_desired: true, ..QueryOptions::default() }
}

#[test]
fn a_file_is_used_as_often_as_wanted() {
    let file = compile("a.example A\nb.example A\nc.example A\n").expect("a good file");
    for workers in 1..5 {
        let sent = (0..workers).map(|worker| {
            let options = QueryOptions { runs: Some(2), ..options() };
            let mut stream = file.workload(worker, workers, options);
            let mut out = [0; super::super::MAX_QUERY];
            let count = std::iter::from_fn(|| stream.next(&mut out)).count();
            assert_eq!(stream.next(&mut out), None);
            count
        });
        assert_eq!(sent.sum::<usize>(), 6, "{workers} workers");
    }
}

#[test]
fn workers_take_turns_and_start_again() {
    let text: String = (0..10).map(|i| format!("n{i}.example A\n")).collect();
    let file = compile(&text).expect("a good file");
    assert_eq!(file.queries(), Some(10));
    let mut out = [0; super::super::MAX_QUERY];
    let mut names = Vec::new();
    for worker in 0..3 {
        let mut stream = file.workload(worker, 3, options());
        for _ in 0..4 {
            stream.next(&mut out).expect("endless");
            names.push(out[14]);
        }
    }
    // Worker 0 takes n0 n3 n6 n9, and goes on at n2; worker 1 takes n1 n4 n7 n0.
    assert_eq!(&names, b"036914702581");
}

#[test]
fn records_are_given_one_by_one() {
    let file = compile("a.example A\nb.example AAAA\n").expect("a good file");
    assert!(!file.has_messages());
    let mut seen = Vec::new();
    let all = file.try_each(|hash, question| {
        assert_eq!(hash, reply::question_hash(question));
        seen.push(question.to_vec());
        Ok::<(), ()>(())
    });
    assert_eq!((all, seen.len()), (Ok(()), 2));
    assert_eq!(seen[1], b"\x01b\x07example\0\0\x1c\0\x01");
    let mut calls = 0;
    let first = file.try_each(|_, _| {
        calls += 1;
        Err("enough")
    });
    assert_eq!((first, calls), (Err("enough"), 1));
}

#[test]
fn a_sample_is_a_share_of_the_queries() {
    let text: String = (0..1_000).map(|i| format!("n{i}.example A\n")).collect();
    let file = compile(&text).expect("a good file");
    let count = |share| {
        let sample = Some(Sample { share, seed: 7 });
        let options = QueryOptions { runs: Some(10), sample, ..options() };
        let (mut stream, mut out) = (file.workload(0, 1, options), [0; super::super::MAX_QUERY]);
        std::iter::from_fn(|| stream.next(&mut out)).count()
    };
    assert_eq!(count(1.0), 10_000);
    // Six standard deviations of 10,000 draws.
    assert!(count(0.25).abs_diff(2_500) < 260, "{}", count(0.25));
}

#[test]
fn comments_and_blank_lines_are_skipped() {
    for mark in ["", "\u{feff}"] {
        let text = format!("{mark}; comment\n\n# other\n  a.example  aaaa \nb.example TYPE65\r\n");
        assert_eq!(compile(&text).expect("a good file").queries(), Some(2));
    }
}

#[test]
fn errors_name_line_and_column() {
    for (text, place) in [
        ("a.example A\nb.example AX\n", "q.txt:2:11: "),
        ("a.example\n", "q.txt:1:10: the type is missing"),
        ("a..example A\n", "q.txt:1:1: "),
        ("a A\nb\nc A\nd\n#\ne A\nf\n", "; also 2 lines: 4, 7"),
        ("b\nc A\nd\n", "missing; also line 3: the type is missing"),
        ("a.example A +dnssec\n", "q.txt:1:13: unexpected `+dnssec`"),
        ("", "q.txt: the file has no query"),
        ("; only a comment\n", "q.txt: the file has no query"),
    ] {
        let error = compile(text).expect_err(text).to_string();
        assert!(error.contains(place), "{error}");
    }
    let long = format!("{}\n{} A\nb\n", "a".repeat(10_000), "a".repeat(4_094));
    let error = compile(&long).expect_err("too long").to_string();
    assert!(error.contains("longer than 4096 bytes; also 2 lines: 2, 3"), "{error}");
}

#[test]
fn bad_lines_are_skipped_where_that_is_wanted() {
    let content = Content::Lines { expecting: false, skip_bad: true };
    let skipping = |text: &str| QueryFile::compile(text.as_bytes(), Path::new("q.txt"), content);
    let file = skipping("a A\nb\nc A\nd AX\n").expect("two queries");
    assert_eq!(file.queries(), Some(2));
    let skipped = file.skipped().expect("two lines");
    let text = "q.txt:2:2: the type is missing; also line 4: `AX` is not a record type: write a name such as AAAA, or TYPE and a number from 0 to 65535";
    assert_eq!((skipped.count(), &*skipped.to_string()), (2, text));
    assert!(skipping("a A\n").expect("a query").skipped().is_none());
    let error = skipping("a\n").expect_err("none is left").to_string();
    assert!(error.starts_with("q.txt: the file has no query"), "{error}");
}

/// Lines of 30 octets with the numbers of a range, some MiB of records.
fn many(from: u32, to: u32) -> String {
    (from..to).map(|i| format!("n{i:07}.some.example.org AAAA\n")).collect()
}

/// The number in the next query of a stream, waited for; `None` at the end.
fn number(stream: &mut FileWorkload) -> Option<u32> {
    while !stream.is_ready() {
        std::thread::yield_now();
    }
    let mut out = [0; MAX_QUERY];
    stream.next(&mut out)?;
    Some(String::from_utf8_lossy(&out[14..21]).parse().expect("a number"))
}

/// The end of a pipe is what a worker waits for, and later passes begin where the file does.
#[test]
fn a_large_file_is_sent_while_it_is_compiled() {
    const ALL: u32 = 200_000;
    let (input, mut output) = io::pipe().expect("a pipe");
    let writer = std::thread::spawn(move || {
        output.write_all(many(0, ALL).as_bytes()).map(|()| output).expect("read")
    });
    let file = QueryFile::start(input, Path::new("-"), Content::LINES, None).expect("a beginning");
    assert_eq!(file.queries(), None);
    let mut streams: Vec<FileWorkload> = (0..3)
        .map(|worker| file.workload(worker, 3, QueryOptions { runs: Some(2), ..options() }))
        .collect();
    for i in 0..ALL {
        assert_eq!(number(&mut streams[i as usize % 3]), Some(i));
    }
    assert!(!streams[ALL as usize % 3].is_ready());
    drop(writer.join().expect("it wrote"));
    for i in ALL..2 * ALL {
        assert_eq!(number(&mut streams[i as usize % 3]), Some(i % ALL));
    }
    streams.iter_mut().for_each(|stream| assert_eq!(number(stream), None));
    assert_eq!((file.queries(), file.take_error().is_none()), (Some(ALL.into()), true));
}

#[test]
fn a_bad_line_of_a_large_file_ends_it_there() {
    const GOOD: u32 = 150_000;
    let text = format!("{}a..b A\n{}c\n", many(0, GOOD), many(0, 1_000));
    let input = io::Cursor::new(text);
    let file = QueryFile::start(input, Path::new("q"), Content::LINES, None).expect("a beginning");
    let mut stream = file.workload(0, 1, QueryOptions { runs: Some(1), ..options() });
    assert_eq!(number(&mut stream), Some(0));
    assert!(file.take_error().is_none());
    for i in 1..GOOD {
        assert_eq!(number(&mut stream), Some(i));
    }
    assert_eq!(number(&mut stream), None);
    let error = file.take_error().expect("it came there").to_string();
    assert!(error.starts_with("q:150001:1: ") && error.contains("; also line 151002: "), "{error}");
    assert!(file.take_error().is_none());
}

#[test]
fn compiling_goes_ahead_by_a_bound_and_ends_with_its_file() {
    let (input, mut output) = io::pipe().expect("a pipe");
    let file = std::thread::spawn(|| QueryFile::start(input, Path::new("-"), Content::LINES, None));
    let writer = std::thread::spawn(move || {
        let lines = many(0, 1_000);
        (0..).find(|_| output.write_all(lines.as_bytes()).is_err())
    });
    drop(file.join().expect("it begins"));
    // 4 MiB of records, a chunk, and what the pipe holds.
    assert!(writer.join().expect("it ends").is_some_and(|written| written < 250));
}

#[test]
fn the_whole_of_a_pipe_is_bounded() {
    let (input, mut output) = io::pipe().expect("a pipe");
    let writer = std::thread::spawn(move || {
        let lines = many(0, 1_000);
        (0..).find(|_| output.write_all(lines.as_bytes()).is_err())
    });
    let file = QueryFile::start(input, Path::new("-"), Content::LINES, Some(6 << 20));
    let error = file.and_then(QueryFile::complete).expect_err("endless").to_string();
    assert!(error.starts_with("-: a pipe with more than 6291456 octets"), "{error}");
    assert!(writer.join().expect("it ends").is_some());
    // The bound is that of all queries together.
    const TWO: &str = "a.example A\nb.example A\n";
    let octets = compile(TWO).expect("a good file").shared.lock().compiled.octets;
    let within = |most| {
        QueryFile::start(TWO.as_bytes(), Path::new("-"), Content::LINES, Some(most))
            .and_then(QueryFile::complete)
            .is_ok()
    };
    assert_eq!([octets - 1, octets].map(within), [false, true]);
}

#[test]
fn a_file_longer_than_a_chunk_is_read_in_order() {
    let text: String =
        (0..40_000).map(|i| format!("name-{i:06}.some.example.org AAAA\n")).collect();
    let mut stream = compile(&text).expect("a good file").workload(0, 1, options());
    let mut out = [0; super::super::MAX_QUERY];
    for i in 0..80_001 {
        let composed = stream.next(&mut out).expect("endless");
        assert_eq!(&out[13..24], format!("name-{:06}", i % 40_000).as_bytes());
        assert_eq!(composed.key, reply::question_hash(&out[12..composed.len]));
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = compile(&text);
    }
}
