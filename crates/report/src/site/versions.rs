//! The versions of a server: each figure over its revisions, the steps where it changed, and a feed of the steps.
//!
//! A ratio to the anchor joins runs of several days and hosts. A step is where the ratios of two neighbours have intervals that do not
//! meet and differ by more than [`MIN_CHANGE`].

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use record::{BuildOutcome, BuiltServer, CapacityRatio, CellRecord, Run, VersionOrder};
use serde_json::json;

use super::entry::SiteRun;
use crate::html::plot::{Axis, Line, MAX_LINES, Picture, Plot, Point, Scale};
use crate::html::{Frame, frame, pictures, table};
use crate::table::{Field, Table};
use crate::view::name::setting_words;
use crate::view::table::{by_key, each_once};
use crate::view::unit::{Unit, with_unit};
use crate::view::{conditions, date};

/// Least change of a step, as a share.
const MIN_CHANGE: f64 = 0.03;
/// Share of the capacity whose latency is shown.
const LATENCY_AT: f64 = 0.5;

/// Number of characters for which a plot has room below its axis.
const TICK_CHARACTERS: usize = 56;

/// A cell of a built server.
pub(super) struct Version {
    pub(super) built: BuiltServer,
    /// Experiment, conditions, anchor and settings, which must be equal for a comparison.
    group: String,
    settings: String,
    ratio: Option<CapacityRatio>,
    figures: [Option<f64>; 4],
}

/// Name and unit of the figures in addition to the ratio.
const FIGURES: [(&str, &str); 4] = [
    ("capacity", "qps"),
    ("CPU time for each answer", "us"),
    ("latency p99 at half of the capacity", "us"),
    ("most resident memory", "B"),
];

impl Version {
    /// Returns the built servers of a run, one for each of their cells; a server that was not
    /// measured has no figures.
    pub(super) fn of(run: &Run) -> Vec<Self> {
        let of = |built: &BuiltServer| {
            let cells: Vec<&CellRecord> =
                run.results.iter().filter(|cell| cell.server == built.name).collect();
            let version = |cell: Option<&CellRecord>| Version {
                built: built.clone(),
                group: cell.map_or(String::new(), |cell| group(run, cell)),
                settings: cell.map_or(String::new(), |cell| setting_words(&cell.settings)),
                ratio: cell.and_then(|cell| cell.ratio.clone()),
                figures: cell.map_or([None; 4], figures),
            };
            match cells.is_empty() {
                true => vec![version(None)],
                false => cells.into_iter().map(|cell| version(Some(cell))).collect(),
            }
        };
        run.plan.choices.built.iter().flat_map(of).collect()
    }

    /// Returns the version's ratio with an interval.
    fn level(&self) -> Option<[f64; 3]> {
        self.ratio.as_ref().map(|ratio| [ratio.value, ratio.low, ratio.high])
    }
}

fn group(run: &Run, cell: &CellRecord) -> String {
    let form = run.plan.form().suffix();
    let anchor =
        cell.ratio.as_ref().map_or(String::new(), |ratio| format!(", against {}", ratio.baseline));
    format!("{}{form}{anchor}, {}", run.plan.experiment, conditions::of_cell(run, cell))
}

fn figures(cell: &CellRecord) -> [Option<f64>; 4] {
    let capacity = cell.capacity.as_ref();
    let near = |share: f64| (share - LATENCY_AT).abs();
    let load = cell.loads.iter().min_by(|a, b| near(a.share).total_cmp(&near(b.share)));
    let memory = cell.trials.iter().flat_map(|trial| &trial.trial.probes);
    let memory = memory.filter(|series| series.name == record::RESIDENT);
    let memory = memory.flat_map(|series| series.samples.iter().map(|(_, bytes)| *bytes));
    [
        capacity.map(|capacity| capacity.qps),
        capacity.and_then(|capacity| capacity.cpu_us_per_answer),
        load.map(|load| load.p99_us),
        memory.reduce(f64::max),
    ]
}

/// A change between two neighbouring revisions.
struct Step<'a> {
    before: &'a Version,
    after: &'a Version,
    change: f64,
}

impl Step<'_> {
    /// Returns the first digits of the commit after the change.
    fn commit(&self) -> &str {
        let commit = &self.after.built.commit;
        commit.get(..12).unwrap_or(commit)
    }

    /// Returns the description of the version: name, change and commit.
    fn words(&self) -> String {
        format!("{}: {} ({})", self.after.built.revision, percent(self.change), self.commit())
    }
}

/// Cells of one server and group, by revision.
struct Group<'a> {
    name: &'a str,
    versions: Vec<&'a Version>,
}

/// Returns the versions of a server in order: by their names if all have a dot or an underscore, else by time.
fn sorted<'a>(entries: &'a [SiteRun], build: &str) -> Vec<&'a Version> {
    let all = entries.iter().flat_map(|entry| &entry.versions);
    let mut all: Vec<&Version> = all.filter(|version| version.built.build == build).collect();
    let numbered = all.iter().all(|version| version.built.revision.contains(['.', '_']));
    match numbered {
        true => all.sort_by_cached_key(|version| VersionOrder::of(&version.built.revision)),
        false => all.sort_by_key(|version| version.built.committed_unix_s.unwrap_or(0)),
    }
    all
}

fn groups<'a>(versions: &[&'a Version]) -> Vec<Group<'a>> {
    let named = versions.iter().filter(|version| !version.group.is_empty());
    let groups = by_key(named.map(|version| (version.group.as_str(), *version)));
    groups.into_iter().map(|(name, versions)| Group { name, versions }).collect()
}

/// Returns the steps of a group, for each setting.
fn steps<'a>(group: &Group<'a>) -> Vec<Step<'a>> {
    let settings: BTreeSet<&str> = group.versions.iter().map(|v| v.settings.as_str()).collect();
    let of = |settings: &str| {
        let same = group.versions.iter().filter(|v| v.settings == settings && v.ratio.is_some());
        let same: Vec<&'a Version> = same.copied().collect();
        let step = |pair: &[&'a Version]| {
            let ([a, a_low, a_high], [b, b_low, b_high]) = (pair[0].level()?, pair[1].level()?);
            let change = b / a - 1.0;
            let apart = b_high < a_low || a_high < b_low;
            (apart && change.abs() > MIN_CHANGE && pair[0].built.commit != pair[1].built.commit)
                .then_some(Step { before: pair[0], after: pair[1], change })
        };
        same.windows(2).filter_map(step).collect::<Vec<_>>()
    };
    settings.into_iter().flat_map(of).collect()
}

/// Renders the fastest version of each server, in each group of its runs.
pub(super) fn fastest_table(entries: &[SiteRun], builds: &BTreeMap<String, String>) -> Markup {
    let rows = builds.iter().flat_map(|(build, file)| {
        let versions = sorted(entries, build);
        let row = |group: &Group<'_>| {
            html! {
                th scope="row" data-h="server" { a href=(format!("builds/{file}.html")) { (build) } }
                td data-h="measured as" { (group.name) }
                td data-h="fastest version" { (fastest(group).unwrap_or_else(|| "–".to_owned())) }
            }
        };
        groups(&versions).iter().map(row).collect::<Vec<_>>()
    });
    let rows: Vec<Markup> = rows.collect();
    table("Fastest version of each", "", &["server", "measured as", "fastest version"], &rows)
}

/// Renders the versions of a server.
pub(super) fn page(build: &str, entries: &[SiteRun]) -> String {
    let versions = sorted(entries, build);
    let groups = groups(&versions);
    let mut gaps: BTreeMap<&str, &str> = { versions.iter() }
        .filter_map(|version| match &version.built.outcome {
            BuildOutcome::NotBuilt(why) => Some((version.built.revision.as_str(), why.as_str())),
            BuildOutcome::Program(_) => None,
        })
        .collect();
    // The revision may have been built later.
    let has_been_built = |revision: &str| {
        versions.iter().any(|one| one.built.revision == revision && one.built.is_built())
    };
    gaps.retain(|revision, _| !has_been_built(revision));
    let body = html! {
        @for group in &groups { (part(group)) }
        @if !gaps.is_empty() {
            section {
                h2 { "Not built" }
                ul { @for (revision, why) in &gaps { li { (revision) ": " (why) } } }
            }
        }
    };
    let foot = html! {
        p { "A step: the ratios of two neighbours have intervals that do not meet, and differ by more than 3 %. Ratios are paired by round with a fixed anchor." }
    };
    let title = format!("Versions of {build}");
    let navigation = [("../index.html".to_owned(), "All runs".to_owned())];
    frame(&Frame { title: &title, navigation: &navigation, body: &body, foot: &foot, script: "" })
}

fn part(group: &Group<'_>) -> Markup {
    let steps = steps(group);
    let names = each_once(group.versions.iter().map(|one| one.built.revision.as_str()));
    let ratio = plot("Ratio to the anchor", "", group, &names, &steps, &Version::level);
    let others = FIGURES.iter().enumerate().map(|(i, (title, unit))| {
        let value = move |version: &Version| version.figures[i].map(|value| [value; 3]);
        plot(title, unit, group, &names, &[], &value)
    });
    let plots = std::iter::once(ratio).chain(others).flatten().collect();
    html! {
        section {
            h2 { (group.name) }
            @if let Some(fastest) = fastest(group) { p { "Fastest version: " (fastest) "." } }
            @if !steps.is_empty() { (step_table(&steps)) }
            @if names.len() > 1 { (pictures(plots)) }
            (values(group))
        }
    }
}

/// Returns the fastest version in words.
fn fastest(group: &Group<'_>) -> Option<String> {
    let all = group.versions.iter().filter_map(|version| Some((version, version.level()?)));
    let (version, [ratio, ..]) = all.max_by(|a, b| a.1[0].total_cmp(&b.1[0]))?;
    let settings = if version.settings.is_empty() {
        String::new()
    } else {
        format!(" ({})", version.settings)
    };
    Some(format!("{}{settings}, {ratio:.2} times the anchor", version.built.revision))
}

/// Plots a figure over the versions, a line for each setting; `None` if no version has it.
fn plot(
    title: &str,
    unit: &str,
    group: &Group<'_>,
    names: &[&str],
    steps: &[Step<'_>],
    value: &dyn Fn(&Version) -> Option<[f64; 3]>,
) -> Option<Picture> {
    let place = |version: &Version| {
        names.iter().position(|name| *name == version.built.revision).unwrap_or(0) as f64 + 1.0
    };
    let settings: BTreeSet<&str> = group.versions.iter().map(|v| v.settings.as_str()).collect();
    let line = |(style, settings): (usize, &&str)| {
        let of = group.versions.iter().filter(|version| version.settings == **settings);
        let points = of.filter_map(|version| {
            let [y, low, high] = value(version)?;
            let tip = format!("{}: {}", version.built.revision, with_unit(y, unit));
            let spread = (low < high).then_some((low, high));
            Some(Point { x: place(version), y, spread, tip, ..Point::default() })
        });
        let name = if settings.is_empty() { title } else { settings };
        Line { name: name.to_owned(), style, points: points.collect(), joined: true, marked: true }
    };
    let lines: Vec<Line> = settings.iter().take(MAX_LINES).enumerate().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    points().next()?;
    let ends = |point: &Point| point.spread.map_or([point.y; 2], |(low, high)| [low, high]);
    let y = Scale::fitting(points().flat_map(ends));
    let guide = |step: &Step<'_>| {
        let x = place(step.after) - 0.5;
        ("step".to_owned(), vec![(x, y.ends().0), (x, y.ends().1)])
    };
    let last = names.len() as f64;
    let mut x = Axis::new("version", Scale::Linear(0.5, last + 0.5), Unit::of(""));
    // As many ticks as fit without overlap of their texts.
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let every = names.len().div_ceil((TICK_CHARACTERS / (longest + 2)).clamp(2, 5));
    let ticks = names.iter().zip(1_u32..).step_by(every);
    x.ticks = Some(ticks.map(|(name, n)| (n.into(), (*name).to_owned())).collect());
    let marked: Vec<String> = steps.iter().map(Step::words).collect();
    Some(Picture::Plot(Plot {
        title: title.to_owned(),
        alt: points().map(|p| p.tip.as_str()).take(4).collect::<Vec<_>>().join(". "),
        note: marked.join("; "),
        x,
        y: Axis::new(Unit::of(unit).name(), y, Unit::of(unit)),
        guides: steps.iter().map(guide).collect(),
        lines,
    }))
}

fn step_table(steps: &[Step<'_>]) -> Markup {
    let row = |step: &Step<'_>| {
        let built = &step.after.built;
        vec![
            Field::words(&built.revision),
            Field::words(&step.before.built.revision),
            Field::words(&step.after.settings),
            Field::number(Some(step.change), percent),
            Field::words(format!("{} {}", step.commit(), built.subject)),
        ]
    };
    let heads = ["version", "after", "settings", "change", "commit"];
    Table::of_rows(heads, steps.iter().map(row)).html("Steps", "")
}

fn percent(change: f64) -> String {
    let sign = if change < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", 100.0 * change.abs())
}

fn values(group: &Group<'_>) -> Markup {
    let row = |version: &&Version| {
        let spread = |ratio: &CapacityRatio| format!("{:.3} to {:.3}", ratio.low, ratio.high);
        let ratio = version.ratio.as_ref();
        let first = [
            Field::words(&version.built.revision),
            Field::words(&version.settings),
            Field::number(ratio.map(|ratio| ratio.value), |value| format!("{value:.3}"))
                .with_spread(ratio.map_or(String::new(), spread)),
        ];
        let figures = FIGURES.iter().zip(version.figures);
        let figures =
            figures.map(|((_, unit), value)| Field::number(value, |value| with_unit(value, unit)));
        first.into_iter().chain(figures).collect()
    };
    let heads = ["version", "settings", "ratio"].into_iter().chain(FIGURES.map(|(name, _)| name));
    Table::of_rows(heads, group.versions.iter().map(row)).html("Versions", "")
}

/// A step as an item of a feed.
struct Item {
    title: String,
    page: String,
    /// Begin of the last run that has a side of it, in seconds since 1970.
    at: f64,
}

fn items(entries: &[SiteRun], pages: &BTreeMap<String, String>) -> Vec<Item> {
    let at = |version: &Version| {
        let with = entries
            .iter()
            .filter(|entry| entry.versions.iter().any(|one| std::ptr::eq(one, version)));
        with.map(|entry| entry.began_unix_s).fold(0.0, f64::max)
    };
    let mut items: Vec<Item> = Vec::new();
    for (build, page) in pages {
        let versions = sorted(entries, build);
        for group in groups(&versions) {
            items.extend(steps(&group).iter().map(|step| {
                let (before, after) = (&step.before.built.revision, &step.after.built.revision);
                let settings = if step.after.settings.is_empty() {
                    String::new()
                } else {
                    format!(", {}", step.after.settings)
                };
                Item {
                    title: format!(
                        "{build} {after}: {} after {before} ({}{settings})",
                        percent(step.change),
                        group.name
                    ),
                    page: format!("builds/{page}.html"),
                    at: at(step.after).max(at(step.before)),
                }
            }));
        }
    }
    items.sort_by(|a, b| b.at.total_cmp(&a.at));
    items
}

/// Returns text as part of an IRI: every octet but letters, digits, `-`, `.` and `/` as `%` with two digits (RFC 3986 section 2.1).
fn escaped(text: &str) -> String {
    let octet = |b: u8| match b {
        b'-' | b'.' | b'/' => char::from(b).to_string(),
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(octet).collect()
}

/// Renders the steps of all servers as a JSON feed (version 1.1) and as an Atom feed (RFC 4287).
pub(super) fn feeds(
    title: &str,
    entries: &[SiteRun],
    pages: &BTreeMap<String, String>,
) -> [String; 2] {
    let items = items(entries, pages);
    let id = |item: &Item| format!("{}#{}", item.page, item.title);
    let list: Vec<_> = { items.iter() }
        .map(|item| {
            json!({
                "id": id(item), "url": item.page, "title": item.title, "content_text": item.title,
                "date_published": date(item.at),
            })
        })
        .collect();
    let feed = json!({
        "version": "https://jsonfeed.org/version/1.1", "title": title, "feed_url": "changes.json", "items": list,
    });
    let newest = items.first().map_or(0.0, |item| item.at);
    let atom = html! {
        feed xmlns="http://www.w3.org/2005/Atom" {
            title { (title) }
            id { "urn:dnsdyno:changes" }
            link rel="self" href="changes.atom" {}
            updated { (date(newest)) }
            author { name { "dnsdyno" } }
            @for item in &items {
                entry {
                    title { (item.title) }
                    link href=(item.page) {}
                    id { "urn:dnsdyno:" (escaped(&id(item))) }
                    updated { (date(item.at)) }
                    content type="text" { (item.title) }
                }
            }
        }
    };
    let atom = format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n{}\n", atom.into_string());
    [format!("{feed:#}\n"), atom]
}

#[cfg(test)]
mod tests {
    use super::super::tests::site;
    use super::super::{LIST, listed};
    use super::*;

    /// A run of revisions with their ratios to the anchor; `None` was not built.
    fn run(day: u32, ratios: &[(&str, Option<f64>)]) -> Run {
        let mut run = Run { complete: true, ..Run::default() };
        run.plan.experiment = "x".into();
        run.plan.started_unix_s = 1_790_000_000.0 + f64::from(day) * 86_400.0;
        for (revision, ratio) in ratios {
            let (name, commit) = (format!("nsd@{revision}"), format!("c{revision}"));
            let outcome = match ratio {
                Some(_) => BuildOutcome::Program("/x".into()),
                None => BuildOutcome::NotBuilt("it hangs <here>".into()),
            };
            run.plan.choices.built.push(BuiltServer {
                name: name.clone(),
                build: "nsd".into(),
                revision: (*revision).into(),
                commit,
                subject: format!("about {revision}"),
                committed_unix_s: None,
                outcome,
            });
            let Some(value) = *ratio else { continue };
            let mut cell = CellRecord::new(&name, BTreeMap::new(), "capacity");
            let (low, high) = (value * 0.99, value * 1.01);
            cell.ratio = Some(CapacityRatio { baseline: "authdns".into(), value, low, high });
            run.results.push(cell);
        }
        run
    }

    #[test]
    fn runs_of_several_days_are_one_line_with_its_steps() {
        let first = run(0, &[("4.9", Some(0.50)), ("4.10", Some(0.505)), ("4.11", None)]);
        let second = run(9, &[("4.12", Some(0.60)), ("4.8", Some(0.49))]);
        let files = site(&[first, second]);
        let page = &files["builds/nsd.html"];
        let places: Vec<_> = ["4.8", "4.9", "4.10", "4.12"]
            .map(|version| page.rfind(&format!("data-h=\"version\" data-v=\"{version}\">")))
            .into_iter()
            .collect();
        assert!(places.is_sorted() && places[0].is_some(), "{places:?} {page}");
        assert!(page.contains("+18.8 %") && page.contains("about 4.12"), "{page}");
        assert!(page.contains("<p class=\"note\">4.12: +18.8 % (c4.12)</p>"), "{page}");
        assert!(page.contains("4.11: it hangs &lt;here&gt;"), "{page}");
        assert!(page.contains("Fastest version: 4.12, 0.60 times the anchor"), "{page}");
        let feed: serde_json::Value = serde_json::from_str(&files["changes.json"]).expect("JSON");
        let items = feed["items"].as_array().expect("items");
        assert_eq!(items.len(), 1, "4.9 and 4.10 are alike, and 4.8: {feed}");
        assert_eq!(items[0]["date_published"], "2026-09-30T14:13:20Z");
        let atom = &files["changes.atom"];
        assert!(atom.contains("<updated>2026-09-30T14:13:20Z</updated>"), "{atom}");
        let id =
            "<id>urn:dnsdyno:builds/nsd.html%23nsd%204.12%3A%20%2B18.8%20%25%20after%204.10%20";
        assert!(atom.contains(id) && atom.contains("<link href=\"builds/nsd.html\">"), "{atom}");
        assert!(files["index.html"].contains("builds/nsd.html"), "{}", files["index.html"]);
        assert!(!files.contains_key("servers/nsd-4.8.html"));
        assert!(listed(&files[LIST]).contains(&"builds/nsd.html".to_owned()));
    }
}
