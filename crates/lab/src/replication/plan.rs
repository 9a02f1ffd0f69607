//! Experiment files about updates: which primaries, which secondaries, how many updates how fast.
//!
//! ```toml
//! name = "query-under-update"
//! title = "..."
//! role = "replication"
//! method = "query-under-update"      # or "update-rate", "signed-unsigned"
//! primaries = ["knot"]
//! secondaries = ["nsd", "bind9+nsd"] # one after the other, and two at once, of which the first is asked
//! delegations = 1_000_000
//! rates = ["0", "8", "3%/day", "max"]
//! signed = [false, true]
//! duration = "60s"
//! repeats = 5
//!
//! [quick]                            # any of the keys above, with their other values
//! delegations = 20_000
//! ```

use std::path::Path;

use measure::Nanos;
use serde::Deserialize;

use super::MOST_SECONDARIES;
use super::nodes::Kind;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Updates into a primary as fast as it commits them, and whether they survive SIGKILL.
    UpdateRate,
    /// Queries to a secondary whose primary is being updated.
    QueryUnderUpdate,
    /// Queries for the zone signed and unsigned.
    SignedUnsigned,
}

impl Method {
    /// The word in files and records.
    pub fn word(self) -> &'static str {
        match self {
            Method::UpdateRate => "update-rate",
            Method::QueryUnderUpdate => "query-under-update",
            Method::SignedUnsigned => "signed-unsigned",
        }
    }
}

/// An experiment about updates, in one of its forms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicationPlan {
    /// Its name.
    pub name: String,
    /// One line on what it is.
    pub title: String,
    /// `replication`.
    role: String,
    /// What is measured.
    pub method: Method,
    /// Servers that take updates.
    pub primaries: Vec<String>,
    /// Servers that follow and are asked; of several joined by `+` the first is asked, and all are watched.
    #[serde(default)]
    pub secondaries: Vec<String>,
    /// Delegations of the zone.
    pub delegations: u64,
    /// Updates of the method `update-rate`.
    #[serde(default = "ten_thousand")]
    pub updates: u64,
    /// Updates after which the primary is killed in the method `update-rate`.
    #[serde(default = "one_thousand")]
    pub killed_after: u64,
    /// Rates of updates: a second (`8`), of the zone a day (`3%/day`), `max`; `0` for none.
    #[serde(default)]
    pub rates: Vec<String>,
    /// Whether the zone is signed.
    #[serde(default = "unsigned")]
    pub signed: Vec<bool>,
    /// Queries outstanding.
    #[serde(default = "window")]
    pub window: u32,
    /// How long queries are sent.
    #[serde(default = "half_a_minute")]
    pub duration: String,
    /// How often each cell is measured.
    #[serde(default = "once")]
    pub repeats: u32,
}

fn ten_thousand() -> u64 {
    10_000
}

fn one_thousand() -> u64 {
    1_000
}

fn unsigned() -> Vec<bool> {
    vec![false]
}

fn window() -> u32 {
    64
}

fn half_a_minute() -> String {
    "30s".to_owned()
}

fn once() -> u32 {
    1
}

/// The most delegations, updates and repeats.
const MOST: (u64, u64, u32) = (200_000_000, 1_000_000, 100);

/// Why a file is no such experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl ReplicationPlan {
    /// Whether a text is an experiment of this kind.
    pub fn is_one(text: &str) -> bool {
        let table = text.parse::<toml::Table>().ok();
        table.is_some_and(|t| t.get("role").and_then(toml::Value::as_str) == Some("replication"))
    }

    /// Reads it, in its full or its quick form; `path` is named in errors.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn parse(text: &str, path: &Path, quick: bool) -> Result<Self, PlanError> {
        let bad = |e: toml::de::Error| {
            let at = e.span().map_or(0, |span| span.start);
            let (line, column) = experiment::file::place(text, at);
            PlanError(format!("{}:{line}:{column}: {}", path.display(), e.message()))
        };
        let mut table: toml::Table = toml::from_str(text).map_err(bad)?;
        let short = table.remove("quick");
        // The full form is checked by its places first, without what only `[quick]` says.
        let full = text.find("\n[quick]").map_or(text, |end| &text[..end + 1]);
        let plan: ReplicationPlan = toml::from_str(full).map_err(bad)?;
        plan.check(path)?;
        let Some(toml::Value::Table(short)) = short.filter(|_| quick) else { return Ok(plan) };
        table.extend(short);
        let plan: Self = table.try_into().map_err(|e: toml::de::Error| {
            PlanError(format!("{}: [quick]: {}", path.display(), e.message()))
        })?;
        plan.check(path)?;
        Ok(plan)
    }

    /// How long queries are sent.
    pub fn duration(&self) -> Nanos {
        self.duration.parse().unwrap_or_default()
    }

    fn check(&self, path: &Path) -> Result<(), PlanError> {
        let must = |good: bool, why: String| {
            if good { Ok(()) } else { Err(PlanError(format!("{}: {why}", path.display()))) }
        };
        must(
            self.role == "replication",
            format!("the role is `replication`, not `{}`", self.role),
        )?;
        must(!self.primaries.is_empty(), "`primaries` names at least one server".to_owned())?;
        let known = Kind::ALL.map(Kind::name).join(", ");
        let single = |name: &&String| Kind::from_name(name).is_none();
        let mixed = |names: &&String| {
            Kind::group(names).is_none_or(|group| group.len() > usize::from(MOST_SECONDARIES))
        };
        let strange = self.primaries.iter().find(single);
        if let Some(name) = strange.or_else(|| self.secondaries.iter().find(mixed)) {
            let why = format!(
                "`{name}` is not a server here: {known}, or up to {MOST_SECONDARIES} secondaries as bind9+nsd"
            );
            must(false, why)?;
        }
        for name in &self.primaries {
            let takes = Kind::from_name(name).is_some_and(Kind::takes_updates);
            must(takes, format!("`{name}` takes no dynamic updates here: it can be a secondary"))?;
        }
        let follows = self.method != Method::QueryUnderUpdate || !self.secondaries.is_empty();
        must(follows, "`secondaries` names who is asked under update".to_owned())?;
        let rated = self.method != Method::QueryUnderUpdate || !self.rates.is_empty();
        must(
            rated,
            "`rates` says how fast updates come: [\"0\", \"8\", \"3%/day\", \"max\"]".to_owned(),
        )?;
        must(!self.signed.is_empty(), "`signed` is [false], [true] or both".to_owned())?;
        let (delegations, updates, repeats) = MOST;
        must(
            (100..=delegations).contains(&self.delegations),
            format!("`delegations` is a number from 100 to {delegations}"),
        )?;
        must(
            (1..=updates).contains(&self.updates),
            format!("`updates` is a number from 1 to {updates}"),
        )?;
        must(
            (1..=updates).contains(&self.killed_after),
            format!("`killed_after` is a number from 1 to {updates}"),
        )?;
        must(
            (1..=repeats).contains(&self.repeats),
            format!("`repeats` is a number from 1 to {repeats}"),
        )?;
        must(
            (1..=65_536).contains(&self.window),
            "`window` is a number from 1 to 65536".to_owned(),
        )?;
        let duration = self.duration.parse::<Nanos>().is_ok_and(|d| d.0 > 0);
        must(duration, format!("`{}` is not a duration such as 30s", self.duration))
    }
}
