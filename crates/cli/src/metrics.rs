//! `dnsdyno run --metrics`: how a run goes on, for Prometheus.
//!
//! The lab lives in a network namespace of its own, where nobody would find an address. So the listener is opened
//! before the lab is entered and lives on over the program's second start, told by a variable.
//!
//! ```text
//!   outer process: Listener::open ──> lab::enter_with(variable) ──> inner process: Listener::open
//!                                                                     └─> Metrics::serve, see(event) ...
//! ```

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, anyhow};
use experiment::Found;
use lab::Event;
use measure::Nanos;
use net::scrape::{self, Exposition, Kind, Page};
use record::{CellRecord, Plan, Trial};

use crate::failure::Failure;

/// Tells the inner process which descriptor the listener is.
const VARIABLE: &str = "DNSDYNO_METRICS_FD";

/// The listener, before the lab is entered and after.
pub(crate) enum Listener {
    /// Left open for the inner process: its descriptor.
    Bequeathed(i32),
    /// Taken over.
    Inherited(TcpListener),
}

impl Listener {
    /// Opens the listener at `address`, or takes over the one that the outer process has opened.
    pub(crate) fn open(address: SocketAddr) -> Result<Self, Failure> {
        if let Some(fd) = std::env::var_os(VARIABLE) {
            let fd = fd.to_str().and_then(|fd| fd.parse().ok());
            let listener = fd.and_then(|fd| scrape::inherit(fd).ok());
            return listener.map(Listener::Inherited).ok_or_else(|| {
                Failure::input(anyhow!("{VARIABLE} is set, but not by dnsdyno: unset it"))
            });
        }
        let listener = TcpListener::bind(address)
            .with_context(|| format!("--metrics {address}: cannot listen there"))
            .map_err(Failure::BadInput)?;
        if let Ok(address) = listener.local_addr() {
            eprintln!("metrics: http://{address}/metrics");
        }
        scrape::bequeath(listener).map(Listener::Bequeathed).map_err(Failure::run)
    }

    /// The variables that tell the inner process of it.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Listener::Bequeathed(fd) => vec![(VARIABLE, fd.to_string())],
            Listener::Inherited(_) => Vec::new(),
        }
    }
}

/// How the run goes on.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Mutex<State>>);

struct State {
    began: Instant,
    plan: Plan,
    visits: (usize, usize),
    /// How long the rest takes, as it was expected then.
    remaining: (Nanos, Instant),
    certified_qps: f64,
    skipped: u64,
    cells: BTreeMap<Labels, Cell>,
    current: Option<Labels>,
}

/// The labels of a cell: the server, and its settings.
type Labels = Vec<(String, String)>;

/// What is known of a cell.
#[derive(Default)]
struct Cell {
    trials: u64,
    void: u64,
    sent: u64,
    answered: u64,
    valid: u64,
    lost: u64,
    last: Option<Box<Trial>>,
    capacity_qps: Option<f64>,
    figures: BTreeMap<(String, String), f64>,
}

fn labels(cell: &CellRecord) -> Labels {
    // Letters, digits and underscores are what a label's name may have.
    let word = |key: &str| {
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>()
    };
    let settings =
        cell.settings.iter().map(|(key, value)| (format!("setting_{}", word(key)), value.clone()));
    std::iter::once(("server".to_owned(), cell.server.clone())).chain(settings).collect()
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Metrics(Arc::new(Mutex::new(State {
            began: now,
            plan: Plan::default(),
            visits: (0, 0),
            remaining: (Nanos::ZERO, now),
            certified_qps: 0.0,
            skipped: 0,
            cells: BTreeMap::new(),
            current: None,
        })))
    }

    /// Answers on the listener that came over, in a thread of its own, as long as the process lives.
    pub(crate) fn serve(listener: Option<Listener>) -> Result<Self, Failure> {
        let metrics = Metrics::new();
        let Some(Listener::Inherited(listener)) = listener else { return Ok(metrics) };
        let shown = metrics.clone();
        let page = move |path: &str| {
            (path == "/metrics").then(|| Page { ok: true, text: shown.state().text() })
        };
        std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                if let Err(e) = scrape::serve(listener, page, std::future::pending()) {
                    eprintln!("dnsdyno: the metrics ended: {e}");
                }
            })
            .map_err(Failure::run)?;
        Ok(metrics)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what happened.
    pub(crate) fn see(&self, event: &Event<'_>) {
        let mut state = self.state();
        match event {
            Event::Begun(plan) => state.plan = (*plan).clone(),
            Event::Certified(certificate) => state.certified_qps = certificate.certified_qps,
            Event::Planned(cells, expected) => {
                state.remaining = (*expected, Instant::now());
                state.cells.extend(cells.iter().map(|cell| (labels(cell), Cell::default())));
            }
            Event::Visit { cell, number: (number, of), remaining, .. } => {
                state.visits = (number.saturating_sub(1), *of);
                state.remaining = (*remaining, Instant::now());
                state.current = Some(labels(cell));
            }
            Event::Trial(cell, record) => {
                let cell = state.cells.entry(labels(cell)).or_default();
                let trial = &record.trial;
                cell.trials += 1;
                cell.void += u64::from(trial.void.is_void());
                cell.sent += trial.sent;
                cell.answered += trial.answered;
                cell.valid += trial.valid;
                cell.lost += trial.lost;
                cell.last = Some(Box::new(trial.clone()));
            }
            Event::Visited { cell, found, .. } => {
                state.visits.0 = (state.visits.0 + 1).min(state.visits.1);
                state.current = None;
                let cell = state.cells.entry(labels(cell)).or_default();
                match found {
                    Found::Capacity(capacity) => cell.capacity_qps = capacity.qps,
                    Found::Figures(figures) => cell.figures.extend(
                        figures
                            .iter()
                            .map(|(name, unit, v)| ((name.to_string(), unit.to_string()), *v)),
                    ),
                }
            }
            Event::Skipped(_) => state.skipped += 1,
            Event::SelfTest
            | Event::SelfTestTrial(_)
            | Event::Serving(..)
            | Event::Forgotten(..)
            | Event::Kept(_) => {}
        }
    }
}

/// A metric of a cell: its name, what it is, what it means, and its value where it has one.
type OfCell = (&'static str, Kind, &'static str, fn(&Cell) -> Option<f64>);

/// The metrics of cells.
const OF_CELLS: [OfCell; 11] = [
    ("trials_total", Kind::Counter, "Trials that ended.", |c| Some(c.trials as f64)),
    ("void_trials_total", Kind::Counter, "Trials that say nothing.", |c| Some(c.void as f64)),
    ("queries_total", Kind::Counter, "Queries sent.", |c| Some(c.sent as f64)),
    ("answers_total", Kind::Counter, "Replies in time.", |c| Some(c.answered as f64)),
    ("valid_answers_total", Kind::Counter, "Valid replies in time.", |c| Some(c.valid as f64)),
    ("lost_queries_total", Kind::Counter, "Queries without a reply in time.", |c| {
        Some(c.lost as f64)
    }),
    ("capacity_qps", Kind::Gauge, "What the last search found.", |c| c.capacity_qps),
    ("trial_offered_qps", Kind::Gauge, "Sent per second in the last trial.", |c| {
        c.last.as_ref().map(|t| t.offered_qps)
    }),
    ("trial_answered_qps", Kind::Gauge, "Answered in time per second in the last trial.", |c| {
        c.last.as_ref().map(|t| t.answered_qps)
    }),
    ("trial_passed", Kind::Gauge, "Whether the last trial met its goal.", |c| {
        c.last.as_ref()?.passed.map(|passed| f64::from(u8::from(passed)))
    }),
    ("trial_schedule_error_p99_seconds", Kind::Gauge, "How late queries left.", |c| {
        c.last.as_ref().map(|t| t.schedule_error_us.p99 / 1e6)
    }),
];

impl State {
    /// All metrics.
    fn text(&self) -> String {
        let mut out = Exposition::default();
        out.family("dnsdyno_run_info", Kind::Gauge, "The run.");
        let info = [("experiment", &*self.plan.experiment), ("version", &*self.plan.version)];
        out.sample("dnsdyno_run_info", &info, 1.0);
        let (expected, then) = self.remaining;
        let remaining = (expected.as_secs_f64() - then.elapsed().as_secs_f64()).max(0.0);
        for (name, help, value) in [
            ("elapsed_seconds", "Since the run began.", self.began.elapsed().as_secs_f64()),
            ("remaining_seconds", "How long the rest is expected to take.", remaining),
            ("visits_planned", "Visits of cells that are planned.", self.visits.1 as f64),
            ("visits_done", "Visits of cells that are done.", self.visits.0 as f64),
            ("certified_qps", "The rate that servers may be judged up to.", self.certified_qps),
            ("skipped", "Cells that were not measured.", self.skipped as f64),
        ] {
            out.single(&format!("dnsdyno_{name}"), Kind::Gauge, help, value);
        }
        if let Some(current) = &self.current {
            out.family("dnsdyno_visiting", Kind::Gauge, "The cell that is being measured.");
            out.sample("dnsdyno_visiting", &borrowed(current), 1.0);
        }
        for (name, kind, help, value) in OF_CELLS {
            let name = format!("dnsdyno_{name}");
            out.family(&name, kind, help);
            for (labels, cell) in &self.cells {
                if let Some(value) = value(cell) {
                    out.sample(&name, &borrowed(labels), value);
                }
            }
        }
        self.of_roles(&mut out);
        out.finish()
    }

    /// What has a label of its own beside the cell's.
    fn of_roles(&self, out: &mut Exposition) {
        let last = || self.cells.iter().filter_map(|(l, c)| Some((l, c.last.as_ref()?)));
        let latency = "dnsdyno_trial_latency_seconds";
        out.family(latency, Kind::Gauge, "From due to reply in the last trial.");
        for (labels, trial) in last() {
            let t = &trial.latency_us;
            for (quantile, us) in
                [("0.5", t.p50), ("0.9", t.p90), ("0.99", t.p99), ("0.999", t.p999), ("1", t.max)]
            {
                let mut labels = borrowed(labels);
                labels.push(("quantile", quantile));
                out.sample(latency, &labels, us / 1e6);
            }
        }
        let busy = "dnsdyno_trial_cpu_busy_ratio";
        out.family(busy, Kind::Gauge, "The busy share of a role's cores in the last trial.");
        for (labels, trial) in last() {
            for (role, cpu) in &trial.cpu {
                let mut labels = borrowed(labels);
                labels.push(("role", role));
                out.sample(busy, &labels, cpu.busy);
            }
        }
        let figure = "dnsdyno_figure";
        out.family(figure, Kind::Gauge, "What the last visit found.");
        for (labels, cell) in &self.cells {
            for ((name, unit), value) in &cell.figures {
                let mut labels = borrowed(labels);
                labels.extend([("figure", &**name), ("unit", &**unit)]);
                out.sample(figure, &labels, *value);
            }
        }
    }
}

fn borrowed(labels: &Labels) -> Vec<(&str, &str)> {
    labels.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[cfg(test)]
mod tests {
    use record::TrialRecord;

    use super::*;

    #[test]
    fn a_run_as_prometheus_sees_it() {
        let metrics = Metrics::new();
        let settings = [("cores".to_owned(), "2".to_owned()), ("template.x-y".into(), "a".into())];
        let cell = CellRecord::new("unbound", settings.into(), "search");
        let mut trial: Trial =
            serde_json::from_str(include_str!("../../record/tests/fixtures/trial.json"))
                .expect("a trial");
        trial.passed = Some(false);
        let record = TrialRecord { repeat: 0, rate_qps: 8_000.0, trial };
        let plan = Plan { experiment: "an \"odd\" name".into(), ..Plan::default() };
        let figures = Found::Figures(vec![("zone_load".into(), "s", 1.5)]);
        for event in [
            Event::Begun(&plan),
            Event::Planned(std::slice::from_ref(&cell), Nanos::from_secs(60)),
            Event::Visit {
                cell: &cell,
                repeat: 0,
                number: (1, 2),
                remaining: Nanos::from_secs(60),
            },
            Event::Trial(&cell, &record),
            Event::Trial(&cell, &record),
        ] {
            metrics.see(&event);
        }
        let text = metrics.state().text();
        let place = "{server=\"unbound\",setting_cores=\"2\",setting_template_x_y=\"a\"}";
        for line in [
            "dnsdyno_run_info{experiment=\"an \\\"odd\\\" name\",version=\"\"} 1".to_owned(),
            format!("dnsdyno_visiting{place} 1"),
            format!("dnsdyno_trials_total{place} 2"),
            format!("dnsdyno_queries_total{place} {}", 2 * record.trial.sent),
            format!("dnsdyno_trial_passed{place} 0"),
            "dnsdyno_visits_done 0".to_owned(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        metrics.see(&Event::Visited { cell: &cell, repeat: (0, 1), found: &figures });
        let text = metrics.state().text();
        assert!(text.contains("figure=\"zone_load\",unit=\"s\"} 1.5\n"), "{text}");
        assert!(text.contains("dnsdyno_visits_done 1\n") && !text.contains("dnsdyno_visiting"));
        let remaining = text.lines().find_map(|l| l.strip_prefix("dnsdyno_remaining_seconds "));
        assert!(remaining.and_then(|s| s.parse::<f64>().ok()).is_some_and(|s| s <= 60.0));
    }
}
