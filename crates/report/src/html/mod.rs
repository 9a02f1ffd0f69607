//! Runs as one self-contained HTML page: no network, no fonts, no library.
//!
//! ```text
//! runs ──> cells (named by what varies) ──> capacity, figures   tables, and below curves (curves, plot)
//!      │                               ├──> against_rate       latency and answers at each rate
//!      │                               ├──> summary            in words, and what is doubtful
//!      │                               ├──> answers             comparisons of all servers' answers
//!      │                               ├──> connections         handshakes, first and later queries
//!      │                               ├──> trials, time        latency, schedule, and the course of trials
//!      │                               └──> conditions          testbed, host, files, raw data
//!      └──> comparison                                          several runs: trend, thresholds, verdicts
//! answers of servers ──> answers_page                         a comparison of answers, a page of its own
//! ```
//!
//! Text from records passes through maud, which escapes it; the page's own policy forbids it to load anything. Plots
//! are SVG made here. The script only sorts tables, switches the theme, unfolds what is printed and unpacks the raw data: the page is
//! readable without it.

mod against_rate;
mod answers;
mod answers_page;
mod capacity;
mod cells;
mod comparison;
mod conditions;
mod connections;
mod curves;
mod doubts;
mod figures;
mod frame;
pub(crate) mod parts;
pub(crate) mod plot;
mod summary;
mod time;
mod trials;

use maud::{Markup, html};
use record::{CompareTerms, Run};

pub use answers_page::answers_page;
use cells::Cells;
pub(crate) use conditions::packed;
pub(crate) use frame::{Frame, STYLE, frame};
pub(crate) use parts::{fold, pictures, table};
use plot::{Picture, distinct};
pub(crate) use summary::{finding, heading};

use crate::view::conditions::network;

/// Renders the page of some runs, in their order of time; several are compared on these terms.
pub fn html(runs: &[Run], terms: &CompareTerms) -> String {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by(|a, b| a.plan.started_unix_s.total_cmp(&b.plan.started_unix_s));
    let compared = if runs.len() > 1 {
        comparison::section(&runs, terms)
    } else {
        html! {}
    };
    page(&runs, &compared, None)
}

/// Links of a page that is part of a site.
pub(crate) struct Links {
    /// Links to other pages, each with its text.
    pub(crate) navigation: Vec<(String, String)>,
    /// File with the record of the run.
    pub(crate) record: String,
}

/// Renders the page of a run within a site.
pub(crate) fn page_of_site(run: &Run, links: &Links) -> String {
    page(&[run], &html! {}, Some(links))
}

fn page<'a>(runs: &[&'a Run], compared: &Markup, links: Option<&Links>) -> String {
    let names = comparison::names(runs).into_iter();
    let part = |(run, name): (&&'a Run, String)| {
        (*run, Cells::of(run), format!("{name}: {}", summary::subject(run)))
    };
    let parts: Vec<(&Run, Cells<'_>, String)> = runs.iter().zip(names).map(part).collect();
    let title = match runs {
        [run] => summary::heading(run),
        runs => comparison::title(runs),
    };
    let body = html! {
        @if let [(run, cells, _)] = &parts[..] {
            @if let Some(words) = summary::subtitle(run) { p.meta { (words) } }
            @let tables = results(cells);
            @if !tables.0.is_empty() { section #results aria-label="Results" { h2 { "Results" } (tables) } }
            (against_rate::section(cells, &html! { h2 { "At each rate" } }))
            section #summary aria-label="Summary" { h2 { "Summary" } (summary::section(run, cells, None)) }
            h2 { "Details" }
            (sections(run, cells, 1, links))
        } @else {
            section #comparison aria-label="Comparison" { h2 { "Comparison" } (compared) }
            section #summary aria-label="Summary" {
                h2 { "Summary of each run" }
                @for ((run, cells, title), n) in parts.iter().zip(1..) {
                    (summary::section(run, cells, Some(&html! { h3 { a href=(format!("#run-{n}")) { (title) } } })))
                }
            }
            @for ((run, cells, title), n) in parts.iter().zip(1..) {
                section id=(format!("run-{n}")) aria-label=(title) {
                    h2 { (title) }
                    (results(cells))
                    (against_rate::section(cells, &html! { h3 { "At each rate" } }))
                    (sections(run, cells, n, links))
                }
            }
        }
    };
    let foot = html! {
        @for (run, _, title) in parts.iter().filter(|(run, ..)| !network(run).is_empty()) {
            p { (title) ": " (network(run)) }
        }
    };
    let navigation = links.map_or(&[][..], |links| &links.navigation);
    frame(&Frame { title: &title, navigation, body: &body, foot: &foot, script: "" })
}

/// Renders the tables of results.
fn results(cells: &Cells<'_>) -> Markup {
    html! { (capacity::results(cells)) (figures::results(cells)) }
}

/// Renders the sections of a run after its summary.
fn sections(run: &Run, cells: &Cells<'_>, number: usize, links: Option<&Links>) -> Markup {
    html! {
        (summary::course(run))
        (capacity::section(cells))
        (figures::section(cells))
        (answers::section(cells))
        (connections::section(cells))
        (trials::section(cells))
        (time::section(cells))
        (conditions::section(run, cells, number, links))
    }
}

/// Returns the figures of a run's page, each as an SVG file: its title and its text.
pub(crate) fn drawings(run: &Run) -> Vec<(String, String)> {
    let cells = Cells::of(run);
    let (mut all, each) = against_rate::all_pictures(&cells);
    all.extend(each);
    all.extend(capacity::plots(&cells));
    all.extend(figures::plots(&cells));
    all.extend(trials::plots(&cells));
    all.extend(time::plots(&cells));
    all.extend(capacity::traces(&cells));
    let (pictures, _) = distinct(all);
    pictures.iter().map(|picture: &Picture| (picture.title().to_owned(), picture.file())).collect()
}

#[cfg(test)]
mod tests {
    use measure::stats::Terms;

    use super::*;

    fn terms() -> CompareTerms {
        CompareTerms::new(Terms { confidence: 0.95, margin: 0.05, seed: 1 })
    }

    fn stored(name: &str) -> Run {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/runs/");
        record::read_run(std::path::Path::new(&format!("{folder}{name}.json")))
            .expect("a stored run")
    }

    /// The text between two parts of a page.
    fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
        let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("no {from} in {page}"));
        rest.split_once(to).unwrap_or_else(|| panic!("no {to} in {rest}")).0
    }

    #[test]
    fn the_table_comes_first_then_each_rate_and_the_title_names_servers_and_target() {
        let page = html(&[stored("search")], &terms());
        let title = between(&page, "<h1>", "</h1>");
        for part in ["dns64-existing-aaaa", "dns64d 0.1.0", "unbound 1.17.1", "[fd00:9::2]:53"] {
            assert!(title.contains(part), "{part} is not in {title}");
        }
        assert!(between(&page, "<title>", "</title>").contains("unbound"));
        let main = between(&page, "<main>", "</main>");
        let at = |part: &str| main.find(part).unwrap_or_else(|| panic!("no {part}"));
        let order = [
            "Capacity of each",
            "At each rate",
            "p50 ",
            "Answered against offered rate",
            "Summary",
            "<h3>Capacity</h3>",
        ];
        let places = order.map(at);
        assert!(places.is_sorted(), "{places:?}");
        assert!(
            between(main, "Capacity of each", "</table>")
                .contains("<small>at 10,625 queries/s</small>")
        );
    }

    #[test]
    fn the_first_line_names_targets_transport_queries_and_cores() {
        let mut run = stored("search");
        let addresses = ["127.0.0.1:5301", "127.0.0.1:5302"];
        run.results.truncate(2);
        for ((cell, name), target) in run.results.iter_mut().zip(["A", "B"]).zip(addresses) {
            cell.server = name.to_owned();
            for t in &mut cell.trials {
                let conditions = &mut t.trial.conditions;
                (conditions.target, conditions.cpus) = (target.to_owned(), vec![0]);
                conditions.transport = "udp".to_owned();
                conditions.workload = "6 queries of q.txt".to_owned();
                conditions.path = Some(measure::Path::OneHost);
            }
        }
        let page = html(&[run], &terms());
        let words = "A = 127.0.0.1:5301, B = 127.0.0.1:5302 · UDP · 6 queries of q.txt · Tester core 0 · same host";
        assert!(between(&page, "<main>", "<h2>").contains(words), "{page}");
    }

    #[test]
    fn a_search_over_clients_counts_clients() {
        let mut run = stored("search");
        for cell in &mut run.results {
            cell.over = Some("clients".into());
        }
        let page = html(&[run], &terms());
        let table = between(&page, "<h2>Results</h2>", "<h2>");
        assert!(table.contains("median, clients") && table.contains("at 10,625 clients"));
        let plots = between(&page, "<h3>Capacity</h3>", "<h3>Latency and schedule");
        let searched = table.to_owned() + plots;
        for part in ["queries/s", "queries per second", " qps"] {
            let place =
                searched.find(part).map(|at| searched[at.saturating_sub(200)..at + 20].to_owned());
            assert_eq!(place, None, "{part}");
        }
        assert!(page.contains("Latency against clients") && page.contains("offered, clients"));
        assert!(page.contains("10,625 clients; limiter"));
    }

    #[test]
    fn each_search_has_a_dot_and_a_line_of_its_own() {
        let mut run = stored("search");
        let cell = run.results.iter_mut().find(|c| c.server == "unbound").expect("a cell");
        let (mut trials, mut second) = (cell.trials.clone(), cell.capacities[0].clone());
        trials.iter_mut().for_each(|t| t.repeat = 1);
        second.qps = second.qps.map(|qps| qps * 0.5);
        trials.iter_mut().for_each(|t| t.rate_qps *= 0.5);
        cell.trials.extend(trials);
        cell.capacities.push(second);
        (cell.repeats, cell.median_qps) = (2, cell.median_qps.map(|qps| qps * 0.75));
        let count = |run: &Run, part: &str| {
            let page = html(std::slice::from_ref(run), &terms());
            between(&page, "<main>", "</main>").matches(part).count()
        };
        assert_eq!(
            (count(&run, "class=\"dot\""), count(&stored("search"), "class=\"dot\"")),
            (2, 0)
        );
        assert!(count(&run, "repeat 2: median") > count(&stored("search"), "repeat 2: median"));
    }

    #[test]
    fn a_trial_whose_queries_left_late_is_pale_and_moves_no_line() {
        let mut run = stored("search");
        let lines = |run: &Run| {
            let page = html(std::slice::from_ref(run), &terms());
            let section = between(&page, "At each rate", "Summary").to_owned();
            let of = |part: &str| section.matches(part).count();
            (of("pale\""), of("% left late"), of("outside the lines"), of("class=\"line\""))
        };
        let leave = |run: &mut Run, step_us: u64| {
            let mut late = measure::Histogram::new();
            (0..100).for_each(|i| late.record(measure::Nanos::from_micros(i * step_us)));
            for t in run.results.iter_mut().flat_map(|cell| &mut cell.trials) {
                t.trial.schedule_error_us = record::Times::from(&late);
            }
        };
        leave(&mut run, 1);
        let whole = lines(&run);
        assert_eq!((whole.0, whole.1, whole.2), (0, 0, 0));
        leave(&mut run, 100);
        let (pale, told, noted, joined) = lines(&run);
        assert!(pale > 0 && told > 0 && noted == 1, "{pale} {told} {noted}");
        assert!(joined < whole.3, "no line passes late trials");
    }

    #[test]
    fn a_void_load_shows_pale_dots_and_its_reason() {
        let mut run = stored("load");
        let void = || record::Voidness(Some(measure::Void::SlowCore { share: 0.19 }));
        for t in run.results.iter_mut().flat_map(|cell| &mut cell.trials) {
            t.trial.void = void();
        }
        let page = html(&[run], &terms());
        for part in ["pale\"", "has pale dots of its void trials", "19 % slower than at its best."]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("repeated or skipped"));
    }

    #[test]
    fn both_timeouts_are_conditions() {
        let mut run = stored("search");
        for t in run.results.iter_mut().flat_map(|cell| &mut cell.trials) {
            t.trial.conditions.timeout_s = 0.3;
        }
        let first = &mut run.results[0].trials[0].trial.conditions;
        (first.timeout_s, first.pacing) = (1.0, measure::Pacing::Window { outstanding: 8 }.into());
        let page = html(&[run], &terms());
        assert!(page.contains("1 s in closed loops, 0.3 s at given rates"));
    }

    #[test]
    fn a_closed_loop_is_no_dot_beside_loads_of_a_given_rate() {
        let dots = |closed: fn(usize) -> bool| {
            let mut run = stored("search");
            let trials = run.results.iter_mut().flat_map(|cell| cell.trials.iter_mut().enumerate());
            for (_, t) in trials.filter(|(n, _)| closed(*n)) {
                t.trial.conditions.pacing = measure::Pacing::Window { outstanding: 8 }.into();
            }
            html(&[run], &terms()).matches("answered per second, p50").count()
        };
        let all = dots(|_| false);
        assert!(dots(|n| n == 0) < all);
        assert_eq!(dots(|_| true), all);
    }

    #[test]
    fn one_visit_each_has_no_interval_and_the_colour_of_its_ratio() {
        let of = |qps: f64| {
            let mut run = stored("search");
            for cell in &mut run.results {
                cell.capacities.truncate(1);
                cell.capacities[0].at_least = false;
                cell.capacities[0].qps = Some(qps);
                (cell.at_least, cell.median_qps) = (false, Some(qps));
            }
            run
        };
        let page = html(&[of(235_343.0), of(2_948.0)], &terms());
        let told = "<small class=\"verdict worse\">×0.013, one visit each: no interval</small>";
        assert!(page.contains(told), "{page}");
    }

    #[test]
    fn no_two_sections_have_one_title() {
        for run in ["search", "load", "connections", "queries", "updates"].map(stored) {
            let page = html(&[run], &terms());
            let headings = page.split("<h").skip(1).filter(|rest| rest.starts_with(['2', '3']));
            let text = |rest: &str| between(rest, ">", "</h").to_owned();
            let mut titles: Vec<String> = headings.map(text).collect();
            let all = titles.len();
            titles.sort();
            titles.dedup();
            assert_eq!(titles.len(), all, "{titles:?}");
        }
    }

    #[test]
    fn a_capacity_of_rounds_is_one_figure_in_the_summary_and_in_the_table() {
        let file = "/../../runs/dns64-rfc8219/record.json.gz";
        let file = [env!("CARGO_MANIFEST_DIR"), file].concat();
        let run = record::read_run(std::path::Path::new(&file)).expect("a run");
        let mut all: Vec<_> = run.results.iter().filter_map(|c| c.capacity.clone()).collect();
        all.sort_by(|a, b| a.qps.total_cmp(&b.qps));
        let page = html(&[run], &terms());
        let said = between(&page, "<strong>Capacity</strong>", "</li>");
        for found in [&all[0], &all[all.len() - 1]] {
            let [qps, low, high] =
                [found.qps, found.low_qps, found.high_qps].map(crate::view::thousands);
            let words = format!("{qps} ({low} to {high}) (");
            assert!(said.contains(&words), "{words}: {said}");
        }
        // The bars are the same figures, with the intervals of the table.
        let [table, plots] =
            ["<h2>Results</h2>", "<h3>Figures</h3>"].map(|at| between(&page, at, "<h"));
        let section = table.to_owned() + plots;
        for words in ["Below each figure: its 95 % interval.", "Error bars: 95 % intervals."] {
            assert!(section.contains(words), "{words}");
        }
        assert!(!section.contains("the smallest and the largest"), "{section}");
    }

    #[test]
    fn any_run_has_a_page_and_runs_without_common_figures_have_one() {
        let empty = html(&[Run::default()], &terms());
        assert!(empty.contains("<h1>") && !empty.contains("NaN"));
        let two = html(&[stored("search"), stored("memory")], &terms());
        assert!(two.contains("These runs have no figure in common"), "{two}");
        assert!(html(&[], &terms()).contains("</html>"));
    }

    #[test]
    fn drawings_are_those_of_the_page() {
        let run = stored("search");
        let drawings = drawings(&run);
        let titles: Vec<&str> = drawings.iter().map(|(title, _)| title.as_str()).collect();
        assert!(titles.contains(&"Answered against offered rate"), "{titles:?}");
        assert!(titles.contains(&"Latency by percentile") && titles.len() >= 6, "{titles:?}");
        for (title, text) in &drawings {
            assert!(text.starts_with("<svg xmlns") && !text.contains("NaN"), "{title}");
        }
    }
}
