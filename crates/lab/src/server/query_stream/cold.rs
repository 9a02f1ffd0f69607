//! An Internet in a box for resolvers that start cold at its root: its folder and queries, and the
//! configuration values for the AuthDNS and the resolvers.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use experiment::settings::InternetSettings;
use measure::Nanos;
use measure::warning::DELAYED_REPLY;
use record::{CellRecord, Figure, Trial};
use zone::internet::{Internet, InternetPlan, InternetQueries, WrittenQueries, synthetic};

use super::check::{Inputs, captured};
use super::servers::ServerQueries;
use crate::adapter::variables::ROOT_HINTS;
use crate::server::internet::{InternetFolder, write_internet};
use crate::testbed::INTERNET;
use crate::testbed::task::AuthAnswers;

/// An Internet in a box, ready to be served.
#[derive(Clone, Debug)]
pub(crate) struct ColdInternet {
    settings: InternetSettings,
    dir: PathBuf,
    folder: InternetFolder,
    root: Ipv4Addr,
    /// Text of the root's DS record; empty if it is not signed.
    anchor: String,
    names: usize,
    queries: WrittenQueries,
    /// Path of the query file.
    file: PathBuf,
}

/// Checks that there are names for the queries. A capture is noted in `inputs`.
///
/// # Errors
/// If there are too few, or a capture cannot be read, in words.
pub(super) fn check_internet(
    settings: &InternetSettings,
    inputs: &mut Inputs,
) -> Result<(), String> {
    let InternetSettings { tlds, domains, hosts, .. } = *settings;
    let names = match &settings.capture {
        Some(capture) => inputs.internet(capture)?,
        None => u64::from(tlds) * u64::from(domains) * u64::from(hosts),
    };
    queries(settings).check(names).map_err(|e| e.to_string())
}

fn queries(settings: &InternetSettings) -> InternetQueries {
    InternetQueries { count: settings.queries, hit_rate: settings.hit_rate, seed: 1 }
}

impl ColdInternet {
    /// Makes the zones below the directory `dir`, and writes the queries to `file`.
    ///
    /// # Errors
    /// If a file cannot be written or a zone not be signed, in words.
    pub(crate) fn new(
        settings: &InternetSettings,
        dir: &Path,
        file: &Path,
    ) -> Result<Self, String> {
        let plan = InternetPlan {
            missing: settings.missing,
            glueless: settings.glueless,
            wildcards: settings.wildcards,
            signed: settings.signed,
            servers: settings.servers,
            first: INTERNET.0,
            ..InternetPlan::default()
        };
        let internet = match &settings.capture {
            Some(capture) => Internet::new(plan, captured(capture)?),
            None => {
                let names = synthetic(settings.tlds, settings.domains, settings.hosts);
                Internet::new(plan, names)
            }
        };
        let internet = internet.map_err(|e| e.to_string())?;
        let dir = dir.join("internet");
        let folder = write_internet(&internet, &dir).map_err(|e| e.to_string())?;
        let unusable = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
        let queries = File::create(file)
            .and_then(|out| queries(settings).write(&internet, &mut BufWriter::new(out)))
            .map_err(|e| unusable(file, e))?;
        let anchor = match &folder.anchor {
            Some(path) => fs::read_to_string(path).map_err(|e| unusable(path, e))?,
            None => String::new(),
        };
        let ([root, _], names) = (internet.roots(), internet.names().count());
        let (settings, file) = (settings.clone(), file.to_owned());
        Ok(ColdInternet { settings, dir, folder, root, anchor, names, queries, file })
    }

    /// Returns the address of a server of the root.
    pub(crate) fn root(&self) -> Ipv4Addr {
        self.root
    }

    /// Returns the number of queries.
    pub(crate) fn queries(&self) -> u64 {
        self.queries.queries
    }

    /// Returns whether the delay of a reply, or of several that a resolver waits for in turn, may
    /// be that of an acknowledgement.
    pub(crate) fn delays_like_acknowledgements(&self) -> bool {
        let late = Nanos(1)..=*DELAYED_REPLY.end();
        self.settings.delays.iter().any(|delay| late.contains(delay))
    }

    /// Returns the answers of the AuthDNS.
    pub(crate) fn answers(&self) -> AuthAnswers {
        let InternetSettings { delays, loss, truncated, .. } = &self.settings;
        let (folder, log, delays) = (self.dir.clone(), self.log(), delays.clone());
        AuthAnswers::Internet { folder, log, delays, loss: *loss, truncated: *truncated }
    }

    /// Returns the variables of a resolver's templates: paths of the root hints and of the root's DS record, and the data of that.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let path = |path: &Path| path.display().to_string();
        let data = self.anchor.split_once(" DS ").map_or("", |(_, data)| data.trim());
        let anchor = self.folder.anchor.as_deref().map(path).unwrap_or_default();
        [
            (ROOT_HINTS, path(&self.folder.hints)),
            ("root_anchor", anchor),
            ("root_ds", data.to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Returns the path of the AuthDNS's log.
    fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Adds the resolution figures of the last repeat to a cell: cache hit rate, queries to servers
    /// for each query, and mean number of queries at servers. The AuthDNS has ended.
    pub(crate) fn add_to(&self, cell: &mut CellRecord, repeat: u32) {
        let trials = cell.trials.iter_mut().filter(|trial| trial.repeat == repeat);
        let mut trials: Vec<&mut Trial> = trials.map(|trial| &mut trial.trial).collect();
        let sent = trials.iter().map(|trial| trial.sent).sum();
        let notes = match self.server_queries() {
            Err(e) => vec![format!("the log of the AuthDNS cannot be read: {e}")],
            Ok(asked) if asked.lost > 0 => vec![format!(
                "the log of the AuthDNS lacks {} queries: the hit rate is not known",
                asked.lost
            )],
            Ok(asked) => {
                let InternetSettings { loss, truncated, .. } = self.settings;
                let loses = loss > 0.0 || asked.dropped > 0;
                let asks_again = loses || truncated > 0.0;
                // A missing reply counts with the resolver's timeout.
                let at_servers = self.at_servers(&asked, &trials).filter(|_| !loses);
                if let ([trial], Some(queries)) = (&mut trials[..], at_servers) {
                    trial.limit_by_name_servers(queries);
                    cell.limiter = cell.limiters().common().unwrap_or_default();
                }
                add_figures(&asked, sent, asks_again, at_servers, cell);
                asked.notes()
            }
        };
        for note in [self.note()].into_iter().chain(notes) {
            cell.note(note);
        }
    }

    /// Returns the mean number of queries at the servers at a time (Little's law); `None` if they
    /// have no delay, or different ones.
    fn at_servers(&self, asked: &ServerQueries, trials: &[&mut Trial]) -> Option<f64> {
        let [delay] = self.settings.delays[..] else { return None };
        let seconds: f64 = trials.iter().map(|trial| trial.duration_s).sum();
        (delay > Nanos::ZERO && seconds > 0.0)
            .then(|| asked.all as f64 * delay.as_secs_f64() / seconds)
    }

    /// Returns the queries that the AuthDNS got since it started.
    fn server_queries(&self) -> io::Result<ServerQueries> {
        let text = fs::read_to_string(&self.file)?;
        let questions: HashSet<String> = text.lines().map(str::to_owned).collect();
        ServerQueries::read(BufReader::new(File::open(self.log())?), &questions)
    }

    /// Returns a description in words.
    fn note(&self) -> String {
        let InternetFolder { zones, signed, .. } = &self.folder;
        let (names, queries) = (self.names, self.queries.queries);
        let hit_rate = self.queries.hit_rate() * 100.0;
        format!(
            "an Internet in a box of {names} names in {zones} zones, {signed} of them signed, \
            resolved from its root with an empty cache: {hit_rate:.1} % of its {queries} queries repeat an earlier one"
        )
    }
}

/// Adds the figures for `sent` queries of the Measurer; none if no queries were counted, or queries
/// of an earlier run were. Where resolvers repeat queries, a second query for a name is no cache
/// miss, and the hit rate is not known.
fn add_figures(
    asked: &ServerQueries,
    sent: u64,
    asks_again: bool,
    at_servers: Option<f64>,
    cell: &mut CellRecord,
) {
    if asked.all == 0 || sent == 0 {
        return;
    }
    let share = |count: u64| count as f64 / sent as f64;
    let hit_rate = 100.0 * (1.0 - share(asked.missed)).max(0.0);
    let figures = [
        ("hit_rate", "%", (!asks_again).then_some(hit_rate)),
        ("queries_to_servers", "", Some(share(asked.all))),
        ("queries_at_servers", "", at_servers),
    ];
    for (name, unit, value) in figures {
        let Some(value) = value else { continue };
        let figure = cell.figures.entry(name.to_owned());
        figure.or_insert_with(|| Figure::new(unit, Vec::new())).values.push(value);
    }
}

#[cfg(test)]
mod tests {
    use wire::Name;

    use super::*;

    #[test]
    fn a_box_says_how_it_is_served_and_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let settings = InternetSettings {
            tlds: 2,
            domains: 10,
            hosts: 20,
            queries: 600,
            hit_rate: 0.5,
            delays: vec!["1ms".parse().unwrap(), "20ms".parse().unwrap()],
            truncated: 0.01,
            ..InternetSettings::default()
        };
        check_internet(&settings, &mut Inputs::default()).unwrap();
        let file = dir.path().join("queries");
        let made = ColdInternet::new(&settings, dir.path(), &file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 600);
        assert_eq!((made.queries(), made.root().to_string()), (600, "10.53.0.1".to_owned()));
        let AuthAnswers::Internet { log, delays, loss, truncated, .. } = made.answers() else {
            panic!("another AuthDNS")
        };
        assert!(log.ends_with("internet/log"), "{log:?}");
        assert_eq!(delays, [1, 20].map(Nanos::from_millis));
        assert!(made.delays_like_acknowledgements(), "two of 20 ms");
        assert_eq!((loss, truncated), (0.0, 0.01));
        let variables = made.variables();
        assert!(variables[ROOT_HINTS].ends_with("/internet/hints"), "{variables:?}");
        assert_eq!((variables["root_anchor"].as_str(), variables["root_ds"].as_str()), ("", ""));
        assert!(made.note().contains("400 names in 23 zones, 0 of them signed"), "{}", made.note());
        assert!(made.note().contains("50.0 % of its 600"), "{}", made.note());
        // Two queries of four reached a server of their zone, and it took six to know which.
        let text = fs::read_to_string(&file).unwrap();
        let line = |number: usize| text.lines().nth(number).unwrap();
        let log: String = [0, 1].map(|n| format!("10.53.64.0 . {} answer\n", line(n))).concat();
        fs::write(made.log(), format!("{log}{}", "10.53.0.1 . t0 A referral t0\n".repeat(4)))
            .unwrap();
        let asked = made.server_queries().unwrap();
        let mut cell = CellRecord::new("unbound", BTreeMap::new(), "closed");
        add_figures(&asked, 0, false, None, &mut cell);
        assert!(cell.figures.is_empty());
        add_figures(&asked, 4, false, Some(0.5), &mut cell);
        assert_eq!(cell.figures["hit_rate"].values, [50.0]);
        assert_eq!(cell.figures["queries_to_servers"].values, [1.5]);
        assert_eq!(cell.figures["queries_at_servers"].values, [0.5]);
        let mut lossy = CellRecord::new("unbound", BTreeMap::new(), "closed");
        add_figures(&asked, 4, true, None, &mut lossy);
        assert!(!lossy.figures.contains_key("hit_rate") && lossy.figures.len() == 1);
        fs::write(made.log(), "10.53.1.1 - t0 A refused\n").unwrap();
        made.add_to(&mut cell, 1);
        assert_eq!((cell.figures["hit_rate"].values.len(), &cell.notes[0]), (1, &made.note()));
        assert!(cell.notes[1].contains("1 went to a server without a zone"), "{:?}", cell.notes);
        fs::write(made.log(), "lost 2\n").unwrap();
        made.add_to(&mut cell, 1);
        assert!(cell.notes[2].contains("lacks 2 queries"), "{:?}", cell.notes);
        let many = InternetSettings { queries: 10_000, ..settings };
        let why = check_internet(&many, &mut Inputs::default()).unwrap_err();
        assert!(why.contains("there are 400"), "{why}");
    }

    /// Returns a capture of a query for each of these names.
    fn capture(names: &[String]) -> Vec<u8> {
        let words =
            |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
        // Version 2.4; packets begin with IP.
        let mut pcap = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101]);
        for name in names {
            let name: Name = name.parse().unwrap();
            let mut packet =
                vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            packet.extend([0x80, 0, 0, 53, 0, 0, 0, 0]);
            packet.extend([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            packet.extend_from_slice(name.as_wire());
            packet.extend([0, 1, 0, 1]);
            let len = packet.len() as u16;
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
            pcap.extend(words(&[1, 0, u32::from(len), u32::from(len)]));
            pcap.extend(packet);
        }
        pcap
    }

    #[test]
    fn a_box_has_the_names_of_a_capture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("day.pcap");
        let names: Vec<String> =
            (0..90).map(|n| format!("www{}.d{}.example", n % 45, n % 3)).collect();
        fs::write(&path, capture(&names)).unwrap();
        let settings = InternetSettings {
            capture: Some(path.clone()),
            queries: 60,
            hit_rate: 0.5,
            missing: 0.0,
            wildcards: 0.0,
            ..InternetSettings::default()
        };
        let mut inputs = Inputs::default();
        check_internet(&settings, &mut inputs).unwrap();
        let file = dir.path().join("queries");
        let made = ColdInternet::new(&settings, dir.path(), &file).unwrap();
        assert!(made.note().contains("45 names in "), "{}", made.note());
        let asked = fs::read_to_string(&file).unwrap();
        assert_eq!(asked.lines().count(), 60);
        assert!(asked.lines().all(|line| line.contains(".example")), "{asked}");
        let many = InternetSettings { queries: 10_000, ..settings.clone() };
        let why = check_internet(&many, &mut inputs).unwrap_err();
        assert!(why.contains("there are 45"), "{why}");
        // It is noted once, with its hash, so that a run is not resumed with another.
        let [file] = inputs.files() else { panic!("one file") };
        assert_eq!((file.key.as_str(), file.sha256.len()), ("internet.capture", 64));
        assert_eq!(file.path, path.display().to_string());
        fs::write(&path, capture(&[])).unwrap();
        let why = check_internet(&settings, &mut Inputs::default()).unwrap_err();
        assert!(why.contains("no queries"), "{why}");
    }
}
