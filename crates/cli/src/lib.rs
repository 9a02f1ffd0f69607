//! The `dnsdyno` binary: arguments in, words out.
//!
//! ```text
//! arguments (clap) ──> commands ──> request ──> roles on engines ──> record ──> report, JSON
//! ```

#[macro_use]
mod output;

mod arguments;
mod bench;
mod command_line;
mod commands;
mod failure;
mod nearest;
mod preflight;
mod process;
mod progress;
mod testers;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::dropin::{self, dnsperf, kxdpgun, resperf};
use commands::{
    agent, auth, bisect, compare, demo, diff, doctor, history, host, load, man, merge, report, run,
    runs, search, selftest, servers, site, task, trace, update, verify, zone,
};
use failure::Failure;

pub use process::command_line;
pub use testers::Testers;

/// Text of `--version`: the version, and facts of this build.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("DNSDYNO_BUILD_COMMIT"),
    "\nfeatures: ",
    env!("DNSDYNO_BUILD_FEATURES"),
    "\nkernel engine: ",
    env!("DNSDYNO_BUILD_KERNEL_ENGINE"),
);

/// A dynamometer for DNS servers: how fast is it, how sure are you, and what limited it?
#[derive(Debug, Parser)]
#[command(name = "dnsdyno", version, long_version = LONG_VERSION, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what is installed here: a table and a page, in minutes
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoArgs),
    /// Load a server once, and show the outcome of the queries
    #[command(after_help = load::EXAMPLES)]
    Load(Box<load::LoadArgs>),
    /// Merge the results of several Testers that shared one load
    #[command(after_help = merge::EXAMPLES)]
    Merge(merge::MergeArgs),
    /// Find how fast a server is, or which of several is the fastest
    #[command(after_help = search::EXAMPLES)]
    Search(Box<search::SearchArgs>),
    /// Test how fast the Tester is, against our AuthDNS (RFC 8219)
    #[command(after_help = selftest::EXAMPLES)]
    Selftest(Box<selftest::SelftestArgs>),
    /// Check that the Tester finds the known values of known servers
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Serve synthetic zones: every answer is computed from the name
    #[command(after_help = auth::EXAMPLES)]
    Auth(Box<auth::AuthArgs>),
    /// Run an experiment: real servers in network namespaces, no root
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Measure revisions of a server: how fast was every version?
    #[command(after_help = history::EXAMPLES)]
    History(Box<history::HistoryArgs>),
    /// Find the commit that changed a figure of a server
    #[command(after_help = bisect::EXAMPLES)]
    Bisect(Box<bisect::BisectArgs>),
    /// List the servers of the lab, or write the configuration of one
    #[command(after_help = servers::EXAMPLES)]
    Servers(servers::ServersArgs),
    /// Say what this host is good for: facts, a self-test, verify
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Show facts of this host, its speed, and what disturbs it
    #[command(after_help = host::EXAMPLES)]
    Host(host::HostArgs),
    /// List the runs that are kept
    Runs(runs::RunsArgs),
    /// Show a run that is kept
    Show(runs::ShowArgs),
    /// Write a run as JSON, as a table, or for other programs
    #[command(after_help = runs::EXPORT_EXAMPLES)]
    Export(runs::RunsExportArgs),
    /// Compare two runs: faster, slower, or no difference shown
    #[command(after_help = compare::NOTES)]
    Compare(compare::CompareArgs),
    /// Compare the answers of servers with each other or with a capture
    #[command(after_help = diff::EXAMPLES)]
    Diff(Box<diff::DiffArgs>),
    /// Delete runs
    Delete(runs::DeleteArgs),
    /// Make, send, look up and apply streams of dynamic updates
    #[command(after_help = update::EXAMPLES)]
    Update(Box<update::UpdateArgs>),
    /// Make, cut, count, check, compare and sign zone files
    #[command(after_help = zone::EXAMPLES)]
    Zone(Box<zone::ZoneArgs>),
    /// Describe and filter captures, and turn them into queries
    Trace(Box<trace::TraceArgs>),
    /// Write runs as one HTML page that needs no network
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportArgs),
    /// Write runs as a static site, with the history of each server
    #[command(after_help = site::EXAMPLES)]
    Site(site::SiteArgs),
    /// Measure as dnsperf does: its options, its output
    #[command(after_help = dnsperf::EXAMPLES, disable_help_flag = true)]
    Dnsperf(Box<dnsperf::DnsperfArgs>),
    /// Measure as resperf does: its options, its output, its plot data
    #[command(after_help = resperf::EXAMPLES, disable_help_flag = true)]
    Resperf(Box<resperf::ResperfArgs>),
    /// Measure as kxdpgun does: its options, its output
    #[command(after_help = kxdpgun::EXAMPLES, disable_help_flag = true)]
    Kxdpgun(Box<kxdpgun::KxdpgunArgs>),
    /// Watch a server on this host for a remote Tester
    #[command(after_help = agent::NOTES)]
    Agent(agent::AgentArgs),
    /// Write the completions of a shell
    #[command(after_help = command_line::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder; it is created if it does not exist
        dir: PathBuf,
    },
}

/// Runs the command that the arguments of this process name; returns its exit code.
pub fn main() -> ExitCode {
    // The lab's wrapper and its sandbox parse their own arguments.
    let mut words = std::env::args_os().skip(1);
    let first = words.next().unwrap_or_default();
    if first == lab::exec::EXEC_COMMAND {
        let Err(error) = lab::exec_main(words);
        eprintln!("dnsdyno: {error}");
        return ExitCode::from(127);
    }
    if first == lab::TASK_COMMAND {
        return ended(task::run());
    }
    if first == lab::builds::BUILD_COMMAND {
        return ExitCode::from(lab::builds::sandbox_main(words));
    }
    let cli = match command_line::parse(dropin::words(std::env::args_os())) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    ended(run(cli.command))
}

/// Runs the command of a command line (the first word is the program), its trials on several Testers; returns its exit code.
pub fn conduct(words: Vec<OsString>, testers: &mut dyn Testers) -> ExitCode {
    let cli = match command_line::parse(words) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    ended(process::catch_usr1().and_then(|()| match cli.command {
        Command::Load(args) => load::run(*args, Some(testers)),
        Command::Search(args) => search::run(*args, Some(testers)),
        _ => Err(Failure::input(anyhow::anyhow!(
            "several Testers run `load`, `search` and `run`; start the other commands as dnsdyno, without mpirun"
        ))),
    }))
}

/// Runs the command of this program with these arguments.
fn run_words(arguments: Vec<OsString>) -> Result<(), Failure> {
    let words = std::iter::once("dnsdyno".into()).chain(arguments).collect();
    let cli = command_line::parse(words).map_err(|_| Failure::Silent)?;
    run(cli.command)
}

fn run(command: Command) -> Result<(), Failure> {
    process::catch_usr1()?;
    match command {
        Command::Demo(args) => demo::run(&args, run_words),
        Command::Load(args) => load::run(*args, None),
        Command::Agent(args) => agent::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Search(args) => search::run(*args, None),
        Command::Selftest(args) => selftest::run(*args),
        Command::Verify(args) => verify::run(&args),
        Command::Auth(args) => auth::run(*args),
        Command::Run(args) => run::run(*args),
        Command::History(args) => history::run(*args),
        Command::Bisect(args) => bisect::run(&args),
        Command::Update(args) => update::run(*args),
        Command::Zone(args) => zone::run(*args),
        Command::Trace(args) => trace::run(*args),
        Command::Host(args) => host::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Servers(args) => servers::run(&args),
        Command::Runs(args) => runs::list(&args),
        Command::Show(args) => runs::show(&args),
        Command::Export(args) => runs::export(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Delete(args) => runs::delete(&args),
        Command::Report(args) => report::run(&args),
        Command::Site(args) => site::run(&args),
        Command::Dnsperf(args) => dnsperf::run(&args),
        Command::Resperf(args) => resperf::run(&args),
        Command::Kxdpgun(args) => kxdpgun::run(&args),
        Command::Completions { shell } => command_line::completions(shell),
        Command::Man { dir } => man::run(command_line::command(), &dir),
    }
}

/// Prints the failure of a command, if it failed; returns its exit code.
fn ended(done: Result<(), Failure>) -> ExitCode {
    // A failure of the command decides the exit code before a failure of its output; both are
    // printed.
    let failed = done.err().map(Failure::report);
    let unwritten = output::finish().err().map(Failure::report);
    failed.or(unwritten).unwrap_or(ExitCode::SUCCESS)
}
