//! The answers of several servers, compared: all of them run in the DUT's host at the same time,
//! and a process in the Tester's host sends every query to each of them, as `dnsdyno diff` does.
//!
//! ```text
//!   tester host                      dut host                       auth host
//!   dnsdyno __task answers ───┬──> A  [fd00:9::2]:53   ──┐
//!                             ├──> B  [fd00:9::2]:5401 ──┼──> the upstream of all: AuthDNS, or a server with the zone
//!                             └──> C  [fd00:9::2]:5402 ──┘
//! ```

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use experiment::settings::{AnswersSettings, Role};
use experiment::{
    Bench, BenchError, ComparedAnswers, Experiment, FileError, Point, Settings, TrialSpec,
};
use measure::Nanos;
use record::{AnswerDiff, Trial};
use trace::population::{self, Input};

use crate::adapter::Adapter;
use crate::probe::datagrams_dropped;
use crate::probe::watch::{LiveUpdate, Reader, Watcher};
use crate::runs::bench::{Upstream, watch};
use crate::server::query_stream::{Inputs, Prepared};
use crate::server::{LabEnv, Server};
use crate::testbed::Host;
use crate::testbed::process::{Launch, Process};
use crate::testbed::task::{AnswersTask, Task};

/// Time limit of a comparison, longer than any plan.
const TIME_LIMIT: Duration = Duration::from_secs(86_400);
/// File of a stored run with every query whose answers differ, a line of JSON each.
const LINES_FILE: &str = "answers.jsonl";
/// File with the counters of a comparison while it runs.
const LIVE_FILE: &str = "answers-live.json";

/// Checks that all servers of a comparison run in the lab, that there are several, and that the
/// queries come from a capture and not from a population.
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
            let why = "one server has nothing to be compared with: name another one";
            return bad("servers", why.to_owned());
        }
        let running = adapters.iter().find(|adapter| adapter.remote.is_some());
        let outside = running.map(|adapter| adapter.title.clone());
        let outside = outside.or(remote.then(|| "a server on another host".to_owned()));
        if let Some(outside) = outside {
            let why = format!(
                "{outside} is not in the lab, where the method `answers` starts all servers \
                behind one upstream; `dnsdyno diff` compares servers that already run"
            );
            return bad("method", why);
        }
        let replay = point.settings.workload.replay.as_ref();
        let replay = replay.map(|path| experiment.folder().join(path));
        if replay.is_some_and(|path| matches!(population::open(&path), Ok(Input::Population(_)))) {
            let why = "a population has only the names of its queries, not the original messages: give the capture";
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
        let noted = path.and_then(|path| path.map_or(Ok(()), |path| inputs.add_known(&path)));
        noted.map_err(|why| experiment.bad(point, "answers.known", why))?;
    }
    Ok(())
}

/// A server whose answers are compared.
#[derive(Debug)]
pub(crate) struct ComparedServer {
    /// Name of the server's adapter, by which the record distinguishes servers.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
}

/// The bench of a comparison: running servers and their upstream.
#[derive(Debug)]
pub(crate) struct ComparisonBench<'a> {
    pub(crate) env: LabEnv<'a>,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) servers: Vec<ComparedServer>,
    pub(crate) queries: ComparedQueries,
    pub(crate) watcher: Option<Watcher>,
    /// Whether each query whose answers differ is written to a file of the run's directory.
    pub(crate) keep: bool,
}

/// The queries of a comparison.
#[derive(Clone, Debug)]
pub(crate) struct ComparedQueries {
    /// File of the queries: lines of names and types, or a capture.
    file: PathBuf,
    /// Whether the queries come from a capture.
    captured: bool,
    /// Whether queries of other files have the RD bit.
    recursion: bool,
    /// The origin in words, for the record.
    from: String,
    /// File of known differences, which do not count; `None` without one.
    known: Option<PathBuf>,
}

impl ComparedQueries {
    /// Makes the compared queries from the stream of a point.
    pub(crate) fn new(experiment: &Experiment, point: &Point, stream: &Prepared) -> Self {
        let settings = &point.settings;
        let capture = stream.capture.as_ref().map(|capture| capture.path().to_owned());
        // A path that has no absolute form was refused before the run.
        let known = known(experiment, point).unwrap_or_default();
        ComparedQueries {
            captured: capture.is_some(),
            file: capture.unwrap_or_else(|| stream.queries.clone()),
            recursion: settings.role != Role::Authoritative,
            from: origin(settings),
            known,
        }
    }
}

/// Returns the source of a point's queries, in words.
fn origin(settings: &Settings) -> String {
    let w = &settings.workload;
    let file = w.queries.as_ref().or(w.replay.as_ref()).map(|path| path.display().to_string());
    file.or(w.mixed.map(|names| format!("{names} names of many kinds")))
        .or(w.hosts.map(|hosts| format!("a zone of {hosts} hosts")))
        .or(w.delegations.map(|delegations| format!("a zone of {delegations} delegations")))
        .or(w.zone_file.as_ref().map(|path| format!("the names of {}", path.display())))
        .unwrap_or_default()
}

impl ComparisonBench<'_> {
    /// Stops the servers, then their upstream.
    pub(crate) fn stop(self) {
        self.servers.into_iter().for_each(|compared| compared.server.stop());
        if let Some(upstream) = self.upstream {
            upstream.stop();
        }
    }

    /// Returns the task of the comparison.
    fn task(&self, spec: &AnswersSettings) -> Task {
        let ComparedQueries { file, captured, recursion, known, .. } = self.queries.clone();
        Task::Answers(Box::new(AnswersTask {
            servers: self.servers.iter().map(|compared| compared.address).collect(),
            queries: file,
            captured,
            recursion,
            settings: AnswersSettings { known, ..spec.clone() },
            lines: self.keep.then(|| self.env.dir.join(LINES_FILE)),
            live: self.watcher.as_ref().map(|_| self.env.dir.join(LIVE_FILE)),
        }))
    }

    /// Checks that the servers and their upstream still run.
    fn check(&mut self) -> Result<(), BenchError> {
        for compared in &mut self.servers {
            compared.server.check().map_err(BenchError::failed)?;
        }
        self.upstream.as_mut().map_or(Ok(()), Upstream::check).map_err(BenchError::failed)
    }

    /// Labels the servers of a result with the names of their adapters.
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

impl Bench for ComparisonBench<'_> {
    fn trial(&mut self, _: &TrialSpec) -> Result<Trial, BenchError> {
        Err(BenchError::failed("a comparison applies no load to its servers"))
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }

    fn compare_answers(&mut self, spec: &AnswersSettings) -> Result<ComparedAnswers, BenchError> {
        let testbed = self.env.testbed;
        let dropped = || datagrams_dropped(testbed, Host::Tester).map_err(BenchError::failed);
        let before = dropped()?;
        let (namespace, cpus) = (testbed.namespace(Host::Tester), testbed.cpus(Host::Tester));
        let launch = Launch::new("answers", namespace, cpus, self.env.dir);
        if let Some(watcher) = &self.watcher {
            watcher.notify(LiveUpdate::Compares);
        }
        let mut reader = Reader::new(self.watcher.clone(), self.env.dir.join(LIVE_FILE));
        let mut diff =
            Process::start_task(&launch, &self.task(spec)).map_err(BenchError::failed)?;
        let (what, lab) = ("compare all answers", self.env.lab);
        watch(&mut diff, what, TIME_LIMIT, lab, &mut reader, || self.check())?;
        drop(reader);
        let mut diff: AnswerDiff = diff.result().map_err(BenchError::failed)?;
        self.name(&mut diff);
        Ok(ComparedAnswers { diff, dropped: dropped()?.saturating_sub(before) })
    }
}
