//! Recordings that trials with a number replay: a capture at a rate, or, for the method `clients`,
//! a number of clients.
//!
//! ```text
//!   capture, population ──slices as long as a trial──> N of their clients ──┐
//!   seed, names of the namespace ──────made up───────> N clients ───────────┴──> a population ──> Measurer: real clients
//! ```
//!
//! Synthetic clients query names that no earlier trial queried, so that every trial begins with a
//! cache that has none of them: for popular ones, which are soon in the cache, and for new ones.

use std::fs::File;
use std::path::Path;

use experiment::settings::{Method, Role};
use experiment::{Experiment, FileError, Point, TrialSpec};
use measure::{Nanos, Pacing, Qps};
use record::TrialRequest;
use record::request::{Engine, Workload};
use trace::population::{self, Collector, Input, Population, QUERIES_PER_VISIT, Synthetic};
use wire::{Namespace, Qtype, QueryTemplate};

use crate::server::query_stream::{CaptureFile, PORTS, Prepared};

/// Name of the file with the clients of a trial.
const POPULATION_FILE: &str = "clients.population";

/// Recording that trials replay, at a rate or with a number of clients.
#[derive(Debug)]
pub(crate) enum Replaying {
    /// A capture, at the rate of the trial.
    Capture(CaptureFile),
    /// A population of clients; the trial gives the number of them.
    Clients(Box<Clients>),
}

/// The clients of the trials of one point.
#[derive(Debug)]
pub(crate) struct Clients {
    origin: Origin,
    seed: u64,
}

/// Where the clients of a search over clients come from.
#[derive(Debug)]
enum Origin {
    /// Clients of a capture or a population.
    Recorded(Population),
    /// Synthetic clients.
    Synthetic(Box<SyntheticOrigin>),
}

/// Synthetic clients: their names, their mean rate, and the share of the queries for popular names.
#[derive(Debug)]
struct SyntheticOrigin {
    namespace: Namespace,
    qtype: Qtype,
    recursion: bool,
    rate: f64,
    popular: u64,
    repeats: f64,
}

impl Replaying {
    /// Returns the recording that the trials of a point replay, with these names and this type for
    /// synthetic clients; `None` if they have names or a query file.
    ///
    /// # Errors
    /// If a file with clients cannot be read, in words.
    pub(crate) fn new(
        point: &Point,
        namespace: Namespace,
        qtype: Qtype,
        stream: Option<&Prepared>,
        seed: u64,
    ) -> Result<Option<Self>, String> {
        let capture = stream.and_then(|stream| stream.capture.clone());
        if point.settings.method != Method::Clients {
            return Ok(capture.map(Replaying::Capture));
        }
        let origin = match capture {
            Some(capture) => Origin::Recorded(read(capture.path())?),
            None => {
                let (w, names) = (&point.settings.workload, point.settings.client_names());
                Origin::Synthetic(Box::new(SyntheticOrigin {
                    namespace,
                    qtype,
                    recursion: point.settings.role != Role::Authoritative,
                    rate: w.client_rate,
                    popular: names.map_or(0, |names| names.popular),
                    repeats: w.repeat_share,
                }))
            }
        };
        Ok(Some(Replaying::Clients(Box::new(Clients { origin, seed }))))
    }

    /// Returns whether each client has an address of its own.
    pub(crate) fn has_clients(&self) -> bool {
        matches!(self, Replaying::Clients(_))
    }

    /// Turns `request` into a replay with the number in `spec`; files are written into `dir`.
    ///
    /// # Errors
    /// If there are fewer clients, or a file cannot be written, in words.
    pub(crate) fn set(
        &self,
        number: Qps,
        request: &mut TrialRequest,
        spec: &TrialSpec,
        dir: &Path,
    ) -> Result<(), String> {
        match self {
            Replaying::Capture(capture) => {
                (request.workload, request.duration) = capture.at(number.get());
                Ok(())
            }
            Replaying::Clients(clients) => clients.set(number, request, spec, dir),
        }
    }
}

impl Clients {
    fn set(
        &self,
        number: Qps,
        request: &mut TrialRequest,
        spec: &TrialSpec,
        dir: &Path,
    ) -> Result<(), String> {
        let population = self.population(number.get().round() as usize, spec)?;
        let path = dir.join(POPULATION_FILE);
        let written = File::create(&path).and_then(|file| population.write(file));
        written.map_err(|e| format!("{}: {e}", path.display()))?;
        // A file that is shorter than a trial is sent again.
        let loops = (spec.duration.0 / population.period().0.max(1)).clamp(1, u32::MAX.into());
        let duration = Nanos(population.period().0 * loops);
        let qps = (population.len() as u64 * loops) as f64 / duration.as_secs_f64();
        request.pacing = Pacing::Constant { rate: Qps::new(qps).unwrap_or(number) };
        request.duration = duration;
        if let Engine::Streams(connecting) = &mut request.engine {
            connecting.clients = population.clients() as u32;
        }
        let (ports, loops) = (PORTS.to_vec(), loops as u32);
        request.workload = Workload::Replay { capture: path, speed: 1.0, ports, loops };
        Ok(())
    }

    /// Returns `count` clients, with queries for the duration of a trial.
    fn population(&self, count: usize, spec: &TrialSpec) -> Result<Population, String> {
        let made = match &self.origin {
            Origin::Recorded(population) => {
                population.clone().with_clients(count.max(1), Some(spec.duration), self.seed)
            }
            Origin::Synthetic(of) => {
                let made = Synthetic {
                    clients: count.max(1),
                    period: spec.duration,
                    rate: of.rate,
                    names: spec.names,
                    popular: of.popular,
                    repeats: of.repeats,
                    seed: self.seed,
                };
                made.population(|number| {
                    let number = (spec.first_name + number) % of.namespace.size();
                    let name = of.namespace.name(of.namespace.nth(number));
                    QueryTemplate::new(&name, of.qtype, of.recursion, false, None).bytes().to_vec()
                })
            }
        };
        made.map_err(|e| e.to_string())
    }
}

/// Checks, before a run, that the clients of a point are enough for its search, and that synthetic
/// clients can be as slow as requested; `file` has the clients if there is one.
///
/// # Errors
/// If a setting of the experiment does not fit; the error names its key.
pub(crate) fn check(
    experiment: &Experiment,
    point: &Point,
    file: Option<&Path>,
) -> Result<(), FileError> {
    let settings = &point.settings;
    let (Some(search), Method::Clients) = (&settings.search, settings.method) else {
        return Ok(());
    };
    let (rate, most) = (settings.workload.client_rate, search.max.get());
    let Some(path) = file else {
        let queries = rate * search.duration.as_secs_f64();
        return if queries < QUERIES_PER_VISIT {
            let why = format!(
                "each client must make at least one visit of {QUERIES_PER_VISIT} queries in a \
                trial, but has {queries:.1} queries in {}: give a higher rate, or longer trials",
                search.duration
            );
            Err(experiment.bad(point, "workload.client-rate", why))
        } else {
            Ok(())
        };
    };
    let population = read(path).map_err(|why| experiment.bad(point, "workload.replay", why))?;
    let found = population.clients_in(search.duration) as f64;
    if found >= most {
        return Ok(());
    }
    let why = format!(
        "{}: slices of {} have {found} clients together, and `max` is {most}: lower it, or give a longer capture",
        path.display(),
        search.duration
    );
    Err(experiment.bad(point, "search.max", why))
}

/// Reads the clients of a capture or a population.
fn read(path: &Path) -> Result<Population, String> {
    match population::open(path).map_err(|e| e.to_string())? {
        Input::Population(population) => Ok(population),
        Input::Capture(mut capture) => {
            let mut collector = Collector::default();
            collector.read(&mut capture, &PORTS).map_err(|e| e.to_string())?;
            Ok(collector.finish().0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use trace::Dns;

    use super::*;

    const TEXT: &str = r#"
name = "x"
title = "x"
role = "dns64"
servers = ["unbound"]
method = "clients"
[workload]
namespace = "10.0.0.0/16"
client-rate = 2.0
[search]
goal = "p99 < 100ms, loss < 0.1%"
start = "100"
min = "10"
max = "1k"
resolution = 0.1
duration = "10s"
"#;

    fn experiment(text: &str) -> Experiment {
        Experiment::parse(text, Path::new("x.toml")).expect("good")
    }

    /// Returns the request and the clients of a trial with so many clients.
    fn trial(replayed: &Replaying, clients: f64, dir: &Path) -> (TrialRequest, Population) {
        let target: SocketAddr = "192.0.2.1:53".parse().expect("an address");
        let pacing = Pacing::Window { outstanding: 1 };
        let workload =
            Workload::Replay { capture: "none".into(), speed: 1.0, ports: Vec::new(), loops: 1 };
        let mut request = TrialRequest::new(target, workload, pacing);
        request.engine = Engine::Streams(Box::default());
        let number = Qps::new(clients).expect("a number");
        let spec = TrialSpec {
            early_stop: true,
            first_name: 65_000,
            names: 20_000,
            ..TrialSpec::new(
                Pacing::Constant { rate: number },
                Nanos::from_secs(10),
                Nanos::from_secs(1),
            )
        };
        replayed.set(number, &mut request, &spec, dir).expect("written");
        let Workload::Replay { capture, .. } = &request.workload else { panic!("{request:?}") };
        let population = read(capture).expect("a population");
        (request, population)
    }

    fn clients_of(request: &TrialRequest) -> u32 {
        let Engine::Streams(connecting) = &request.engine else { panic!("{request:?}") };
        connecting.clients
    }

    #[test]
    fn clients_that_are_made_up_ask_for_names_of_the_namespace() {
        let experiment = experiment(TEXT);
        let point = &experiment.points[0];
        check(&experiment, point, None).expect("two visits each");
        let namespace = Namespace::with_default_zone("10.0.0.0/16".parse().expect("a prefix"));
        let replayed = Replaying::new(point, namespace, Qtype::AAAA, None, 1);
        let replayed = replayed.expect("no file").expect("clients");
        let dir = tempfile::tempdir().expect("a folder");
        let (request, population) = trial(&replayed, 300.0, dir.path());
        assert_eq!((population.clients(), clients_of(&request)), (300, 300));
        let qps = request.pacing.peak_rate().expect("a rate").get();
        assert_eq!(request.duration, Nanos::from_secs(10));
        assert_eq!((qps * 10.0).round() as usize, population.len());
        assert!((400.0..900.0).contains(&qps), "{qps}");
        for query in population.queries() {
            let dns = Dns::read(query.message).expect("a query");
            let question = dns.question.expect("a question");
            assert_eq!(question.qtype, Qtype::AAAA);
            let name = question.name.to_string();
            assert!(name.starts_with("010-000-"), "{name}");
        }
        // Nothing is said of popular names, so that each query is for a new one.
        let messages = |population: &Population| {
            let all: Vec<Vec<u8>> = population.queries().map(|q| q.message.to_vec()).collect();
            all.iter().collect::<std::collections::HashSet<_>>().len()
        };
        assert_eq!(messages(&population), population.len());
        let share = TEXT.replace("client-rate = 2.0", "client-rate = 2.0\nrepeat-share = 0.5");
        let replayed =
            Replaying::new(&self::experiment(&share).points[0], namespace, Qtype::AAAA, None, 1);
        let replayed = replayed.expect("no file").expect("clients");
        let (_, population) = trial(&replayed, 300.0, dir.path());
        let share = messages(&population) as f64 / population.len() as f64;
        assert!((0.5..0.8).contains(&share), "half of the names, and the popular ones: {share}");
    }

    #[test]
    fn clients_of_a_file_are_those_of_its_slices_and_too_many_are_refused_before_the_run() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("made.population");
        let made = Synthetic {
            clients: 50,
            period: Nanos::from_secs(40),
            rate: 2.0,
            names: 100,
            popular: 100,
            repeats: 1.0,
            seed: 3,
        };
        let message = |name: u64| {
            let name = format!("n{name}.dns64perf.test").parse().expect("a name");
            QueryTemplate::new(&name, Qtype::AAAA, true, false, None).bytes().to_vec()
        };
        let population = made.population(message).expect("small");
        let most = population.clients_in(Nanos::from_secs(10));
        population.write(File::create(&path).expect("a file")).expect("written");
        let origin = Origin::Recorded(read(&path).expect("a population"));
        let replayed = Replaying::Clients(Box::new(Clients { origin, seed: 1 }));
        let (request, slices) = trial(&replayed, 120.0, dir.path());
        assert_eq!((slices.clients(), clients_of(&request)), (120, 120));
        assert_eq!(request.duration, Nanos::from_secs(10));
        let of =
            |max: usize| experiment(&TEXT.replace("max = \"1k\"", &format!("max = \"{max}\"")));
        let good = of(most);
        check(&good, &good.points[0], Some(&path)).expect("as many as there are");
        let bad = of(most + 1);
        let error = check(&bad, &bad.points[0], Some(&path)).expect_err("too many").to_string();
        assert!(error.starts_with("x.toml:14:7: ") && error.contains("lower it"), "{error}");
        let slow = experiment(&TEXT.replace("client-rate = 2.0", "client-rate = 0.2"));
        let error = check(&slow, &slow.points[0], None).expect_err("two queries").to_string();
        assert!(error.contains("at least one visit of 5 queries"), "{error}");
    }
}
