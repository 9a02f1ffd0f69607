//! Runs as tables of comma-separated values (RFC 4180), for spreadsheets and statistics programs.
//!
//! Each row names its cell: the run, the experiment, the server and its version, and a column `setting.NAME` for each
//! setting that any cell of the run has. Units are part of the column names, or have a column of
//! their own. Repeats count from 1.

use std::collections::BTreeSet;
use std::io::Write;

use measure::Warning;

use crate::compact::significant;
use crate::{CellRecord, Run, Trial, TrialRecord};

/// A table of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One row for each cell.
    Cells,
    /// One row for each trial.
    Trials,
    /// One row for each value of each figure; the capacity of each search is a figure.
    Figures,
    /// One row for each sample of each series.
    Series,
    /// One row for each experiment of 256 queries of each lock-step load.
    Experiments,
}

/// Writes `table` of `run` to `out`.
///
/// # Errors
/// The errors of `out`.
pub fn write_csv(run: &Run, table: Table, out: impl Write) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(out);
    let keys: BTreeSet<&str> =
        run.results.iter().flat_map(|c| c.settings.keys().map(String::as_str)).collect();
    let names = |row: Row| row.into_iter().map(|(name, _)| name).collect();
    let columns: Vec<&str> = match table {
        Table::Cells => names(cell_row(&CellRecord::default())),
        Table::Trials => {
            let (repeat, rate_qps, trial) = (0, 0.0, Trial::default());
            let record = TrialRecord { repeat, rate_qps, trial };
            names(trial_row(&CellRecord::default(), &record))
        }
        Table::Figures => FIGURES.to_vec(),
        Table::Series => SERIES.to_vec(),
        Table::Experiments => EXPERIMENTS.to_vec(),
    };
    let place = ["run", "experiment", "server", "server_version"].map(str::to_owned).into_iter();
    let place = place.chain(keys.iter().map(|key| format!("setting.{key}")));
    writer.write_record(place.chain(columns.iter().map(|c| (*c).to_owned())))?;
    for cell in &run.results {
        let place = place_of(run, cell, &keys);
        let values = |row: Row| row.into_iter().map(|(_, value)| value).collect();
        let rows = match table {
            Table::Cells => vec![values(cell_row(cell))],
            Table::Trials => cell.trials.iter().map(|t| values(trial_row(cell, t))).collect(),
            Table::Figures => figure_rows(cell),
            Table::Series => series_rows(cell),
            Table::Experiments => experiment_rows(cell),
        };
        for row in rows {
            debug_assert_eq!(row.len(), columns.len(), "{table:?}");
            writer.write_record(place.iter().chain(&row))?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn place_of(run: &Run, cell: &CellRecord, keys: &BTreeSet<&str>) -> Vec<String> {
    let mut place = vec![
        or_empty(run.id),
        run.plan.experiment.clone(),
        cell.server.clone(),
        cell.server_version.clone().unwrap_or_default(),
    ];
    place.extend(keys.iter().map(|key| cell.settings.get(*key).cloned().unwrap_or_default()));
    place
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

/// Writes a number with six significant digits, or as a whole one.
pub fn six_digits(value: f64) -> String {
    let rounded = if value.abs() < 1e6 { significant(value, 6) } else { value.round() };
    rounded.to_string()
}

/// Writes a number that may be missing.
fn some_digits(value: Option<f64>) -> String {
    value.map_or(String::new(), six_digits)
}

/// Names of columns, each with its value.
type Row = Vec<(&'static str, String)>;

fn cell_row(c: &CellRecord) -> Row {
    let found = c.capacity.as_ref();
    let mut row = vec![
        ("method", c.method.clone()),
        ("median_qps", some_digits(c.median_qps.or(found.map(|found| found.qps)))),
        ("p01_qps", some_digits(c.p01_qps)),
        ("p99_qps", some_digits(c.p99_qps)),
        ("at_least", (c.at_least || c.is_bound()).to_string()),
        ("repeats", c.repeats.to_string()),
        ("conforming", c.conforming.to_string()),
        ("limiter", c.limiter.word().to_owned()),
        ("goal", c.goal.clone()),
        ("certified_qps", some_digits(c.certificate.as_ref().map(|c| c.certified_qps))),
        ("trials", c.trials.len().to_string()),
        ("engine", or_empty(c.engine())),
        ("basis", or_empty(found.map(|found| found.basis))),
    ];
    row.extend(capacity_numbers(c).map(|(name, value)| (name, some_digits(value))));
    row
}

/// Returns the numbers of a capacity of rounds by the names of their columns; none in other cells.
pub fn capacity_numbers(c: &CellRecord) -> [(&'static str, Option<f64>); 7] {
    let (found, ratio) = (c.capacity.as_ref(), c.ratio.as_ref());
    [
        ("capacity_qps", found.map(|found| found.qps)),
        ("capacity_low_qps", found.map(|found| found.low_qps)),
        ("capacity_high_qps", found.map(|found| found.high_qps)),
        ("ratio", ratio.map(|ratio| ratio.value)),
        ("ratio_low", ratio.map(|ratio| ratio.low)),
        ("ratio_high", ratio.map(|ratio| ratio.high)),
        ("rounds", found.map(|found| f64::from(found.rounds))),
    ]
}

/// Returns what a trial is for in its cell: a step of a search, a load at given rates, the closed
/// loop of a round, or another one.
fn kind(cell: &CellRecord, t: &Trial) -> &'static str {
    match (cell.method.as_str(), t.conditions.pacing.is_open_loop()) {
        ("search", _) => "search",
        (_, true) => "load",
        ("capacity", false) => "loop",
        (_, false) => "window",
    }
}

fn trial_row(cell: &CellRecord, record: &TrialRecord) -> Row {
    let t = &record.trial;
    let busy = |role: &str| some_digits(t.cpu.get(role).map(|cpu| cpu.busy));
    let (dut, latency, drops) = (t.cpu.get("dut"), &t.latency_us, &t.drops);
    let (started, pacing) = (t.conditions.started_unix_s, t.conditions.pacing.get());
    let warnings: Vec<String> = t.warnings.iter().map(Warning::with_advice).collect();
    vec![
        ("method", cell.method.clone()),
        ("repeat", (record.repeat + 1).to_string()),
        ("rate_qps", six_digits(record.rate_qps)),
        ("started_unix_s", or_empty(started.map(|s| (s * 1e3).round() / 1e3))),
        ("duration_s", six_digits(t.duration_s)),
        ("planned", t.planned.to_string()),
        ("sent", t.sent.to_string()),
        ("answered", t.answered.to_string()),
        ("valid", t.valid.to_string()),
        ("invalid", t.invalid.values().sum::<u64>().to_string()),
        ("late", t.late.to_string()),
        ("lost", t.lost.to_string()),
        ("duplicates", t.duplicates.to_string()),
        ("unexpected", t.unexpected.to_string()),
        ("unresolved", t.unresolved.to_string()),
        ("offered_qps", six_digits(t.offered_qps)),
        ("answered_qps", six_digits(t.replies_qps())),
        ("latency_p50_us", six_digits(latency.p50)),
        ("latency_p90_us", six_digits(latency.p90)),
        ("latency_p99_us", six_digits(latency.p99)),
        ("latency_p999_us", six_digits(latency.p999)),
        ("latency_max_us", six_digits(latency.max)),
        ("latency_mean_us", six_digits(latency.mean)),
        ("schedule_error_p99_us", six_digits(t.schedule_error_us.p99)),
        ("schedule_error_max_us", six_digits(t.schedule_error_us.max)),
        // The rounds of a capacity are judged together.
        (
            "limiter",
            if cell.method == "capacity" { String::new() } else { t.limiter.word().to_owned() },
        ),
        ("void", or_empty(t.void.0.as_ref())),
        ("passed", or_empty(t.passed)),
        ("stopped_early", t.stopped_early.to_string()),
        ("tester_busy", busy("tester")),
        ("authdns_busy", busy("authdns")),
        ("dut_busy", busy("dut")),
        ("dut_user_s", some_digits(dut.map(|cpu| cpu.user_s))),
        ("dut_system_s", some_digits(dut.map(|cpu| cpu.system_s))),
        ("tester_receive_drops", drops.tester_receive.to_string()),
        ("authdns_receive_drops", drops.authdns_receive.to_string()),
        ("dut_receive_drops", drops.dut_receive.to_string()),
        ("link_drops", drops.link.to_string()),
        ("transport", t.conditions.transport.clone()),
        ("warnings", warnings.join("; ")),
        ("engine", or_empty(t.conditions.engine)),
        ("dut_not_taken", drops.dut_not_taken.to_string()),
        ("kind", kind(cell, t).to_owned()),
        ("window", or_empty(pacing.and_then(|pacing| pacing.outstanding()))),
        ("valid_while_sending", or_empty(t.valid_while_sending)),
        ("spent_s", some_digits(dut.and_then(|cpu| cpu.spent_s))),
    ]
}

const FIGURES: [&str; 4] = ["figure", "unit", "repeat", "value"];

fn figure_rows(cell: &CellRecord) -> Vec<Vec<String>> {
    let row = &|figure: &str, unit: &str, repeat: usize, value: f64| {
        vec![figure.to_owned(), unit.to_owned(), (repeat + 1).to_string(), six_digits(value)]
    };
    let capacities = cell.capacities.iter().enumerate();
    let capacities =
        capacities.filter_map(|(i, c)| Some(row("capacity", cell.capacity_unit(), i, c.qps?)));
    let figures = cell.figures.iter().flat_map(|(name, figure)| {
        figure.values.iter().enumerate().map(|(i, v)| row(name, &figure.unit, i, *v))
    });
    // The number in the name distinguishes two secondaries of the same kind: `secondary 2 nsd:
    // axfr`.
    let secondaries = (1..).zip(&cell.secondaries).flat_map(|(number, secondary)| {
        secondary.figures.iter().flat_map(move |(name, figure)| {
            let name = format!("secondary {number} {}: {name}", secondary.server);
            let values = figure.values.iter().enumerate();
            values.map(move |(i, v)| row(&name, &figure.unit, i, *v))
        })
    });
    capacities.chain(figures).chain(secondaries).collect()
}

const EXPERIMENTS: [&str; 3] = ["repeat", "experiment", "time_ms"];

/// Returns the times of the experiments of lock-step loads; experiments are numbered from 0.
fn experiment_rows(cell: &CellRecord) -> Vec<Vec<String>> {
    let rows = |record: &TrialRecord| -> Vec<Vec<String>> {
        let times = record.trial.experiment_times_ms.iter().enumerate();
        let repeat = (record.repeat + 1).to_string();
        times.map(|(i, ms)| vec![repeat.clone(), i.to_string(), six_digits(*ms)]).collect()
    };
    cell.trials.iter().flat_map(rows).collect()
}

const SERIES: [&str; 6] = ["trial", "rate_qps", "series", "unit", "at_s", "value"];

/// Returns the series of the cell, then of its trials, numbered from 0: the Measurer's counts of
/// each second and the samples of the probes.
fn series_rows(cell: &CellRecord) -> Vec<Vec<String>> {
    let row = |trial: Option<(usize, f64)>, name: &str, unit: &str, at: f64, value: f64| {
        vec![
            or_empty(trial.map(|(i, _)| i)),
            some_digits(trial.map(|(_, rate)| rate)),
            name.to_owned(),
            unit.to_owned(),
            six_digits(at),
            six_digits(value),
        ]
    };
    let of = |trial, series: &[crate::Series]| -> Vec<Vec<String>> {
        let samples = series.iter().flat_map(|s| s.samples.iter().map(move |sample| (s, sample)));
        samples.map(|(s, (at, value))| row(trial, &s.name, &s.unit, *at, *value)).collect()
    };
    let mut rows = of(None, &cell.series);
    for (i, record) in cell.trials.iter().enumerate() {
        let trial = Some((i, record.rate_qps));
        for (at, second) in record.trial.series.iter().enumerate() {
            for (name, count) in [("tester.sent", second.sent), ("tester.valid", second.valid)] {
                rows.push(row(trial, name, "1/s", at as f64, count as f64));
            }
        }
        rows.extend(of(trial, &record.trial.probes));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Basis, CapacityRatio, ServerCapacity};

    #[test]
    fn a_capacity_has_its_columns_and_numbers_have_six_digits() {
        let mut cell = CellRecord::new("nsd", [].into(), "capacity");
        let (baseline, value, low, high) = ("bind9".to_owned(), 2.0, 1.9, 2.123_456_7);
        cell.ratio = Some(CapacityRatio { baseline, value, low, high });
        cell.capacity = Some(ServerCapacity {
            qps: 13_039.606_992,
            low_qps: 12_526.0,
            high_qps: 13_654.0,
            basis: Basis::Saturated,
            rounds: 24,
            ..ServerCapacity::default()
        });
        let trial = Trial { offered_qps: 5_808.888_888_888_889, ..Trial::default() };
        cell.trials = vec![TrialRecord { repeat: 0, rate_qps: 1.0, trial }];
        let run = Run { results: vec![cell], ..Run::default() };
        let of = |table, head: &str| {
            let mut out = Vec::new();
            write_csv(&run, table, &mut out).expect("in memory");
            let mut reader = csv::Reader::from_reader(&out[..]);
            let heads = reader.headers().expect("a header").clone();
            let at = heads.iter().position(|name| name == head).expect(head);
            reader.records().next().expect("a row").expect("valid")[at].to_owned()
        };
        for (table, head, wanted) in [
            (Table::Cells, "capacity_qps", "13039.6"),
            (Table::Cells, "median_qps", "13039.6"),
            (Table::Cells, "capacity_high_qps", "13654"),
            (Table::Cells, "ratio_high", "2.12346"),
            (Table::Cells, "basis", "saturated"),
            (Table::Cells, "rounds", "24"),
            (Table::Trials, "repeat", "1"),
            (Table::Trials, "offered_qps", "5808.89"),
        ] {
            assert_eq!(of(table, head), wanted, "{head}");
        }
        let digits = [0.0, 0.001_234_567_8, 1_796_067_330.3].map(six_digits);
        assert_eq!(digits, ["0", "0.00123457", "1796067330"]);
    }
}
