//! The state of a run as metrics for Prometheus (docs/metrics.md).

use measure::exposition::{Exposition, MetricKind};

use super::state::{CurrentTrial, Labels, LiveCell, State};

/// A metric of a cell: its name, kind, description, and its value if it has one.
type OfCell = (&'static str, MetricKind, &'static str, fn(&LiveCell) -> Option<f64>);

/// Metrics that each cell has a sample of.
const OF_CELLS: [OfCell; 12] = [
    ("trials_total", MetricKind::Counter, "Trials that ended.", |c| Some(c.trials as f64)),
    ("void_trials_total", MetricKind::Counter, "Void trials, no evidence on the server.", |c| {
        Some(c.void as f64)
    }),
    ("queries_total", MetricKind::Counter, "Queries sent.", |c| Some(c.sent as f64)),
    ("answers_total", MetricKind::Counter, "Replies in time.", |c| Some(c.answered as f64)),
    ("valid_answers_total", MetricKind::Counter, "Valid replies in time.", |c| {
        Some(c.valid as f64)
    }),
    ("lost_queries_total", MetricKind::Counter, "Queries without a reply in time.", |c| {
        Some(c.lost as f64)
    }),
    ("capacity_qps", MetricKind::Gauge, "Capacity that the last search found.", |c| c.capacity_qps),
    ("trial_offered_qps", MetricKind::Gauge, "Sent per second in the last trial.", |c| {
        c.last.as_ref().map(|t| t.offered_qps)
    }),
    (
        "trial_answered_qps",
        MetricKind::Gauge,
        "Answered in time per second in the last trial.",
        |c| c.last.as_ref().map(|t| t.answered_qps),
    ),
    (
        "trial_late_answers",
        MetricKind::Gauge,
        "Replies after the timeout in the last trial.",
        |c| c.last.as_ref().map(|t| t.late as f64),
    ),
    ("trial_passed", MetricKind::Gauge, "Whether the last trial met its goal.", |c| {
        c.last.as_ref()?.passed.map(|passed| f64::from(u8::from(passed)))
    }),
    ("trial_schedule_error_p99_seconds", MetricKind::Gauge, "How late queries left.", |c| {
        c.last.as_ref().map(|t| t.schedule_error_us.p99 / 1e6)
    }),
];

/// Returns the metrics of a run as a page.
pub fn metrics(state: &State) -> String {
    let mut out = Exposition::default();
    // There is no plan until the host has been examined.
    if !state.plan.experiment.is_empty() {
        out.family("dnsdyno_run_info", MetricKind::Gauge, "The run.");
        let info = [("experiment", &*state.plan.experiment), ("version", &*state.plan.version)];
        out.sample("dnsdyno_run_info", &info, 1.0);
    }
    let (sent, valid) = state.trial.as_ref().map_or((0.0, 0.0), CurrentTrial::rate);
    for (name, help, value) in [
        ("elapsed_seconds", "Time since the run began.", state.now.as_secs_f64()),
        ("remaining_seconds", "Expected time until the run ends.", state.remaining_s()),
        ("visits_planned", "Visits of cells that are planned.", state.visits.1 as f64),
        ("visits_done", "Visits of cells that are done.", state.visits.0 as f64),
        (
            "certified_qps",
            "The highest rate for which the Tester is certified.",
            state.certified_qps,
        ),
        ("skipped", "Cells that were not measured.", state.skipped as f64),
        ("running_sent_qps", "Sent per second in the running trial.", sent),
        ("running_valid_qps", "Valid answers per second in the running trial.", valid),
    ] {
        out.single(&format!("dnsdyno_{name}"), MetricKind::Gauge, help, value);
    }
    if let Some(current) = &state.current {
        out.family("dnsdyno_visiting", MetricKind::Gauge, "The cell that is being measured.");
        out.sample("dnsdyno_visiting", &borrowed(current), 1.0);
    }
    for (name, kind, help, value) in OF_CELLS {
        let name = format!("dnsdyno_{name}");
        out.family(&name, kind, help);
        for (labels, cell) in &state.cells {
            if let Some(value) = value(cell) {
                out.sample(&name, &borrowed(labels), value);
            }
        }
    }
    role_metrics(state, &mut out);
    out.finish()
}

/// Adds the metrics with a further label: the quantile of a latency, the role of a CPU share, the name of a figure.
fn role_metrics(state: &State, out: &mut Exposition) {
    let last = || state.cells.iter().filter_map(|(l, c)| Some((l, c.last.as_ref()?)));
    let latency = "dnsdyno_trial_latency_seconds";
    out.family(latency, MetricKind::Gauge, "Latency from due time to reply in the last trial.");
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
    out.family(busy, MetricKind::Gauge, "The busy share of a role's cores in the last trial.");
    for (labels, trial) in last() {
        for (role, cpu) in &trial.cpu {
            let mut labels = borrowed(labels);
            labels.push(("role", role));
            out.sample(busy, &labels, cpu.busy);
        }
    }
    let figure = "dnsdyno_figure";
    out.family(figure, MetricKind::Gauge, "Figures of the last visit.");
    for (labels, cell) in &state.cells {
        for ((name, unit), value) in &cell.figures {
            let mut labels = borrowed(labels);
            labels.extend([("figure", &**name), ("unit", &**unit)]);
            out.sample(figure, &labels, *value);
        }
    }
}

fn borrowed(labels: &Labels) -> Vec<(&str, &str)> {
    labels.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[cfg(test)]
mod tests {
    use measure::Nanos;
    use record::{CellRecord, Plan, TrialRecord};

    use super::super::VisitProgress;
    use super::*;

    #[test]
    fn a_run_as_prometheus_sees_it() {
        let mut state = State::default();
        let settings = [("cores".to_owned(), "2".to_owned()), ("template.x-y".into(), "a".into())];
        let cell = CellRecord::new("unbound", settings.into(), "search");
        let mut trial = crate::tests::trial();
        trial.passed = Some(false);
        let plan = Plan { experiment: "an \"odd\" name".into(), ..Plan::default() };
        assert!(!metrics(&state).contains("run_info"), "nothing is planned yet");
        state.begun(&plan);
        state.planned(std::slice::from_ref(&cell), Nanos::from_secs(60));
        state.visit(&cell, 0, VisitProgress { number: 1, of: 2, remaining: Nanos::from_secs(60) });
        let record = TrialRecord { repeat: 0, rate_qps: 1e3, trial: trial.clone() };
        state.trial(&cell, &record);
        state.trial(&cell, &record);
        let text = metrics(&state);
        let place = "{server=\"unbound\",setting_cores=\"2\",setting_template_x_y=\"a\"}";
        for line in [
            "dnsdyno_run_info{experiment=\"an \\\"odd\\\" name\",version=\"\"} 1".to_owned(),
            format!("dnsdyno_visiting{place} 1"),
            format!("dnsdyno_trials_total{place} 2"),
            format!("dnsdyno_queries_total{place} {}", 2 * trial.sent),
            format!("dnsdyno_trial_late_answers{place} {}", trial.late),
            format!("dnsdyno_trial_passed{place} 0"),
            "dnsdyno_visits_done 0".to_owned(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        state.now = Nanos::from_secs(10);
        state.visited();
        state.figures(&cell, &[("zone_load".into(), "s", 1.5)]);
        let text = metrics(&state);
        assert!(text.contains("figure=\"zone_load\",unit=\"s\"} 1.5\n"), "{text}");
        let list = include_str!("../../../cli/tests/tables/stable.txt");
        let stored = list.lines().find_map(|line| line.strip_prefix("metric dnsdyno: "));
        let stored = stored.expect("a list");
        let gone = |text: &str| -> Vec<&str> {
            let is_gone = |name: &&str| !text.contains(&format!("# TYPE {name} "));
            stored.split(' ').filter(is_gone).collect()
        };
        // Nothing is visited any more.
        assert_eq!(gone(&text), ["dnsdyno_visiting"], "breaks docs/stability.md: {text}");
        let renamed = text.replace("dnsdyno_trials_total", "dnsdyno_trials_ended");
        assert_eq!(gone(&renamed), ["dnsdyno_trials_total", "dnsdyno_visiting"]);
        assert!(text.contains("dnsdyno_visits_done 1\n") && !text.contains("dnsdyno_visiting"));
        assert!(text.lines().any(|l| l == "dnsdyno_remaining_seconds 50"), "{text}");
    }
}
