//! The answers of several servers, compared: all of them run in the DUT's host at the same time, and `dnsdyno diff` in the Tester's host
//! asks each of them every query.
//!
//! ```text
//!   tester host                      dut host                       auth host
//!   dnsdyno diff A B C ───────┬──> A  [fd00:9::2]:53   ──┐
//!     --queries, --json       ├──> B  [fd00:9::2]:5401 ──┼──> the upstream of all: AuthDNS, or a server with the zone
//!                             └──> C  [fd00:9::2]:5402 ──┘
//! ```

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use experiment::settings::{AnswersSettings, Role};
use experiment::{
    Bench, BenchError, ComparedAnswers, Experiment, FileError, Point, Settings, TrialSpec,
};
use measure::Nanos;
use nix::sys::signal::Signal;
use record::{AnswerDiff, Trial};
use trace::population::{self, Input};

use crate::adapter::Adapter;
use crate::probe::datagrams_dropped;
use crate::probe::watch::{LiveUpdate, Reader, Watcher};
use crate::runs::bench::Upstream;
use crate::server::Server;
use crate::server::query_stream::{Inputs, Prepared};
use crate::server::replication::Ground;
use crate::testbed::Host;
use crate::testbed::enter::program;
use crate::testbed::process::{Launch, Process, TimeLimit};

/// Longest time that a comparison may take: no plan is as long.
const LIMIT: Duration = Duration::from_secs(86_400);
/// Interval between checks of the processes of a comparison.
const WATCH: Duration = Duration::from_millis(50);
/// Time within which an interrupted comparison must end.
const GRACE: Duration = Duration::from_secs(5);
/// File in which a kept run has every query whose answers differ, a line of JSON each.
const LINES: &str = "answers.jsonl";
/// File with the counters of a comparison while it runs.
const LIVE: &str = "answers-live.json";

/// Checks that all servers of a comparison run in the lab, that there are several, and that the queries are those of a capture and
/// not of a population.
///
/// # Errors
/// The error names the place.
pub(crate) fn check(
    experiment: &Experiment,
    adapters: &[Adapter],
    remote: bool,
) -> Result<(), FileError> {
    for point in experiment.points.iter().filter(|point| point.settings.method.compares()) {
        let bad = |key: &str, why: String| Err(experiment.bad(point, key, why));
        let measured = adapters.iter().filter(|adapter| point.settings.measures(&adapter.name));
        if measured.count() < 2 {
            let why = "one server has nothing to be compared with: name another";
            return bad("servers", why.to_owned());
        }
        let running = adapters.iter().find(|adapter| adapter.remote.is_some());
        let outside = running.map(|adapter| adapter.title.clone());
        let outside = outside.or(remote.then(|| "a server on another host".to_owned()));
        if let Some(outside) = outside {
            let why = format!(
                "{outside} is not in the lab, where the method `answers` starts all servers behind one upstream; \
                 `dnsdyno diff` asks servers that run"
            );
            return bad("method", why);
        }
        let replay = point.settings.workload.replay.as_ref();
        let replay = replay.map(|path| experiment.folder().join(path));
        if replay.is_some_and(|path| matches!(population::open(&path), Ok(Input::Population(_)))) {
            let why = "a population has clients with names, and no queries as they were sent: give the capture";
            return bad("workload.replay", why.to_owned());
        }
    }
    Ok(())
}

/// Returns the absolute path of a point's file of known differences, if it has one.
fn known(experiment: &Experiment, point: &Point) -> io::Result<Option<PathBuf>> {
    let path = point.settings.answers.known.as_ref().filter(|_| point.settings.method.compares());
    path.map(|path| std::path::absolute(experiment.folder().join(path))).transpose()
}

/// Notes the files of known differences.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn note_known(experiment: &Experiment, inputs: &mut Inputs) -> Result<(), FileError> {
    for point in &experiment.points {
        let path = known(experiment, point).map_err(|e| e.to_string());
        let noted = path.and_then(|path| path.map_or(Ok(()), |path| inputs.known(&path)));
        noted.map_err(|why| experiment.bad(point, "answers.known", why))?;
    }
    Ok(())
}

/// A server whose answers are compared.
#[derive(Debug)]
pub(crate) struct Compared {
    /// Name of its adapter.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
}

/// The bench of a comparison: servers that run, and what they ask.
#[derive(Debug)]
pub(crate) struct Comparing<'a> {
    pub(crate) ground: Ground<'a>,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) servers: Vec<Compared>,
    pub(crate) queries: Asked,
    pub(crate) watcher: Option<Watcher>,
    /// Whether each query whose answers differ is written to a file of the run's directory.
    pub(crate) keep: bool,
}

/// The queries of a comparison.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Options of `dnsdyno diff` that name the file, and how its queries are sent.
    options: Vec<OsString>,
    /// The origin in words, for the record.
    from: String,
    /// File of known differences.
    known: Option<PathBuf>,
}

impl Asked {
    /// Makes them for the stream of a point.
    pub(crate) fn new(experiment: &Experiment, point: &Point, stream: &Prepared) -> Self {
        let settings = &point.settings;
        let mut options: Vec<OsString> = Vec::new();
        match &stream.capture {
            // As they are, EDNS and flags too.
            Some(capture) => options.extend(["--capture".into(), capture.path().into()]),
            None => {
                options.extend(["--queries".into(), stream.queries.clone().into()]);
                options.extend(settings.answers.edns.then(|| "--edns".into()));
                options.extend(settings.answers.dnssec.then(|| "--dnssec".into()));
                let authoritative = settings.role == Role::Authoritative;
                options.extend(authoritative.then(|| "--no-recursion".into()));
            }
        }
        // A path that has no absolute form was refused before the run.
        let known = known(experiment, point).unwrap_or_default();
        Asked { options, from: origin(settings), known }
    }
}

/// Returns where the queries of a point come from, in words.
fn origin(settings: &Settings) -> String {
    let w = &settings.workload;
    let file = w.queries.as_ref().or(w.replay.as_ref()).map(|path| path.display().to_string());
    file.or(w.mixed.map(|names| format!("{names} names of many kinds")))
        .or(w.hosts.map(|hosts| format!("a zone of {hosts} hosts")))
        .or(w.zone_file.as_ref().map(|path| format!("the names of {}", path.display())))
        .unwrap_or_default()
}

impl Comparing<'_> {
    /// Stops the servers, then what they ask.
    pub(crate) fn stop(self) {
        self.servers.into_iter().for_each(|compared| compared.server.stop());
        if let Some(upstream) = self.upstream {
            upstream.stop();
        }
    }

    /// Returns the command line of the comparison, whose result is written to `json`.
    fn command(&self, spec: &AnswersSettings, json: &Path) -> Vec<OsString> {
        let mut command: Vec<OsString> = vec![program().into(), "diff".into()];
        command.extend(self.servers.iter().map(|compared| compared.address.to_string().into()));
        command.extend(self.queries.options.iter().cloned());
        let texts = [
            ("--rate", spec.rate.get().to_string()),
            ("--window", spec.window.to_string()),
            ("--timeout", spec.timeout.to_string()),
            ("--pause", spec.pause.to_string()),
            ("--ttl", spec.ttl.clone()),
        ];
        for (option, text) in texts {
            command.extend([option.into(), text.into()]);
        }
        if !spec.ignore.is_empty() {
            command.extend(["--ignore".into(), spec.ignore.join(",").into()]);
        }
        if let Some(known) = &self.queries.known {
            command.extend(["--known".into(), known.into()]);
        }
        if self.keep {
            command.extend(["--lines".into(), self.ground.dir.join(LINES).into()]);
        }
        if self.watcher.is_some() {
            command.extend(["--live".into(), self.ground.dir.join(LIVE).into()]);
        }
        command.extend(["--json".into(), json.into()]);
        command
    }

    /// Waits for the end of the comparison; ends it if the run is interrupted or a server has ended.
    fn watch(&mut self, diff: &mut Process, reader: &mut Reader) -> Result<(), BenchError> {
        let mut limit = TimeLimit::new(LIMIT);
        while !diff.is_over() {
            if self.ground.lab.interrupted().load(Ordering::Relaxed) {
                diff.stop(Signal::SIGINT, GRACE);
                return Err(BenchError::Interrupted);
            }
            for compared in &mut self.servers {
                compared.server.check().map_err(BenchError::failed)?;
            }
            if let Some(upstream) = &mut self.upstream {
                upstream.check().map_err(BenchError::failed)?;
            }
            if limit.is_over() {
                return Err(BenchError::failed(diff.late("compare all answers", LIMIT)));
            }
            reader.look();
            std::thread::sleep(WATCH);
        }
        Ok(())
    }

    /// Gives the servers of a result the names of their adapters.
    fn name(&self, diff: &mut AnswerDiff) {
        for (of, compared) in diff.servers.iter_mut().zip(&self.servers) {
            if let Some(why) = &mut diff.incomplete {
                *why = why.replace(&of.name, &compared.name);
            }
            of.name.clone_from(&compared.name);
        }
        diff.queries_from = vec![self.queries.from.clone()];
    }
}

impl Bench for Comparing<'_> {
    fn trial(&mut self, _: &TrialSpec) -> Result<Trial, BenchError> {
        Err(BenchError::failed("the servers of a comparison are under no load"))
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }

    fn compare_answers(&mut self, spec: &AnswersSettings) -> Result<ComparedAnswers, BenchError> {
        let testbed = self.ground.testbed;
        let dropped = || datagrams_dropped(testbed, Host::Tester).map_err(BenchError::failed);
        let json = self.ground.dir.join("answers.json");
        // The result of an earlier comparison must never count for this one.
        let _ = std::fs::remove_file(&json);
        let before = dropped()?;
        let launch = Launch {
            name: "answers",
            namespace: testbed.namespace(Host::Tester),
            cpus: testbed.cpus(Host::Tester),
            dir: self.ground.dir,
            daemon: false,
            command: self.command(spec, &json),
            environment: Vec::new(),
        };
        if let Some(watcher) = &self.watcher {
            watcher.notify(LiveUpdate::Compares);
        }
        let mut reader = Reader::new(self.watcher.clone(), self.ground.dir.join(LIVE));
        let mut diff = Process::start(&launch).map_err(BenchError::failed)?;
        self.watch(&mut diff, &mut reader)?;
        drop(reader);
        if !json.exists() {
            let ended = diff.check();
            return Err(ended.map_or_else(BenchError::failed, |()| {
                BenchError::failed("the comparison wrote no result")
            }));
        }
        let mut diff: AnswerDiff = record::read(&json).map_err(BenchError::failed)?;
        self.name(&mut diff);
        Ok(ComparedAnswers { diff, dropped: dropped()?.saturating_sub(before) })
    }
}
