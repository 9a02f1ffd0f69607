//! A static site of runs, which any web server or a browser alone can show.
//!
//! ```text
//! index.html            all runs, filtered by server, host and experiment
//! runs/NAME.html        the page of a run
//! runs/NAME.json.gz     its record
//! servers/NAME.html     the history of a server, with its change points
//! builds/NAME.html      the versions of a server that were built, with the steps between them
//! changes.json, .atom   feeds of the steps
//! site.json             the list of runs, for programs
//! ```
//!
//! Runs are added one by one; only what the index and the histories need is kept of each.

mod entry;
mod history;
mod index;
mod versions;

use std::collections::BTreeMap;

use record::Run;
use serde_json::json;

use crate::html::{Links, packed, page_of_site};
use entry::SiteRun;

/// File of the list of runs; a folder with it is a site.
pub const LIST: &str = "site.json";

/// Files of the feeds of steps, of a site with built servers.
const FEEDS: [&str; 2] = ["changes.json", "changes.atom"];

/// Returns the paths of the pages and records that `list`, the content of `site.json`, names; empty
/// if another program wrote it.
pub fn listed(list: &str) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_str(list).unwrap_or_default();
    let items = |key| list.get(key).and_then(serde_json::Value::as_array).into_iter().flatten();
    let of_run = |run: &serde_json::Value| [run["page"].clone(), run["record"].clone()];
    let named =
        items("runs").flat_map(of_run).chain(items("servers").map(|one| one["page"].clone()));
    let named = named.chain(items("builds").map(|one| one["page"].clone()));
    let paths = named.filter_map(|path| path.as_str().map(str::to_owned));
    // A list that was changed by hand cannot name other files.
    let plain = |path: &String| {
        let name =
            ["runs/", "servers/", "builds/"].iter().find_map(|folder| path.strip_prefix(folder));
        name.is_some_and(|name| !name.contains('/') && !name.starts_with('.'))
    };
    paths.filter(plain).collect()
}

/// A file of the site.
pub struct File {
    /// Path within the folder of the site.
    pub path: String,
    /// Content of the file.
    pub content: Vec<u8>,
}

impl File {
    fn text(path: String, text: String) -> Self {
        File { path, content: text.into_bytes() }
    }
}

/// A site while runs are added.
pub struct Site {
    title: String,
    entries: Vec<SiteRun>,
    servers: Names,
    builds: Names,
    runs: Names,
}

impl Site {
    /// Makes a site without runs; `title` is the heading of the index.
    pub fn new(title: &str) -> Self {
        let (servers, builds, runs) = (Names::default(), Names::default(), Names::default());
        Site { title: title.to_owned(), entries: Vec::new(), servers, builds, runs }
    }

    /// Adds a run, and returns the files of its page and its record.
    pub fn add(&mut self, run: &Run) -> Vec<File> {
        let number = self.entries.len();
        let name = self.runs.name(&entry::name(run), &number.to_string());
        let mut navigation = vec![("../index.html".to_owned(), "All runs".to_owned())];
        let mut servers: Vec<&str> = Vec::new();
        let built = &run.plan.choices.built;
        for cell in &run.results {
            if let Some(one) = built.iter().find(|one| one.name == cell.server) {
                if !servers.contains(&one.build.as_str()) {
                    servers.push(&one.build);
                    let file = self.builds.name(&one.build, &one.build);
                    let words = format!("Versions of {}", one.build);
                    navigation.push((format!("../builds/{file}.html"), words));
                }
            } else if !servers.contains(&cell.server.as_str()) {
                servers.push(&cell.server);
                let file = self.servers.name(&cell.server, &cell.server);
                navigation.push((
                    format!("../servers/{file}.html"),
                    format!("History of {}", cell.server),
                ));
            }
        }
        let record = format!("{name}.json.gz");
        let links = Links { navigation, record: record.clone() };
        self.entries.push(SiteRun::of(run, name.clone()));
        vec![
            File::text(format!("runs/{name}.html"), page_of_site(run, &links)),
            File { path: format!("runs/{record}"), content: packed(run) },
        ]
    }

    /// Returns the files that need all runs: the index last, so that it never names a file that is missing.
    pub fn finish(mut self) -> Vec<File> {
        self.entries.sort_by(|a, b| b.began_unix_s.total_cmp(&a.began_unix_s));
        let mut files: Vec<File> = { self.servers.all.iter() }
            .map(|(server, name)| {
                let text = history::page(server, &self.entries);
                File::text(format!("servers/{name}.html"), text)
            })
            .collect();
        files.extend(self.builds.all.iter().map(|(build, name)| {
            File::text(format!("builds/{name}.html"), versions::page(build, &self.entries))
        }));
        if !self.builds.all.is_empty() {
            let [json, atom] = versions::feeds(&self.title, &self.entries, &self.builds.all);
            files.push(File::text(FEEDS[0].to_owned(), json));
            files.push(File::text(FEEDS[1].to_owned(), atom));
        }
        let list: Vec<serde_json::Value> = { self.entries.iter() }
            .map(|e| {
                json!({
                    "run": e.name, "experiment": e.experiment, "began_unix_s": e.began_unix_s, "host": e.host,
                    "servers": e.servers, "complete": e.complete, "page": format!("runs/{}.html", e.name),
                    "record": format!("runs/{}.json.gz", e.name),
                })
            })
            .collect();
        let page = |(server, name): (&String, &String)| json!({ "server": server, "page": format!("servers/{name}.html") });
        let servers: Vec<serde_json::Value> = self.servers.all.iter().map(page).collect();
        let page = |(build, name): (&String, &String)| json!({ "build": build, "page": format!("builds/{name}.html") });
        let builds: Vec<serde_json::Value> = self.builds.all.iter().map(page).collect();
        let list = json!({ "runs": list, "servers": servers, "builds": builds });
        files.push(File::text(LIST.to_owned(), format!("{list:#}\n")));
        let pages = index::Pages { servers: &self.servers.all, builds: &self.builds.all };
        let index = index::page(&self.title, &self.entries, &pages);
        files.push(File::text("index.html".to_owned(), index));
        files
    }
}

/// Names of files, each used once.
#[derive(Default)]
struct Names {
    /// Name of the file by its subject.
    all: BTreeMap<String, String>,
}

impl Names {
    /// Returns the name of the file about `what`, like `wanted` with plain characters only.
    fn name(&mut self, wanted: &str, what: &str) -> String {
        if let Some(known) = self.all.get(what) {
            return known.clone();
        }
        let plain: String = wanted
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' })
            .take(80)
            .collect();
        let plain = plain.trim_matches(['.', '-']).to_lowercase();
        let plain = if plain.is_empty() { "unnamed".to_owned() } else { plain };
        let taken = |name: &String| self.all.values().any(|other| other == name);
        let mut others = (2..).map(|n| format!("{plain}-{n}"));
        let name = std::iter::once(plain.clone()).chain(&mut others).find(|name| !taken(name));
        let name = name.unwrap_or(plain);
        self.all.insert(what.to_owned(), name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use record::{CellRecord, Figure};

    use super::*;

    /// A run of the server at a time in days, with one figure.
    fn run(server: &str, day: u32, qps: f64) -> Run {
        let mut cell = CellRecord::new(server, BTreeMap::new(), "load");
        cell.figures.insert("highest_answered".into(), Figure::new("qps", vec![qps, qps * 1.01]));
        let mut run = Run { results: vec![cell], complete: true, ..Run::default() };
        run.plan.experiment = "a <load>".into();
        run.plan.started_unix_s = 1_790_000_000.0 + f64::from(day) * 86_400.0;
        run
    }

    /// Returns the files of a site of these runs, by their paths.
    pub(super) fn site(runs: &[Run]) -> BTreeMap<String, String> {
        let mut site = Site::new("Our & servers");
        let mut files: Vec<File> = runs.iter().flat_map(|run| site.add(run)).collect();
        files.extend(site.finish());
        let text = |file: File| (file.path, String::from_utf8_lossy(&file.content).into_owned());
        files.into_iter().map(text).collect()
    }

    #[test]
    fn each_link_leads_to_a_file() {
        let files = site(&[run("nsd", 0, 1e5), run("127.0.0.1:5300", 1, 2e5), run("nsd", 0, 1e5)]);
        let mut links = 0;
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".html")) {
            assert!(!text.contains("<load>"), "{path}: text is escaped");
            for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let target = match link.strip_prefix("../") {
                    Some(from_top) => from_top.to_owned(),
                    None if folder.is_empty() => link.to_owned(),
                    None => format!("{folder}/{link}"),
                };
                assert!(files.contains_key(&target), "{path} links {link}");
                links += 1;
            }
        }
        assert!(links > 12, "{links}");
        let list: serde_json::Value = serde_json::from_str(&files[LIST]).expect("JSON");
        let runs = list["runs"].as_array().expect("a list");
        assert_eq!(
            (runs.len(), &runs[0]["servers"][0]),
            (3, &json!("127.0.0.1:5300")),
            "newest first"
        );
        assert!(files.contains_key("servers/127.0.0.1-5300.html"), "{:?}", files.keys());
    }

    #[test]
    fn the_list_names_the_other_files() {
        let files = site(&[run("nsd", 0, 1e5), run("bind9", 1, 2e5)]);
        let mut named = listed(&files[LIST]);
        named.extend([LIST.to_owned(), "index.html".to_owned()]);
        named.sort();
        assert_eq!(named, files.keys().cloned().collect::<Vec<_>>());
        let other = r#"{"runs": [{"page": "../x", "record": "runs/../x"}, {"page": "runs/.x"}, 7], "servers": {}}"#;
        for list in [other, "", "[]", "no JSON"] {
            assert_eq!(listed(list), Vec::<String>::new(), "{list}");
        }
    }

    #[test]
    fn a_history_shows_where_a_level_changed() {
        let level = |day: u32| if day < 6 { 1e5 } else { 8e4 };
        let runs: Vec<Run> =
            (0..12).map(|day| run("nsd", day, level(day) + f64::from(day % 3) * 500.0)).collect();
        let page = &site(&runs)["servers/nsd.html"];
        assert!(page.contains("Change points") && page.contains("−19.9 %"), "{page}");
        let steady: Vec<Run> =
            (0..12).map(|day| run("nsd", day, 1e5 + f64::from(day % 3))).collect();
        assert!(!site(&steady)["servers/nsd.html"].contains("Change points"));
        assert!(site(&runs[..1])["servers/nsd.html"].contains("One run"));
    }

    /// A run whose capacity is at least a rate.
    fn bound(day: u32, qps: f64) -> Run {
        let mut run = run("nsd", day, 0.0);
        let cell = &mut run.results[0];
        cell.figures.clear();
        cell.method = "search".into();
        (cell.repeats, cell.at_least, cell.median_qps) = (1, true, Some(qps));
        cell.capacities = vec![record::Capacity {
            qps: Some(qps),
            failed_qps: None,
            at_least: true,
            limiter: measure::Limiter::Offered,
            verdict: String::new(),
            also: Vec::new(),
        }];
        run
    }

    #[test]
    fn a_bound_that_moves_is_no_change_of_the_server() {
        let level = |day: u32| if day < 6 { 1e5 } else { 8e4 };
        let runs: Vec<Run> = (0..12).map(|day| bound(day, level(day))).collect();
        let page = &site(&runs)["servers/nsd.html"];
        assert!(!page.contains("Change points") && page.contains("≥ 80,000"), "{page}");
        let mut fallen = runs;
        for run in &mut fallen[6..] {
            (run.results[0].at_least, run.results[0].capacities[0].at_least) = (false, false);
        }
        let page = &site(&fallen)["servers/nsd.html"];
        assert!(page.contains("Change points") && page.contains("−20.0 % or more"), "{page}");
    }

    #[test]
    fn names_of_files_are_plain_and_differ() {
        let mut names = Names::default();
        assert_eq!(names.name("[::1]:53", "a"), "1--53");
        assert_eq!(names.name("../x", "b"), "x");
        assert_eq!([names.name("x", "c"), names.name("x", "c")], ["x-2", "x-2"]);
        assert_eq!(names.name("…", "d"), "unnamed");
    }
}
