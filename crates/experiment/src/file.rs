//! Experiments as TOML files. Unknown keys are refused; errors carry file, line and column.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use measure::{Goal, Nanos, Qps};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::search::Search;

/// An experiment, as its file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// One line on what it is.
    pub title: String,
    /// The servers, by the names of their adapters.
    pub servers: Vec<String>,
    /// What the servers are.
    pub role: Role,
    /// What is asked.
    #[serde(default)]
    pub workload: Workload,
    /// How the capacity is sought.
    pub search: SearchSettings,
    /// Which cores are whose.
    #[serde(default)]
    pub cpus: CpuPlan,
    /// What is otherwise under `--quick`.
    #[serde(default)]
    pub quick: SearchOverrides,
}

/// What a server under test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A DNS64 server that asks our AuthDNS.
    Dns64,
    /// A resolver that asks our AuthDNS.
    Resolver,
    /// An authoritative server of a generated namespace zone.
    Authoritative,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Workload {
    /// The block of addresses whose names are asked.
    pub namespace: String,
    /// The type.
    #[serde(rename = "type")]
    pub qtype: String,
    /// The prefix of synthesised addresses.
    pub pref64: String,
    /// The share (0 to 1) of names that have AAAA records of their own.
    pub aaaa_share: f64,
}

impl Default for Workload {
    /// RFC 8219's worst case, over a network-specific prefix: the names' addresses are not all global, and
    /// a right server does not embed the others under the well-known one (RFC 6052 section 3.1).
    fn default() -> Self {
        Workload {
            namespace: "0.0.0.0/2".into(),
            qtype: "AAAA".into(),
            pref64: "2001:db8:64::/96".into(),
            aaaa_share: 0.0,
        }
    }
}

/// How the capacity is sought.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SearchSettings {
    /// The goal.
    #[serde(deserialize_with = "text")]
    pub goal: Goal,
    /// The first rate.
    #[serde(deserialize_with = "text")]
    pub start: Qps,
    /// The lowest rate.
    #[serde(deserialize_with = "text", default = "default_min")]
    pub min: Qps,
    /// The highest rate, which the Tester is to be certified for.
    #[serde(deserialize_with = "text")]
    pub max: Qps,
    /// The width of the bracket at the end, as a share of the rate.
    pub resolution: f64,
    /// Of a trial.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Of a query.
    #[serde(deserialize_with = "text")]
    pub timeout: Nanos,
    /// How many searches.
    pub repeats: u32,
}

/// What `--quick` changes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SearchOverrides {
    /// See [`SearchSettings::goal`].
    #[serde(deserialize_with = "some_text")]
    pub goal: Option<Goal>,
    /// See [`SearchSettings::start`].
    #[serde(deserialize_with = "some_text")]
    pub start: Option<Qps>,
    /// See [`SearchSettings::max`].
    #[serde(deserialize_with = "some_text")]
    pub max: Option<Qps>,
    /// See [`SearchSettings::resolution`].
    pub resolution: Option<f64>,
    /// See [`SearchSettings::duration`].
    #[serde(deserialize_with = "some_text")]
    pub duration: Option<Nanos>,
    /// See [`SearchSettings::repeats`].
    pub repeats: Option<u32>,
}

/// Which cores are whose.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CpuPlan {
    /// The Measurer's.
    pub tester: Vec<usize>,
    /// The AuthDNS's.
    pub auth: Vec<usize>,
    /// The server's.
    pub dut: Vec<usize>,
}

impl Default for CpuPlan {
    /// For two cores: the Tester, both of its parts, on core 0, the server on core 1.
    fn default() -> Self {
        CpuPlan { tester: vec![0], auth: vec![0], dut: vec![1] }
    }
}

/// Rates below this are hardly a DNS server's.
fn default_min() -> Qps {
    Qps::new(1_000.0).expect("a rate")
}

/// A value written as text, such as `"5s"`.
fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// The same, when it is there.
fn some_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    text(deserializer).map(Some)
}

/// An experiment file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the experiment {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not understood.
    #[error("{}:{line}:{column}: {why}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong and what would be accepted.
        why: String,
    },
    /// A value makes no sense.
    #[error("{}: {why}", path.display())]
    Senseless {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Experiment {
    /// Reads an experiment from a file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FileError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Reads an experiment from `text`; `path` is named in errors.
    ///
    /// # Errors
    /// [`FileError`], but for the unreadable.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let experiment: Experiment = toml::from_str(text).map_err(|e| {
            let (line, column) = place(text, e.span().map_or(0, |span| span.start));
            FileError::Bad {
                path: path.to_owned(),
                line,
                column,
                why: e.message().replace('\n', "; "),
            }
        })?;
        match experiment.nonsense() {
            Some(why) => Err(FileError::Senseless { path: path.to_owned(), why: why.to_owned() }),
            None => Ok(experiment),
        }
    }

    /// What makes no sense, if anything.
    fn nonsense(&self) -> Option<&'static str> {
        let s = self.search();
        let overlap = self
            .cpus
            .dut
            .iter()
            .any(|cpu| self.cpus.tester.contains(cpu) || self.cpus.auth.contains(cpu));
        if self.servers.is_empty() {
            Some("`servers` names no server")
        } else if !(0.0001..=0.5).contains(&s.resolution)
            || self.quick.resolution.is_some_and(|r| !(0.0001..=0.5).contains(&r))
        {
            Some("`resolution` is a share from 0.0001 to 0.5")
        } else if s.min.get() > s.max.get() || s.start.get() > s.max.get() {
            Some("`max` is below `start` or `min`")
        } else if self.search.repeats == 0 || self.quick.repeats == Some(0) {
            Some("`repeats` is at least 1")
        } else if s.duration == Nanos::ZERO || s.timeout == Nanos::ZERO {
            Some("`duration` and `timeout` are longer than nothing")
        } else if !(0.0..=1.0).contains(&self.workload.aaaa_share) {
            Some("`aaaa-share` is a share from 0 to 1")
        } else if [&self.cpus.tester, &self.cpus.auth, &self.cpus.dut]
            .iter()
            .any(|cpus| cpus.is_empty())
        {
            Some("`cpus` gives each of tester, auth and dut a core")
        } else if overlap {
            Some("`cpus` gives the server a core of the Tester's: neither would be measured alone")
        } else {
            None
        }
    }

    /// The experiment with what `--quick` changes.
    pub fn quick(mut self) -> Self {
        let quick = self.quick.clone();
        let s = &mut self.search;
        s.goal = quick.goal.unwrap_or_else(|| s.goal.clone());
        s.start = quick.start.unwrap_or(s.start);
        s.max = quick.max.unwrap_or(s.max);
        s.resolution = quick.resolution.unwrap_or(s.resolution);
        s.duration = quick.duration.unwrap_or(s.duration);
        s.repeats = quick.repeats.unwrap_or(s.repeats);
        self
    }

    /// The search of one repeat.
    pub fn search(&self) -> Search {
        let s = &self.search;
        Search {
            goal: s.goal.clone(),
            start: s.start,
            min: s.min,
            max: s.max,
            resolution: s.resolution,
            duration: s.duration,
            timeout: s.timeout,
            void_retries: 2,
        }
    }
}

/// Line and column (from 1, in characters) of byte `at` of `text`, for errors of TOML files.
pub fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "x"
title = "an experiment"
role = "dns64"
servers = ["unbound"]

[search]
goal = "zero-loss"
start = "10k"
max = "1M"
resolution = 0.01
duration = "60s"
timeout = "1s"
repeats = 20

[quick]
duration = "2s"
repeats = 3
"#;

    fn error(text: &str) -> String {
        Experiment::parse(text, Path::new("x.toml")).expect_err(text).to_string()
    }

    #[test]
    fn a_good_file_and_its_quick_form() {
        let experiment = Experiment::parse(GOOD, Path::new("x.toml")).expect("good");
        assert_eq!(
            (experiment.search.duration, experiment.search.repeats),
            (Nanos::from_secs(60), 20)
        );
        assert_eq!(experiment.workload.pref64, "2001:db8:64::/96");
        let quick = experiment.quick();
        assert_eq!((quick.search.duration, quick.search.repeats), (Nanos::from_secs(2), 3));
        assert_eq!(quick.search().start, Qps::new(10_000.0).expect("a rate"));
    }

    #[test]
    fn errors_have_their_place() {
        let table = [
            (GOOD.replace("start = \"10k\"", "start = \"10x\""), "x.toml:9:9: `10x` is not a rate"),
            (GOOD.replace("repeats = 20", "repeat = 20"), "x.toml:14:1: unknown field `repeat`"),
            (
                GOOD.replace("role = \"dns64\"", "role = \"dns63\""),
                "x.toml:4:8: unknown variant `dns63`",
            ),
            (GOOD.replace("[quick]", "[quick"), "x.toml:16:7: "),
            (GOOD.replace("[\"unbound\"]", "[]"), "x.toml: `servers` names no server"),
            (
                GOOD.replace("resolution = 0.01", "resolution = 7"),
                "x.toml: `resolution` is a share",
            ),
            (GOOD.replace("max = \"1M\"", "max = \"5k\""), "x.toml: `max` is below"),
            (
                format!("{GOOD}\n[cpus]\ndut = [0]\n"),
                "x.toml: `cpus` gives the server a core of the Tester's",
            ),
        ];
        for (text, start) in table {
            let error = error(&text);
            assert!(error.starts_with(start), "{error}\nwanted {start}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_spoiled_file_is_refused_with_its_place_or_makes_sense(at in 0usize..400, byte: u8, cut: bool) {
            let mut bytes = GOOD.as_bytes().to_vec();
            let at = at % bytes.len();
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Ok(text) = String::from_utf8(bytes)
                && let Err(e) = Experiment::parse(&text, Path::new("x.toml"))
            {
                proptest::prop_assert!(e.to_string().starts_with("x.toml:"), "{}", e);
            }
        }
    }
}
