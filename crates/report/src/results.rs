//! The table of results: a row for each cell, with its capacity or its figures, and its limiter.

use measure::stats;
use record::{
    Basis, CellRecord, Figure, LoadPoint, Round, Run, Secondary, Seen, ServerCapacity, StreamDemand,
};

use crate::table::{Field, Table};
use crate::view::conditions::Conditions;
use crate::view::limiter::{limiter_names, proofs};
use crate::view::name::{figure_name, repeats, server_name, short_name};
use crate::view::number::range;
use crate::view::search::{
    at_rate, each_search, latency_rate, latency_us, of_udp, rate, sustained,
};
use crate::view::table::{figure_order, varied};
use crate::view::unit::Unit;
use crate::view::{thousands, time_us};

/// Name of the figure whose value is a capacity of rounds of a cell: a trimmed mean.
pub(crate) const CAPACITY: &str = "capacity";
/// Confidence of the intervals of medians.
const CONFIDENCE: f64 = 0.95;

/// Largest number of searches that are named one by one; of more the lowest and the highest.
const MAX_NAMED_SEARCHES: usize = 3;

/// Share of late departures from which on it is shown next to a latency: half of the share above
/// the 99th percentile.
const MIN_LATE_SHARE: f64 = 0.005;

/// Shares of the capacity whose latencies are columns.
const SHOWN_LOADS: [f64; 2] = [0.5, 1.0];

/// A part of a demand over streams, with the upper end of its interval, in microseconds.
type PartOfDemand = fn(&StreamDemand) -> [f64; 2];

/// Results of some cells of a run.
pub(crate) struct Results<'a> {
    run: &'a Run,
    cells: Vec<&'a CellRecord>,
    /// Settings that differ between the cells.
    varied: Vec<String>,
    /// Conditions that the cells share, and those that differ.
    pub(crate) conditions: Conditions,
}

impl<'a> Results<'a> {
    /// Makes the table of cells of `run`, a row for each, in this order.
    pub(crate) fn of(run: &'a Run, cells: Vec<&'a CellRecord>) -> Self {
        let varied = varied(cells.iter().copied());
        let conditions = Conditions::of(run, cells.iter().copied(), &varied);
        Results { run, cells, varied, conditions }
    }

    /// Makes the table of searches.
    pub(crate) fn searches(&self) -> Table {
        let mut table = self.named();
        self.add_searches(&mut table);
        self.add_ends(&mut table);
        table
    }

    /// Makes the table of figures.
    pub(crate) fn figures(&self) -> Table {
        let mut table = self.named();
        self.add_figures(&mut table);
        self.add_ends(&mut table);
        table
    }

    /// Makes the table of one cell: a row for each figure.
    pub(crate) fn by_figure(cell: &CellRecord) -> Table {
        let names = figure_order(cell.figures.keys());
        let mut table = Table::default();
        let words = |name: &&str| Field::words(figure_name(name));
        table.words("figure", 0, names.iter().map(words).collect());
        table.numbers("median", 0, names.iter().map(|name| figure(&cell.figures[*name])).collect());
        table
    }

    /// Makes the table of everything: searches, if there are any, and figures.
    pub(crate) fn all(&self) -> Table {
        let mut table = self.named();
        if self.cells.iter().any(|cell| cell.method == "search") {
            self.add_searches(&mut table);
        }
        self.add_figures(&mut table);
        self.add_ends(&mut table);
        table
    }

    /// Makes the table of the secondaries of updates; `None` if there are none.
    pub(crate) fn secondaries(&self) -> Option<Table> {
        let all =
            || self.cells.iter().flat_map(|cell| cell.secondaries.iter().map(move |s| (cell, s)));
        let names = figure_order(all().flat_map(|(_, secondary)| secondary.figures.keys()));
        let each = |field: &dyn Fn(&CellRecord, &Secondary) -> Field| {
            all().map(|(cell, secondary)| field(cell, secondary)).collect::<Vec<_>>()
        };
        let mut table = Table::default();
        table.words("secondary", 0, each(&|_, s| Field::words(&s.server)));
        table.words("address", 0, each(&|_, s| Field::words(&s.address)));
        let place = |cell: &CellRecord| short_name(cell, self.varied.iter());
        table.words("where", 0, each(&|cell, _| Field::words(place(cell))));
        for name in &names {
            let found =
                |s: &Secondary| s.figures.get(*name).map_or_else(|| Field::words(""), figure);
            table.numbers(&figure_name(name), 0, each(&|_, s| found(s)));
        }
        (!names.is_empty()).then_some(table)
    }

    /// Returns a field for each cell.
    fn each(&self, field: impl Fn(&'a CellRecord) -> Field) -> Vec<Field> {
        self.cells.iter().map(|cell| field(cell)).collect()
    }

    /// Makes a table with the columns that name the cells.
    pub(crate) fn named(&self) -> Table {
        let mut table = Table::default();
        table.words("server", 0, self.each(|cell| Field::words(server_name(cell))));
        for key in &self.varied {
            let value = |cell: &CellRecord| cell.settings.get(key).cloned().unwrap_or_default();
            table.words(key, 0, self.each(|cell| Field::words(value(cell))));
        }
        for (i, head) in self.conditions.columns.iter().enumerate() {
            let value = |cell: &CellRecord| self.conditions.values(self.run, cell).swap_remove(i);
            table.words(head, 1, self.each(|cell| Field::words(value(cell))));
        }
        table
    }

    /// Returns the unit of the searches' numbers, in words.
    fn unit(&self) -> &'a str {
        let over = self.cells.iter().find_map(|cell| cell.over.as_deref());
        over.unwrap_or("queries/s")
    }

    /// Adds the columns of searches.
    fn add_searches(&self, table: &mut Table) {
        let unit = self.unit();
        let qps = |cell: &CellRecord, x| Field::number(x, |x| rate(Some(x), cell.at_least, ""));
        let median = |cell: &CellRecord| qps(cell, cell.median_qps).with_spread(searches(cell));
        // The highest of several bounds counts.
        let found = || self.cells.iter().filter(|cell| cell.median_qps.is_some());
        let bounds = found().count() > 0 && found().all(|cell| cell.at_least);
        let what = if bounds { "highest bound" } else { "median" };
        table.numbers(&format!("{what}, {unit}"), 0, self.each(median));
        let share = |cell: &CellRecord| of_udp(cell, self.cells.iter().copied());
        let shares = self.each(|cell| Field::words(share(cell).unwrap_or_default()));
        if shares.iter().any(|share| share.text != "-") {
            table.words("of UDP", 2, shares);
        }
        // Percentiles need many searches.
        if self.cells.iter().any(|cell| cell.p01_qps.is_some()) {
            table.numbers("1st percentile", 28, self.each(|cell| qps(cell, cell.p01_qps)));
            table.numbers("99th percentile", 28, self.each(|cell| qps(cell, cell.p99_qps)));
        }
        let is_bound = |cell: &CellRecord| cell.capacities.iter().any(|c| c.at_least);
        let deviation =
            |cell: &CellRecord| stats::std_dev(&cell.found_qps()).filter(|_| !is_bound(cell));
        table.numbers("std. dev.", 31, self.each(|cell| Field::number(deviation(cell), thousands)));
        for (head, quantile, rank) in [("latency p50", 0.5, 9), ("latency p99", 0.99, 8)] {
            let at = |cell: &CellRecord| {
                latency_rate(cell).map(|at| format!("at {} {unit}", thousands(at)))
            };
            let latency = |cell: &CellRecord| {
                let us = latency_us(cell, quantile);
                Field::number(us, time_us).with_notes(at(cell).filter(|_| us.is_some()))
            };
            table.numbers(head, rank, self.each(latency));
        }
    }

    /// Adds a column for each figure.
    fn add_figures(&self, table: &mut Table) {
        let names = figure_order(self.cells.iter().flat_map(|cell| cell.figures.keys()));
        // The first is the main one, unless there are capacities.
        let searched = self.cells.iter().any(|cell| cell.method == "search");
        for (name, number) in names.into_iter().zip(0u8..) {
            let field = |cell: &CellRecord| match (&cell.capacity, cell.figures.get(name)) {
                (Some(found), _) if name == "capacity" => capacity(found),
                (_, Some(found)) => figure(found).with_notes(at_rate(cell, name)),
                (_, None) => Field::words(""),
            };
            let rank = if number == 0 && !searched { 0 } else { number.saturating_add(32) };
            table.numbers(&figure_name(name), rank, self.each(field));
        }
        self.add_ratios(table);
        self.add_loads(table);
    }

    /// Adds the ratio of each capacity to the baseline's, and the CPU time of each answer, where they are known.
    fn add_ratios(&self, table: &mut Table) {
        if let Some(first) = self.cells.iter().find_map(|cell| cell.ratio.as_ref()) {
            let baseline = &first.baseline;
            let ratio = |cell: &CellRecord| match &cell.ratio {
                Some(ratio) => {
                    let sign = self.sign_of_ratio(cell, baseline);
                    Field::number(Some(ratio.value), |value| format!("{sign}{value:.3}"))
                        .with_spread(format!("{:.3} to {:.3}", ratio.low, ratio.high))
                }
                None if cell.server == *baseline => Field::number(Some(1.0), |_| "1".to_owned()),
                None => Field::words(""),
            };
            table.numbers(&format!("x {baseline}"), 0, self.each(ratio));
        }
        let cpu_us = |cell: &CellRecord| cell.capacity.as_ref()?.cpu_us_per_answer;
        if self.cells.iter().any(|cell| cpu_us(cell).is_some()) {
            let field = |cell: &CellRecord| Field::number(cpu_us(cell), time_us);
            table.numbers("CPU/answer", 2, self.each(field));
        }
        self.add_streams(table);
    }

    /// Returns the mark of a ratio of which one side is a lower bound.
    fn sign_of_ratio(&self, cell: &CellRecord, baseline: &str) -> &'static str {
        let base = self.cells.iter().find(|other| other.is(baseline, &cell.settings));
        match (cell.is_bound(), base.is_some_and(|base| base.is_bound())) {
            (true, false) => "> ",
            (false, true) => "< ",
            _ => "",
        }
    }

    /// Adds the CPU time of each query and of each new connection over streams, where they were
    /// measured.
    fn add_streams(&self, table: &mut Table) {
        let streams = |cell: &CellRecord| cell.capacity.as_ref()?.streams;
        if self.cells.iter().all(|cell| streams(cell).is_none()) {
            return;
        }
        let parts: [(&str, u8, PartOfDemand); 2] = [
            ("CPU/query", 3, |s| [s.cpu_us_per_query, s.query_high_us]),
            ("CPU/connection", 2, |s| [s.cpu_us_per_connection, s.connection_high_us]),
        ];
        for (head, rank, part) in parts {
            let field = |cell: &CellRecord| match streams(cell).as_ref().map(part) {
                Some([us, high]) => Field::number(Some(us), time_us)
                    .with_spread(format!("±{:.1} %", (high / us - 1.0) * 100.0)),
                None => Field::words(""),
            };
            table.numbers(head, rank, self.each(field));
        }
    }

    /// Adds latency and loss at shares of the capacities, where they were measured.
    fn add_loads(&self, table: &mut Table) {
        if self.cells.iter().all(|cell| cell.loads.is_empty()) {
            return;
        }
        for (head, share) in ["p50 / p99 at 50 %", "at 100 %"].into_iter().zip(SHOWN_LOADS) {
            table.words(head, 3, self.each(|cell| latency_at(&cell.loads, share)));
        }
        let free = |cell: &CellRecord| {
            let offered = cell.loads.iter().filter(|load| load.is_offered());
            let below = offered.take_while(|load| load.unanswered == 0.0 && cell.kept_up(load));
            Field::number(below.last().map(|load| load.share), |share| {
                format!("{:.0} %", share * 100.0)
            })
        };
        table.numbers("loss-free to", 4, self.each(free));
    }

    /// Adds the repeats, their limiters, and the conformance of searches.
    fn add_ends(&self, table: &mut Table) {
        let searched = self.cells.iter().filter(|cell| cell.method == "search").count();
        let head = if searched == self.cells.len() { "searches" } else { "repeats" };
        let made =
            |cell: &CellRecord| Field::number(Some(f64::from(cell.repeats)), |_| repeats(cell));
        table.numbers(head, 10, self.each(made));
        if searched > 0 {
            let words = |cell: &CellRecord| Field::words(sustained(cell).unwrap_or_default());
            table.words("sustained", 30, self.each(words));
        }
        if self.cells.iter().any(|cell| !cell.limiters().counts.is_empty()) {
            let limiter =
                |cell: &CellRecord| Field::words(limiter_names(cell)).with_notes(proofs(cell));
            table.words("limited by", 1, self.each(limiter));
        }
        if self.cells.iter().any(|cell| cell.capacity.is_some()) {
            table.words("basis", 27, self.each(basis));
        }
        if searched > 0 {
            table.words("RFC 8219", 29, self.each(|cell| Field::words(conforming(cell))));
        }
    }
}

/// Returns the value of each of some searches, of many the lowest and the highest; empty for one.
fn searches(cell: &CellRecord) -> String {
    match (cell.capacities.len(), range(&cell.found_qps())) {
        (0 | 1, _) | (_, None) => String::new(),
        (2..=MAX_NAMED_SEARCHES, _) => each_search(cell),
        (_, Some((low, high))) => format!("{} to {}", thousands(low), thousands(high)),
    }
}

/// Returns the latency at a share of the capacity, with the late departures; where the Tester could not offer that, the highest share up
/// to there that it offered.
fn latency_at(loads: &[LoadPoint], share: f64) -> Field {
    let Some(load) = loads.iter().find(|load| load.share == share) else {
        return Field::words("");
    };
    let latency = || match load.unanswered {
        // Its percentiles are the timeout.
        half @ 0.5.. => format!("{:.0} % without an answer", 100.0 * half),
        _ => format!("{} / {}", time_us(load.p50_us), time_us(load.p99_us)),
    };
    let up_to = loads.iter().filter(|load| load.share <= share).map(LoadPoint::offered_share);
    let highest = (up_to.fold(0.0, f64::max) * 100.0).round();
    let short = !load.reached && highest < (share * 100.0).round();
    let late = load.late_departures >= MIN_LATE_SHARE;
    let beside = [
        short.then(|| format!("{highest} %")),
        late.then(|| format!("{:.1} % late", load.late_departures * 100.0)),
    ];
    Field::words(if load.reached { latency() } else { String::new() })
        .with_spread(beside.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Returns a capacity with its interval; `~` and `>` mark it where the Tester was the limit.
pub(crate) fn capacity(found: &ServerCapacity) -> Field {
    let sign = match (found.exceeded, found.basis) {
        (true, _) => "> ",
        (false, Basis::Demand) => "~",
        (false, Basis::Saturated | Basis::Plateau) => "",
    };
    Field::number(Some(found.qps), |qps| format!("{sign}{}", thousands(qps)))
        .with_spread(format!("{} to {}", thousands(found.low_qps), thousands(found.high_qps)))
        .with_notes(found.seen.iter().map(ToString::to_string))
}

/// Returns the median of a figure with its interval, or with the smallest and the largest value of repeats that are too few for one.
fn figure(figure: &Figure) -> Field {
    let unit = Unit::of(&figure.unit);
    let median = Field::number(figure.median(), |median| unit.full(median));
    let interval = stats::shown_median_interval(&figure.values, CONFIDENCE);
    let spread = interval.map(|interval| (interval.low, interval.high));
    match spread.or_else(|| range(&figure.values)).filter(|_| figure.values.len() > 1) {
        Some((low, high)) => {
            median.with_spread(format!("{} to {}", unit.full(low), unit.full(high)))
        }
        None => median,
    }
}

/// Returns the meaning of the brackets after the figures of these cells, in words; empty without
/// brackets.
pub(crate) fn spread_words(cells: &[&CellRecord]) -> &'static str {
    let mut figures = cells.iter().flat_map(|cell| cell.figures.values());
    match figures.any(|figure| figure.values.len() > 1) {
        true if has_intervals(cells) => ", 95 % intervals in brackets",
        true => ", medians; ranges in brackets",
        false => "",
    }
}

/// Returns whether each figure of these cells has an interval, not a range of few repeats.
pub(crate) fn has_intervals(cells: &[&CellRecord]) -> bool {
    let has = |f: &Figure| stats::shown_median_interval(&f.values, CONFIDENCE).is_some();
    cells.iter().all(|cell| cell.capacity.is_some())
        || cells.iter().flat_map(|cell| cell.figures.values()).all(has)
}

/// Returns what the capacity of a cell is computed from, with the evidence.
fn basis(cell: &CellRecord) -> Field {
    let Some(found) = &cell.capacity else { return Field::words("") };
    let middle = |of: fn(&Round) -> Option<f64>| {
        let shares: Vec<f64> = cell.rounds.iter().filter_map(of).collect();
        stats::median(&shares).map(|share| 100.0 * share.min(1.0))
    };
    let used = middle(|round| round.busy).filter(|_| !found.seen.iter().any(Seen::hides_cpu));
    let computed = ["", "cores / CPU per answer at "][usize::from(found.basis == Basis::Saturated)];
    let used = used.map(|used| format!("{computed}{used:.0} % of the server's CPU used"));
    let tester = middle(|round| round.tester_busy).filter(|_| found.basis == Basis::Demand);
    let tester = tester.map(|busy| format!("{busy:.0} % of the Tester's"));
    let evidence: Vec<String> = used.into_iter().chain(tester).collect();
    Field::words(match evidence.join(", ").as_str() {
        "" => found.basis.to_string(),
        evidence => format!("{}: {evidence}", found.basis),
    })
}

/// Returns whether a cell conforms to RFC 8219, as words.
fn conforming(r: &CellRecord) -> &'static str {
    match (r.conforming, r.shortened_s) {
        (true, None) => "conforming",
        (true, Some(_)) => "conforming, SHORTENED",
        (false, _) => "not conforming",
    }
}

#[cfg(test)]
mod tests {
    use measure::Outstanding;
    use record::{TrialRecord, Voidness};

    use super::*;

    #[test]
    fn a_share_that_was_not_offered_has_the_highest_up_to_there() {
        let load = |share: f64, offered: f64, reached: bool, late_departures: f64| LoadPoint {
            share,
            asked_qps: 1e4 * share,
            offered_qps: 1e4 * offered,
            reached,
            p50_us: 80.0,
            p99_us: 310.0,
            late_departures,
            ..LoadPoint::default()
        };
        let loads = [
            load(0.25, 0.25, true, 0.0),
            load(0.5, 0.5, true, 0.006),
            load(0.8, 0.71, false, 0.3),
            load(0.9, 0.6, false, 0.0),
            load(1.0, 0.999, false, 0.02),
            load(1.2, 1.2, true, 0.0),
        ];
        for (share, wanted) in [
            (0.25, "80.0 us / 310.0 us ()"),
            (0.5, "80.0 us / 310.0 us (0.6 % late)"),
            (0.8, "- (71 %, 30.0 % late)"),
            (0.9, "- (71 %)"),
            (1.0, "- (2.0 % late)"),
            (0.7, "- ()"),
        ] {
            let Field { text, spread, .. } = latency_at(&loads, share);
            assert_eq!(format!("{text} ({spread})"), wanted);
        }
        let dead = LoadPoint { unanswered: 1.0, ..load(1.0, 1.0, true, 0.0) };
        assert_eq!(latency_at(&[dead], 1.0).text, "100 % without an answer");
    }

    #[test]
    fn a_capacity_has_its_basis_and_is_loss_free_while_answers_keep_up() {
        let mut cell = CellRecord::new("a", [].into(), "capacity");
        cell.capacity =
            Some(ServerCapacity { basis: Basis::Saturated, ..ServerCapacity::default() });
        cell.figures.insert("capacity".into(), Figure::new("qps", vec![1e4; 8]));
        let busy = |share| Round { busy: Some(share), ..Round::default() };
        cell.rounds = [0.95, 0.97, 1.1].map(busy).into();
        let load = |share: f64, offered: f64, answered: f64, unanswered: f64| LoadPoint {
            share,
            asked_qps: 1e4 * share,
            offered_qps: 1e4 * offered,
            answered_qps: Some(1e4 * answered),
            unanswered,
            ..LoadPoint::default()
        };
        let free = |loads: &[LoadPoint], end: f64| {
            let mut cell = cell.clone();
            cell.loads = loads.to_vec();
            for load in loads {
                let mut trial = crate::tests::trial();
                (trial.void, trial.outstanding) =
                    (Voidness(None), Some(Outstanding { middle: 1.0, end, allowed: 2.0 }));
                cell.trials.push(TrialRecord { repeat: 0, rate_qps: load.asked_qps, trial });
            }
            let run = Run { results: vec![cell], ..Run::default() };
            let table = Results::of(&run, run.results.iter().collect()).figures();
            let of = |head| {
                let column = table.columns.iter().find(|column| column.head == head);
                column.expect("a column").fields[0].text.clone()
            };
            assert_eq!(
                of("basis"),
                "saturated: cores / CPU per answer at 97 % of the server's CPU used"
            );
            of("loss-free to")
        };
        // None of these was `reached`: over 1 % of their queries left late.
        let at = [load(0.5, 0.5, 0.5, 0.0), load(0.8, 0.5, 0.5, 0.0), load(1.0, 1.0, 0.8, 0.0)];
        assert_eq!(free(&at, 3.0), "50 %", "at 100 % answers fell behind");
        assert_eq!(free(&at, 2.0), "100 %");
        assert_eq!(free(&[load(0.5, 0.5, 0.5, 0.001), at[2].clone()], 2.0), "-");
    }

    #[test]
    fn queries_and_connections_have_their_cpu_times() {
        let of = |server: &str, streams: Option<StreamDemand>| {
            let mut cell = CellRecord::new(server, [].into(), "capacity");
            cell.capacity = Some(ServerCapacity {
                qps: 2e3,
                low_qps: 1.9e3,
                high_qps: 2.1e3,
                cpu_us_per_answer: Some(500.0),
                streams,
                ..ServerCapacity::default()
            });
            cell.figures.insert("capacity".into(), Figure::new("qps", vec![2e3; 8]));
            cell
        };
        let streams = StreamDemand {
            cpu_us_per_query: 20.0,
            query_low_us: 18.0,
            query_high_us: 22.0,
            cpu_us_per_connection: 480.0,
            connection_low_us: 470.0,
            connection_high_us: 490.0,
        };
        let run = Run { results: vec![of("a", Some(streams)), of("b", None)], ..Run::default() };
        let table = |from: usize| Results::of(&run, run.results[from..].iter().collect()).figures();
        let csv = table(0).csv();
        let heads = "server,capacity,CPU/answer,CPU/query,CPU/connection,repeats,basis\n";
        assert_eq!(csv, format!("{heads}a,2000,500,20,480,0,plateau\nb,2000,500,,,0,plateau\n"));
        let text = table(0).whole_text();
        assert!(text.contains("480.0 us (±2.1 %)"), "{text}");
        assert!(!table(1).csv().contains("CPU/query"), "none of them has streams");
    }
}
