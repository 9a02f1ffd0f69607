//! Data of a run for the index and the histories.

use maud::Markup;
use record::{CellRecord, Form, Run};

use super::versions::Version;
use crate::export::measures;
use crate::html::{finding, heading};
use crate::view::conditions;
use crate::view::date;
use crate::view::name::setting_words;
use crate::view::table::each_once;

/// A run of the site.
pub(super) struct SiteRun {
    /// Name of the run's files on the site, without their endings.
    pub(super) name: String,
    pub(super) heading: String,
    /// Title of the experiment, in a line.
    pub(super) title: String,
    pub(super) experiment: String,
    pub(super) form: Form,
    pub(super) began_unix_s: f64,
    /// Host of the run in words: figures of different hosts are not compared.
    pub(super) host: String,
    /// Version of dnsdyno that made the record.
    pub(super) version: String,
    pub(super) complete: bool,
    /// Names of the run's servers, each once.
    pub(super) servers: Vec<String>,
    /// The main result in words.
    pub(super) finding: Option<Markup>,
    pub(super) facts: Vec<Fact>,
    /// Cells of servers that were built from revisions.
    pub(super) versions: Vec<Version>,
}

/// A figure of a cell.
pub(super) struct Fact {
    pub(super) server: String,
    /// Version of the server; empty if it is not known.
    pub(super) version: String,
    /// Settings of the cell in words.
    pub(super) settings: String,
    /// Conditions that figures must share to be compared, in words.
    pub(super) conditions: String,
    pub(super) figure: String,
    pub(super) unit: String,
    /// Median of the repeats, or the capacity of rounds.
    pub(super) value: f64,
    /// Values of the repeats.
    pub(super) each: Vec<f64>,
    /// Whether the value is a lower bound.
    pub(super) at_least: bool,
}

impl SiteRun {
    /// Makes the entry of a run.
    pub(super) fn of(run: &Run, name: String) -> Self {
        let servers = each_once(run.results.iter().map(|cell| cell.server.clone()));
        SiteRun {
            name,
            heading: heading(run),
            title: run.plan.title.clone(),
            experiment: run.plan.experiment.clone(),
            form: run.plan.form(),
            began_unix_s: run.plan.started_unix_s,
            host: host(run),
            version: run.plan.version.clone(),
            complete: run.complete,
            servers,
            finding: finding(run),
            facts: run.results.iter().flat_map(|cell| facts(run, cell)).collect(),
            versions: Version::of(run),
        }
    }

    /// Returns the start time of the run as text.
    pub(super) fn began(&self) -> String {
        if self.began_unix_s > 0.0 { date(self.began_unix_s) } else { "not known".to_owned() }
    }
}

/// Returns the name of a run's files: its experiment and its time.
pub(super) fn name(run: &Run) -> String {
    let at = run.plan.started_unix_s;
    let time = if at > 0.0 { date(at).replace(':', "") } else { "undated".to_owned() };
    format!("{}-{time}", run.plan.experiment)
}

/// Returns the host of a run in words.
fn host(run: &Run) -> String {
    let Some(host) = &run.plan.host else { return "not known".to_owned() };
    let model = host.cpu.model.as_deref().unwrap_or("unknown processor");
    format!("{model}, {} cores", host.cpu.online)
}

fn facts(run: &Run, cell: &CellRecord) -> Vec<Fact> {
    let conditions = conditions::of_cell(run, cell);
    let fact = |measure: crate::export::Measure| Fact {
        server: cell.server.clone(),
        version: cell.server_version.clone().unwrap_or_default(),
        settings: setting_words(&cell.settings),
        conditions: conditions.clone(),
        value: measure.value,
        at_least: measure.name == "capacity" && cell.at_least,
        figure: measure.name,
        unit: measure.unit,
        each: measure.values,
    };
    measures(cell).into_iter().map(fact).collect()
}
