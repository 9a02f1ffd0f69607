//! Experiments as TOML files: the matrix, the changes of `--quick` and `--medium`, and the places of mistakes.
//!
//! ```text
//! file ──> tables with places ──(a form merged in)──> matrix: dimension x dimension x ...
//!                                                       └──> each point merged in ──> Settings, checked
//! ```
//!
//! All forms are checked at every point of the matrix before anything starts. A merged value keeps
//! its place in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use record::Form;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

pub use crate::settings::{
    ClosedSettings, CpuPlan, Generator, HostSettings, Method, Order, Role, Settings, Workload,
};
use crate::validate::validate;

/// Largest number of points of a matrix.
const MAX_POINTS: usize = 4_096;
/// Largest size of an experiment file, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Keys that hold for the whole experiment and cannot be varied.
const COMMON_KEYS: [&str; 15] = [
    "name", "title", "role", "servers", "method", "repeats", "order", "budget", "cpus", "matrix",
    "medium", "quick", "warm-up", "custom", "baseline",
];
/// The common key that a group may still change: a cell may need fewer repeats.
const OF_GROUPS: &str = "repeats";

/// An experiment, as its file describes it.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Points of the matrix, in the order of the file; at least one.
    pub points: Vec<Point>,
    /// Text of the file as read, for the record of a run.
    pub text: String,
    /// Which form `points` are of.
    pub form: Form,
    /// Points of the other forms, as they were read.
    others: BTreeMap<Form, Vec<Point>>,
    path: PathBuf,
    folder: PathBuf,
}

/// One point of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Varied keys with their values at this point.
    pub varied: BTreeMap<String, String>,
    /// Settings at this point: the file's settings, with the varied keys replaced.
    pub settings: Settings,
    /// Place of each value in the file: byte offsets by dotted path.
    places: BTreeMap<String, usize>,
}

/// Error of an experiment file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read the experiment {path}: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// The file is not valid TOML, or a value is invalid.
    #[error("{}:{line}:{column}: {why}", path.display())]
    Bad {
        /// Path of the experiment file.
        path: PathBuf,
        /// Line of the mistake, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// The problem, and what would be accepted.
        why: String,
    },
}

impl Experiment {
    /// Reads an experiment from a file.
    ///
    /// # Errors
    /// [`FileError`], if the file cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FileError::Unreadable(path.to_owned(), source))?;
        Self::parse(&text, path)
    }

    /// Parses an experiment from `text`; errors name `path`.
    ///
    /// # Errors
    /// [`FileError::Bad`], with its place.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let bad = |wrong: Fault| bad_at(text, path, wrong.at, wrong.why);
        if text.len() > MAX_TEXT {
            let why = format!("{} bytes; an experiment file has at most {MAX_TEXT}", text.len());
            return Err(bad(Fault { at: 0, why }));
        }
        let whole = DeTable::parse(text).map_err(|e| bad(Fault::from(e)))?.into_inner();
        let (full, others) = forms(whole).map_err(bad)?;
        let points = points(text, full).map_err(bad)?;
        let others = others.into_iter().map(|(form, table)| Ok((form, self::points(text, table)?)));
        let others = others.collect::<Result<_, _>>().map_err(bad)?;
        let (text, path) = (text.to_owned(), path.to_owned());
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Experiment { points, text, form: Form::Full, others, path, folder })
    }

    /// Returns the file's folder, at which relative paths in it begin.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the experiment with relative paths that begin at `folder`.
    pub fn in_folder(self, folder: &Path) -> Self {
        Experiment { folder: folder.to_owned(), ..self }
    }

    /// Returns a form of the experiment as it was read: with the changes of `[quick]` or `[medium]`.
    ///
    /// # Errors
    /// [`FileError::Bad`], if the file has no such table.
    pub fn in_form(mut self, form: Form) -> Result<Self, FileError> {
        if form == self.form {
            return Ok(self);
        }
        let Some(points) = self.others.remove(&form) else {
            let has: String = self.others.keys().map(|form| form.option()).collect();
            let why =
                format!("no table [{}]: run it without this option, or with{has}", form.word());
            return Err(bad_at(&self.text, &self.path, 0, why));
        };
        let current = std::mem::replace(&mut self.points, points);
        self.others.insert(std::mem::replace(&mut self.form, form), current);
        Ok(self)
    }

    /// Returns the experiment with other cores of some roles, by their keys, at all points.
    ///
    /// # Errors
    /// [`FileError::Bad`], if the server gets a core of the Tester's.
    pub fn on_cpus(mut self, cpus: &BTreeMap<String, Vec<usize>>) -> Result<Self, FileError> {
        for (role, list) in cpus {
            for point in &mut self.points {
                if let Some(cores) = point.settings.cpus.of_role(role) {
                    cores.clone_from(list);
                }
            }
        }
        self.validated()
    }

    /// Returns the experiment with this number of repeats instead of its own.
    ///
    /// # Errors
    /// [`FileError::Bad`], if the method does not allow this number of repeats.
    pub fn repeated(mut self, repeats: u32) -> Result<Self, FileError> {
        self.points.iter_mut().for_each(|point| point.settings.repeats = repeats);
        self.validated()
    }

    /// Returns the experiment if its settings are valid at all points.
    fn validated(self) -> Result<Self, FileError> {
        for point in &self.points {
            validate(&point.settings).map_err(|(key, why)| self.bad(point, key, why))?;
        }
        Ok(self)
    }

    /// Returns the settings that all points share: name, title, servers, method, order. Varied settings have the values
    /// of the first point.
    pub fn common(&self) -> &Settings {
        &self.points[0].settings
    }

    /// Returns an error about the value at `key` (with dots) of a point, with its place.
    pub fn bad(&self, point: &Point, key: &str, why: String) -> FileError {
        bad_at(&self.text, &self.path, point.place_of(key), why)
    }
}

impl Point {
    /// Returns the byte offset of a value, or of the table where it is missing.
    fn place_of(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            match (self.places.get(key), key.rsplit_once('.')) {
                (Some(at), _) => return *at,
                (None, Some((parent, _))) => key = parent,
                (None, None) => return 0,
            }
        }
    }
}

/// Returns line and column (from 1, in characters) of byte `at` of `text`, for errors of TOML files.
pub fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn bad_at(text: &str, path: &Path, at: usize, why: String) -> FileError {
    let (line, column) = place(text, at);
    FileError::Bad { path: path.to_owned(), line, column, why }
}

/// An error at one byte of the text.
struct Fault {
    at: usize,
    why: String,
}

impl Fault {
    fn new<T>(at: usize, why: impl Into<String>) -> Result<T, Self> {
        Err(Fault { at, why: why.into() })
    }
}

impl From<toml::de::Error> for Fault {
    fn from(e: toml::de::Error) -> Self {
        let at = e.span().map_or(0, |span| span.start);
        Fault { at, why: e.message().trim().replace('\n', "; ") }
    }
}

/// Splits a file into its full form and its others, each with its table merged in; `[quick]` may be
/// absent, and then equals the full form.
fn forms<'t>(mut whole: DeTable<'t>) -> Result<(DeTable<'t>, BTreeMap<Form, DeTable<'t>>), Fault> {
    let medium = take_table(&mut whole, Form::Medium.word())?.map(|table| (Form::Medium, table));
    let quick = take_table(&mut whole, Form::Quick.word())?.unwrap_or_default();
    let mut forms = BTreeMap::new();
    for (form, mut changes) in medium.into_iter().chain([(Form::Quick, quick)]) {
        for inner in [Form::Medium, Form::Quick] {
            if let Some((key, _)) = changes.get_key_value(inner.word()) {
                let why = format!("`[{}]` has no `[{}]`", form.word(), inner.word());
                return Err(Fault { at: key.span().start, why });
            }
        }
        // A dimension of the form replaces the file's dimension, with all its values.
        let matrix = take_table(&mut changes, "matrix")?;
        let mut merged = whole.clone();
        merge(&mut merged, changes);
        if let Some(matrix) = matrix {
            let mut both = take_table(&mut merged, "matrix")?.unwrap_or_default();
            merge(&mut both, matrix);
            let key = Spanned::new(0..0, "matrix".into());
            merged.insert(key, Spanned::new(0..0, DeValue::Table(both)));
        }
        forms.insert(form, merged);
    }
    Ok((whole, forms))
}

/// Removes an optional table and returns it.
fn take_table<'t>(from: &mut DeTable<'t>, key: &str) -> Result<Option<DeTable<'t>>, Fault> {
    let Some(value) = from.remove(key) else { return Ok(None) };
    let at = value.span().start;
    match value.into_inner() {
        DeValue::Table(table) => Ok(Some(table)),
        other => Fault::new(at, format!("`{key}` is a table, not {}", type_name(&other))),
    }
}

fn type_name(value: &DeValue<'_>) -> String {
    let word = value.type_str();
    let article = if word.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// Merges `from` into `into`: tables are merged, other values are replaced.
fn merge<'t>(into: &mut DeTable<'t>, from: DeTable<'t>) {
    for (key, value) in from {
        let below = into.remove(key.get_ref().as_ref());
        let merged = match (below.map(Spanned::into_inner), value) {
            (Some(DeValue::Table(mut below)), value) if value.get_ref().is_table() => {
                let span = value.span();
                if let DeValue::Table(above) = value.into_inner() {
                    merge(&mut below, above);
                }
                Spanned::new(span, DeValue::Table(below))
            }
            (_, value) => value,
        };
        into.insert(key, merged);
    }
}

/// One dimension of the matrix.
struct Dimension<'t> {
    /// Keys that lead to the varied value.
    path: Vec<String>,
    /// Choices: the word of each, and the settings that it changes.
    choices: Vec<(String, DeTable<'t>)>,
}

/// Returns the points of a form: the product of its dimensions; the first dimension changes slowest.
fn points(text: &str, mut form: DeTable<'_>) -> Result<Vec<Point>, Fault> {
    let matrix_at = form.get("matrix").map_or(0, |matrix| matrix.span().start);
    let matrix = take_table(&mut form, "matrix")?.unwrap_or_default();
    let mut dimensions = Vec::new();
    find_dimensions(text, matrix, &mut Vec::new(), &mut dimensions)?;
    let mut count = 1_usize;
    for dimension in &dimensions {
        count = count.saturating_mul(dimension.choices.len());
    }
    if count > MAX_POINTS {
        return Fault::new(
            matrix_at,
            format!("the matrix has {count} points; at most {MAX_POINTS} are allowed"),
        );
    }
    let names = names(&dimensions);
    let mut points = Vec::with_capacity(count);
    for number in 0..count {
        let (mut left, mut table, mut varied) = (number, form.clone(), BTreeMap::new());
        for (dimension, name) in dimensions.iter().zip(&names).rev() {
            let (word, changes) = &dimension.choices[left % dimension.choices.len()];
            left /= dimension.choices.len();
            varied.insert(name.clone(), word.clone());
            merge(&mut table, changes.clone());
        }
        points.push(point(table, varied)?);
    }
    Ok(points)
}

/// Parses and checks one point.
fn point(table: DeTable<'_>, varied: BTreeMap<String, String>) -> Result<Point, Fault> {
    let mut places = BTreeMap::new();
    note_places(&table, "", &mut places);
    let settings = Settings::deserialize(Deserializer::from(Spanned::new(0..0, table)))
        .map_err(Fault::from)?;
    let point = Point { varied, settings, places };
    match validate(&point.settings) {
        Err((key, why)) => Fault::new(point.place_of(key), why),
        Ok(()) => Ok(point),
    }
}

/// Records the places of the values of a table.
fn note_places(table: &DeTable<'_>, above: &str, places: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let dot = if above.is_empty() { "" } else { "." };
        let path = format!("{above}{dot}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            note_places(inner, &path, places);
        }
        places.insert(path, value.span().start);
    }
}

/// Collects the dimensions of `[matrix]`: lists are dimensions, tables contain further ones.
fn find_dimensions<'t>(
    text: &str,
    matrix: DeTable<'t>,
    path: &mut Vec<Spanned<std::borrow::Cow<'t, str>>>,
    found: &mut Vec<Dimension<'t>>,
) -> Result<(), Fault> {
    // In the order of the file, not of the table.
    let mut entries: Vec<_> = matrix.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let (name, at) = (key.get_ref().to_string(), key.span().start);
        let span = value.span();
        path.push(key);
        match value.into_inner() {
            DeValue::Array(values) => {
                let group = values.iter().all(|v| v.get_ref().is_table());
                if path.len() == 1 && !group && COMMON_KEYS.contains(&name.as_str()) {
                    return Fault::new(
                        at,
                        format!("`{name}` holds for the whole experiment and cannot be varied"),
                    );
                }
                let mut choices: Vec<(String, DeTable<'t>)> = Vec::new();
                for value in values {
                    let at = value.span().start;
                    let choice = if group { named(value)? } else { plain(text, path, value) };
                    if choices.iter().any(|(word, _)| *word == choice.0) {
                        return Fault::new(at, format!("`{}` is listed twice", choice.0));
                    }
                    choices.push(choice);
                }
                if choices.is_empty() {
                    return Fault::new(span.start, format!("`{name}` has no values"));
                }
                let path = path.iter().map(|key| key.get_ref().to_string()).collect();
                found.push(Dimension { path, choices });
            }
            DeValue::Table(inner) => find_dimensions(text, inner, path, found)?,
            other => {
                let why = format!("`{name}` is a list of values, not {}", type_name(&other));
                return Fault::new(span.start, why);
            }
        }
        path.pop();
    }
    Ok(())
}

/// Builds the nested tables of one value's key, with the value in the innermost.
fn plain<'t>(
    text: &str,
    path: &[Spanned<std::borrow::Cow<'t, str>>],
    value: Spanned<DeValue<'t>>,
) -> (String, DeTable<'t>) {
    let word = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        _ => text.get(value.span()).unwrap_or_default().to_owned(),
    };
    let span = value.span();
    let mut table = DeTable::new();
    let mut keys = path.iter().rev();
    if let Some(last) = keys.next() {
        table.insert(last.clone(), value);
    }
    for key in keys {
        let inner = std::mem::take(&mut table);
        table.insert(key.clone(), Spanned::new(span.clone(), DeValue::Table(inner)));
    }
    (word, table)
}

/// Makes the choice of a named group of changes: a table with a `name`.
fn named<'t>(value: Spanned<DeValue<'t>>) -> Result<(String, DeTable<'t>), Fault> {
    let at = value.span().start;
    let DeValue::Table(mut changes) = value.into_inner() else {
        return Fault::new(at, "a table with a `name` and the settings that it changes");
    };
    let name = changes.remove("name");
    let Some(DeValue::String(name)) = name.map(Spanned::into_inner) else {
        return Fault::new(at, "each needs a `name` (a text), beside the settings that it changes");
    };
    let common = |key: &str| COMMON_KEYS.contains(&key) && key != OF_GROUPS;
    if let Some((key, _)) = changes.iter().find(|(key, _)| common(key.get_ref().as_ref())) {
        let why =
            format!("`{}` holds for the whole experiment and cannot be varied", key.get_ref());
        return Fault::new(key.span().start, why);
    }
    Ok((name.into_owned(), changes))
}

/// Returns a name for each dimension: its last key, or the whole path if two dimensions share their last key.
fn names(dimensions: &[Dimension<'_>]) -> Vec<String> {
    let last = |d: &Dimension<'_>| d.path.last().cloned().unwrap_or_default();
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<String> =
        dimensions.iter().map(last).filter(|name| !seen.insert(name.clone())).collect();
    let name = |d: &Dimension<'_>| {
        let last = last(d);
        if twice.contains(&last) { d.path.join(".") } else { last }
    };
    dimensions.iter().map(name).collect()
}
