//! The `dnsdyno` binary: arguments in, words out.
//!
//! ```text
//! args (clap) ──> options (checked) ──> command ──> roles on engines ──> record ──> report, JSON
//! ```

mod args;
mod auth;
mod bench;
mod ceilings;
mod compare;
mod count;
mod failure;
mod fingerprint;
mod keep;
mod live;
mod load;
mod load_line;
mod lockstep;
mod man;
mod metrics;
mod options;
mod output;
mod plan;
mod progress;
mod replay;
mod report_page;
mod run;
mod runs;
mod search;
mod selftest;
mod servers;
mod store;
mod trace;
mod trace_export;
mod trace_plots;
mod trace_select;
mod trace_stats;
mod trace_transfers;
mod update;
mod zone;
mod zone_files;
mod zone_generate;
mod zone_sign;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    // The lab's wrapper takes its arguments as they are.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == lab::exec::EXEC_COMMAND) {
        let Err(error) = lab::exec_main(words);
        eprintln!("dnsdyno: {error}");
        return ExitCode::from(127);
    }
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Load(args) => load::run(*args),
        Command::Measure { result } => load::measure(&result),
        Command::Search(args) => search::run(*args),
        Command::Selftest(args) => selftest::run(*args),
        Command::Auth(args) => auth::run(*args),
        Command::Run(args) => run::run(args),
        Command::Update(args) => update::run(*args),
        Command::Zone(args) => zone::run(*args),
        Command::Trace(args) => trace::run(*args),
        Command::Host(args) => fingerprint::run(&args),
        Command::Servers(args) => servers::run(&args),
        Command::Runs(args) => runs::list(&args),
        Command::Show(args) => runs::show(&args),
        Command::Export(args) => runs::export(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Delete(args) => runs::delete(&args),
        Command::Report(args) => report_page::run(&args),
        Command::Man { dir } => man::run(&dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The command line as it was given.
fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}
