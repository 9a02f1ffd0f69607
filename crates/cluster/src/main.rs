//! `dnsdyno-cluster`: a command of dnsdyno, its trials on all hosts of an Open MPI job. Rank 0 conducts, the others are Testers.

mod ranks;
mod run;
mod under_way;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use cli::Testers;
use cluster::{Conductor, Limits, Link, TesterRank};
use lab::Refusal;
use load::Live;
use measure::Nanos;
use record::{TrialRequest, TrialResult};

use ranks::MpiLink;

/// Version of this program; all ranks must have the same.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const USAGE: &str = "dnsdyno-cluster runs a command of dnsdyno on all hosts of an Open MPI job:

    mpirun --hostfile ranks --map-by node --bind-to none dnsdyno-cluster [--least N] load|search|run ARGUMENTS
    dnsdyno load|search|run --hosts FILE ARGUMENTS      (starts mpirun itself, with `dnsdyno-cluster serve`)

The first rank conducts and sends nothing; each other one is a Tester that sends a slice of every load. With `--least N` trials go on
with N Testers if others are lost. `run` starts the program `dnsdyno` on the first rank's host; the hosts of the server and of the
AuthDNS are in its `--hosts FILE`. `dnsdyno load --help` has the arguments; docs/hosts.md has the rest.";

/// Variables of which a job of Open MPI, or of another starter that speaks PMI, sets one.
const OF_A_JOB: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"];

/// The conductor as the Testers of a command.
struct ConductedTesters(Conductor<MpiLink>);

impl Testers for ConductedTesters {
    fn trial(
        &mut self,
        request: &TrialRequest,
        live: &Live,
        stop: &AtomicBool,
    ) -> Result<TrialResult, Refusal> {
        self.0.trial(request, live, stop)
    }

    fn pause(&mut self, time: Nanos) {
        self.0.pause(time);
    }
}

fn main() -> ExitCode {
    let (limits, words) = match options(std::env::args_os().collect()) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("dnsdyno-cluster: {why}");
            return ExitCode::from(2);
        }
    };
    if !OF_A_JOB.iter().any(|name| std::env::var_os(name).is_some()) {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    ranks::end_with_starter();
    let Some(link) = MpiLink::open() else {
        eprintln!("dnsdyno-cluster: MPI cannot be initialised");
        return ExitCode::from(1);
    };
    if link.rank() > 0 {
        let link = TesterRank::new(link, VERSION, &ranks::host(), ranks::signalled()).serve();
        // A rank that exits with another code ends the whole job.
        return link.close(ExitCode::SUCCESS, true);
    }
    let testers = link.size() - 1;
    let conductor = Conductor::gather(link, VERSION, &cli::command_line(), limits);
    if words.get(1).is_some_and(|word| word == "run") {
        let (conductor, code) = run::conduct(conductor, &words, testers);
        let complete = conductor.lost().next().is_none();
        return conductor.end().close(code, complete);
    }
    if words.get(1).is_some_and(|word| word == "serve") {
        let (input, output) = (std::io::stdin(), std::io::stdout());
        let conductor = cluster::serve(conductor, VERSION, input, output, ranks::signalled());
        let complete = conductor.lost().next().is_none();
        return conductor.end().close(ExitCode::SUCCESS, complete);
    }
    let mut conducted = ConductedTesters(conductor);
    let code = cli::conduct(words, &mut conducted);
    let complete = conducted.0.lost().next().is_none();
    conducted.0.end().close(code, complete)
}

/// Returns the limits, and the words of the command without those that are this program's own.
fn options(mut words: Vec<OsString>) -> Result<(Limits, Vec<OsString>), String> {
    let mut limits = Limits::default();
    if words.get(1).is_some_and(|word| word == "--least") {
        let number = words.get(2).and_then(|word| word.to_str()?.parse().ok());
        let number = number.filter(|number| *number > 0);
        let found = words.get(2).map_or("nothing".into(), |word| word.to_string_lossy());
        limits.least =
            Some(number.ok_or_else(|| format!("--least {found}: write a number from 1 on"))?);
        words.drain(1..3);
    }
    Ok((limits, words))
}
