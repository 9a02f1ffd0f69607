//! Running servers side by side: `search A B` finds what the servers of the test are known to do, and its exit code says whether one is
//! slower; `load --repeats` makes the same load again.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use record::{Decision, Seen};

use crate::guide::has_the_table;
use crate::kit::command::{dnsdyno, refused, run};
use crate::kit::peer::{self, reply};
use crate::kit::{AuthDns, host};

/// A server of this test on a thread: it answers one query after the other, each after a time, and keeps the queries without their ids.
#[derive(Clone)]
struct Known {
    address: String,
    queries: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Known {
    fn start(delay: Duration, answers: bool) -> Self {
        let queries: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let seen = queries.clone();
        let address = peer::start(move |query, _| {
            std::thread::sleep(delay);
            seen.lock().expect("no panic").push(query[2..].to_vec());
            if answers { reply(query, query[3]) } else { Vec::new() }
        });
        Known { address, queries }
    }
}

#[test]
fn a_slower_server_is_found_by_rounds_in_interleaved_order() {
    let [fast, slow] = [4, 8].map(|ms| Known::start(Duration::from_millis(ms), true));
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("run.json").display().to_string();
    let (old, new) = (format!("old={}", fast.address), format!("new={}", slow.address));
    // The fewest rounds on a busy machine may leave the question open, which is code 4.
    let search = |fail_if: &str| {
        let rounds = "--name x.test --type A --rounds 4 --duration 200ms";
        let searches = (0..10).map(|_| run(&format!("search {old} {new} {rounds} {fail_if}")));
        let mut told = searches.inspect(|(_, table, told)| println!("{table}{told}"));
        told.find(|(code, ..)| *code != 4).expect("one of ten decides")
    };
    let (code, table, told) = search(&format!("--fail-if 'new < -10%' --json {json}"));
    assert_eq!(code, 3, "{table}{told}");
    let last = table.lines().last().expect("a verdict");
    assert!(last.starts_with("FAILED (exit 3): new answers "), "{last}");
    assert!(last.ends_with(" % less than old; limit 10 %"), "{last}");
    has_the_table("dnsdyno search old=", &table);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].starts_with("server") && lines[1].contains("x old"), "{table}");
    assert!(lines[2].starts_with("old ") && lines[3].starts_with("new "), "{table}");
    let name_of = |line: &str| line.find(": round ").or_else(|| line.find(": a round is void"));
    let rounds: Vec<&str> = told.lines().filter_map(|line| Some(&line[..name_of(line)?])).collect();
    // A round with a window that is too small beside the other server's is made again.
    assert!((8..=9).contains(&rounds.len()), "{told}");
    // A B B A, or B A A B.
    for two in rounds.chunks_exact(4) {
        assert!(two[0] == two[3] && two[1] == two[2] && two[0] != two[1], "{rounds:?}");
    }
    let run_json: record::Run = record::read(json.as_ref()).expect("a run");
    let [old_cell, new_cell] = &run_json.results[..] else { panic!("{run_json:?}") };
    assert_eq!((&*old_cell.server, &*new_cell.server), ("old", "new"));
    assert!(old_cell.ratio.is_none());
    // On a machine that is busy elsewhere a round may be void, which is told.
    for cell in [old_cell, new_cell] {
        assert_eq!(cell.rounds.len() + cell.void_repeats.len(), 4, "{told}");
    }
    let gate = run_json.gate.as_ref().expect("a decision");
    assert_eq!((gate.decision, gate.exit_code, gate.line().as_str()), (Decision::Slower, 3, last));
    let export = |form: &str| run(&format!("export {json} --format {form}")).1;
    let junit = export("junit");
    assert!(junit.contains("failures=\"1\" errors=\"0\"") && junit.ends_with(">\n"), "{junit}");
    assert!(junit.contains("name=\"new &lt; -10%\""), "{junit}");
    assert!(export("markdown").starts_with(last), "the verdict first");
    let ratio = new_cell.ratio.as_ref().expect("paired by round");
    assert_eq!(ratio.baseline, "old");
    // The truth is a half, or a little more: a sleep lasts longer than asked for by the same time in both.
    assert!(ratio.low < 0.62 && 0.4 < ratio.high, "{ratio:?}");
    let (code, table, told) = search("--fail-if 'old < -10%' --baseline new");
    assert_eq!(code, 0, "{table}{told}");
    assert!(table.contains("x new"), "{table}");
}

#[test]
fn a_server_that_ends_in_a_search_ends_it() {
    let auth = AuthDns::start(&[]);
    let at = auth.plain();
    let line = format!("search a={at} b={at} --namespace 10.0.0.0/12 --type A --duration 200ms");
    let mut search = dnsdyno(&line).stderr(Stdio::piped()).spawn().expect("starts");
    let told = BufReader::new(search.stderr.take().expect("piped"));
    let mut lines = told.lines().map(|line| line.expect("text"));
    lines.find(|line| line.contains(": round ")).expect("a round");
    host::signal(auth.pid(), "KILL");
    let last = lines.last().expect("an error");
    assert!(last.contains(&format!(": nothing listens at {at} any more")), "{last}");
    assert_eq!(search.wait().expect("an end").code(), Some(1));
}

#[test]
fn one_server_has_its_capacity_with_latency_at_it_and_at_half() {
    let known = Known::start(Duration::from_millis(1), true);
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("run.json").display().to_string();
    let short = format!("--name x.test --type A --duration 200ms --json {json}");
    let (code, table, told) = run(&format!("search {} {short}", known.address));
    assert_eq!(code, 0, "{table}{told}");
    for head in ["capacity", "p50 / p99 at 50 %", "limited by"] {
        assert!(table.lines().nth(1).is_some_and(|heads| heads.contains(head)), "{head}: {table}");
    }
    let (_, details, _) = run(&format!("show --details {json}"));
    for head in ["at 100 %", "loss-free to"] {
        assert!(details.contains(head), "{head}: {details}");
    }
    assert!(told.starts_with("8 rounds of each server, then up to 24 within 10 s"), "{told}");
    let first = told.lines().nth(1).expect("progress");
    assert!(first.contains(": about ") && first.ends_with(" qps so far"), "{told}");
    assert!(told.contains(": round 1 of 8 to 24: "), "{told}");
    // A busy machine may have no time left.
    assert!(told.contains(" left\n") || told.contains("; it ends with round 8\n"), "{told}");
    let run: record::Run = record::read(json.as_ref()).expect("a run");
    let [cell] = &run.results[..] else { panic!("{run:?}") };
    let found = cell.capacity.as_ref().expect("a capacity");
    assert!(
        found.rounds as usize == cell.rounds.len()
            && found.low_qps <= found.qps
            && found.qps <= found.high_qps
    );
    // The server's sockets are of the process that started the search, whose time says nothing.
    assert!(found.seen.contains(&Seen::NoCpu) && found.cpu_us_per_answer.is_none(), "{found:?}");
    // One query after the other, each after a millisecond or more.
    assert!(found.low_qps < 1_000.0, "{found:?}");
    let shares: Vec<f64> = cell.loads.iter().map(|load| load.share).collect();
    assert_eq!(shares, [0.25, 0.5, 0.8, 0.9, 1.0, 1.2]);
}

#[test]
fn no_gate_holds_between_a_server_and_itself() {
    let known = Known::start(Duration::from_millis(1), true);
    let at = &known.address;
    let (code, table, told) = run(&format!(
        "search a={at} b={at} c={at} --name x.test --type A --duration 300ms --rounds 4 \
         --fail-if 'b < -40%' --fail-if 'c < -40%'"
    ));
    // The fewest rounds on a busy machine may leave the question open.
    let is_open = code == 4 && table.contains("NOT SURE (exit 4): ");
    assert!(code == 0 || is_open, "{code}: {table}{told}");
    for name in ["a ", "b ", "c "] {
        assert!(table.lines().any(|line| line.starts_with(name)), "{table}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_sent() {
    let known = Known::start(Duration::ZERO, true);
    for (words, why) in [
        ("A B --goal zero-loss", "--goal requires a search of one server, several"),
        ("A B --max 5k", "--max requires"),
        ("ONE --rounds 9 --rule rfc8219", "--rounds requires a capacity by rounds"),
        ("ONE --repeats 2 --baseline x", "--baseline requires a capacity by rounds"),
        ("A B --engine kernel", "the engine `kernel` sends the names of a namespace"),
        ("ONE ONE", "two servers are called 127.0.0.1:"),
        ("A B --baseline c", "--baseline: there is no server c; there are a, b"),
        ("A B --fail-if 'c < -3%'", "--fail-if: there is no server c; there are a, b"),
        ("ONE --fail-if 'a < -3%'", "--fail-if: there is no server a"),
        ("A B --fail-if 'b > 3%'", "a server fails when its capacity is less: write 'b < -3%'"),
        ("=127.0.0.1:1", "has no name before `=`"),
    ] {
        let words = words.replace("A B", &format!("a={0} b={0}", known.address));
        let words = words.replace("ONE", &known.address);
        let told = refused(&format!("search --name x.test {words}"));
        assert!(told.contains(why), "{words}: {told}");
    }
    assert!(known.queries.lock().expect("no panic").is_empty());
}

#[test]
fn a_load_is_repeated_with_other_names_of_a_namespace() {
    let known = Known::start(Duration::ZERO, true);
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("run.json").display().to_string();
    let load = |more: &str| {
        let pacing = "--pacing 'window 4' --duration 200ms --shared-core --type A --no-check";
        run(&format!("load {} {pacing} {more}", known.address))
    };
    let names = format!("--namespace 10.0.0.0/12 --expect noerror --json {json}");
    let (code, table, told) = load(&format!("{names} --repeats 3"));
    assert_eq!(code, 0, "{table}{told}");
    let run: record::Run = record::read(json.as_ref()).expect("a run");
    let [cell] = &run.results[..] else { panic!("{run:?}") };
    let repeats: Vec<u32> = cell.trials.iter().map(|t| t.repeat).collect();
    assert_eq!((repeats, cell.repeats_made()), (vec![0, 1, 2], 3), "{told}");
    let sent: u64 = cell.trials.iter().map(|t| t.trial.sent).sum();
    let queries = std::mem::take(&mut *known.queries.lock().expect("no panic"));
    assert_eq!(queries.len() as u64, sent, "{told}");
    assert_eq!(queries.iter().collect::<BTreeSet<_>>().len() as u64, sent, "no name twice");
    let rows: Vec<&str> = told.lines().filter(|line| line.contains(" of 3: ")).collect();
    assert_eq!(rows.len(), 3, "{told}");
    for part in
        ["3 loads of", "ranges in brackets", "valid answers", "latency p50", "latency p99", "lost"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    let (code, table, told) = load("--name x.test --repeats 6");
    assert_eq!(code, 0, "{table}{told}");
    assert!(table.contains("6 loads of") && table.contains("95 % intervals"), "{table}");
    let queries = known.queries.lock().expect("no panic").clone();
    assert_eq!(queries.iter().collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn repeats_end_as_a_single_load_does() {
    let load = |known: &Known, more: &str| {
        let short = "--rate 100 --duration 200ms --timeout 200ms --repeats 3";
        run(&format!("load {} --name x.test {short} {more}", known.address))
    };
    let silent = Known::start(Duration::ZERO, false);
    let (code, table, told) = load(&silent, "--no-check");
    assert_eq!((code, table.as_str()), (1, ""), "{told}");
    assert!(told.contains("stayed silent") && !told.contains("2 of 3"), "{told}");
    assert!(silent.queries.lock().expect("no panic").len() <= 20, "one load is enough");
    let known = Known::start(Duration::from_millis(5), true);
    let (code, table, told) = load(&known, "--goal 'p99 < 1ms'");
    assert_eq!(code, 1, "{table}{told}");
    for (words, why) in [
        ("--pacing lockstep", "--repeats: a lock-step load repeats with --experiments"),
        ("--quantiles 25", "cannot be used with"),
        ("--repeats 0", "--repeats"),
    ] {
        let told = refused(&format!("load {} --repeats 2 {words}", known.address));
        assert!(told.contains(why), "{told}");
    }
}
