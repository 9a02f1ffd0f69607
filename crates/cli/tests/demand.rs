//! The service demand of a server over TCP that runs a fixed number of instructions for each query and for each connection.

use std::process::Command;

use record::{CellRecord, Round, Run};

use crate::kit::command::Ran;

/// Steps for each query and for each connection: some 60 and 600 us, far above what the kernel does for either.
const STEPS: [u32; 2] = [100_000, 1_000_000];

/// Makes rounds with four queries on each connection; `None` where there is no lab or no compiler.
fn measured() -> Option<(CellRecord, String)> {
    let dir = tempfile::tempdir().expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/truth-server.c");
    let server = dir.path().join("server");
    let built = Command::new("cc").args(["-O2", source, "-o"]).arg(&server).status();
    if !built.is_ok_and(|status| status.success()) {
        return skip::none("no C compiler");
    }
    let [query, connection] = STEPS;
    let command = format!("{} {{{{ listen.port }}}} stream {query} {connection}", server.display());
    let experiment = format!(
        "name = \"demand\"\ntitle = \"a server over TCP\"\nrole = \"dns64\"\nservers = [\"own\"]\n\
         method = \"capacity\"\nrepeats = 5\n[workload]\nnamespace = \"10.0.0.0/16\"\npref64 = \"2001:db8:64::/96\"\n\
         [capacity]\nduration = \"300ms\"\nloads = false\n[tester]\ntransport = \"tcp\"\nclients = 4\n\
         queries-per-connection = 4\n[custom.own]\ncommand = \"{command}\"\n"
    );
    let line = "--plain --trust";
    // Its loops have as many names as they need for their own time, which is not shortened.
    let ran = Ran::experiment(dir.path(), "", &experiment, line)?;
    let run: Run =
        record::read(&dir.path().join("run.json")).unwrap_or_else(|e| panic!("{e}: {}", ran.told));
    let cell = run.results.into_iter().next().expect("a cell");
    Some((cell, ran.told))
}

#[test]
fn a_connection_costs_what_its_instructions_cost() {
    let Some((cell, told)) = measured() else { return };
    if !cell.hidden.is_empty() {
        return skip::because(format!(
            "the CPU time of a server is hidden here: {:?}",
            cell.hidden
        ));
    }
    // Its four clients begin with a connection, which counts where a busy machine has few answers; no round may be left there.
    let often = |round: &Round| round.connections_per_answer.map(|o| o + 4.0 / (round.qps * 0.3));
    assert!(cell.rounds.iter().all(|round| often(round) >= Some(0.2)), "{told}");
    let rare = |often: f64| often < 0.1;
    let mut longer = cell.longer_connections.iter().map(|round| round.connections_per_answer);
    assert!(longer.all(|often| often.is_none_or(rare)), "{told}");
    let Some(streams) = cell.capacity.as_ref().and_then(|found| found.streams) else {
        // On a very busy machine a connection cannot be told from chance, or no two rounds are left.
        let cpu_us = cell.rounds.iter().filter_map(|round| round.cpu_us_per_answer);
        let (least, most) = cpu_us.fold((f64::MAX, 0.0), |(a, b), us| (us.min(a), us.max(b)));
        assert!(cell.rounds.len() < 2 || most > 1.3 * least, "{:?}: {told}", cell.capacity);
        return;
    };
    let [query, connection] = STEPS.map(f64::from);
    let ratio = streams.cpu_us_per_connection / streams.cpu_us_per_query;
    let truth = connection / query;
    // What the kernel and the server do besides is not in the truth.
    assert!(ratio > truth / 2.0 && ratio < truth * 2.0, "{ratio}, not {truth}: {streams:?}");
    assert!(told.contains("CPU/connection"), "{told}");
}
