//! The program as a user calls it, and what it prints.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

pub(crate) use super::held::Held;
use super::words::words;

/// `dnsdyno` with the words of a line, and without a standard input.
pub(crate) fn dnsdyno(line: &str) -> Command {
    let mut command = Command::new(cargo_bin("dnsdyno"));
    command.args(words(line)).stdin(Stdio::null());
    command
}

/// Exit code, standard output and standard error of a command that ended by itself.
pub(crate) type Told = (i32, String, String);

/// What a command that has ended printed.
pub(crate) fn told(output: Output) -> Told {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// The standard error of a command that has ended.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Both outputs of a command that has ended.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Runs `dnsdyno` with the words of a line in a folder, where it also keeps its runs.
pub(crate) fn run_in(dir: &Path, line: &str) -> Told {
    let mut command = dnsdyno(line);
    command.env("DNSDYNO_STORE", dir.join("runs.db")).current_dir(dir);
    told(command.output().expect("starts"))
}

/// Runs `dnsdyno` with the words of a line in a folder that goes away with what it leaves there.
pub(crate) fn run(line: &str) -> Told {
    run_in(tempfile::tempdir().expect("a folder").path(), line)
}

/// Runs a command that must fail as one with bad input does; returns what it says.
pub(crate) fn refused(line: &str) -> String {
    let (code, out, err) = run(line);
    assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
    err
}

/// The document that a command prints with `--json -`.
pub(crate) fn json(line: &str) -> Value {
    let (_, out, err) = run(line);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{line}: {e}: {out}{err}"))
}

/// The trial of a load that does not look first whether the server answers; its seconds have all queries.
pub(crate) fn load(target: &str, args: &str) -> Value {
    let trial = json(&format!("load {target} --no-check --json - {args}"));
    let seconds = trial["series"].as_array().into_iter().flatten();
    let sent: u64 = seconds.filter_map(|second| second["sent"].as_u64()).sum();
    assert_eq!(Some(sent), trial["sent"].as_u64(), "{trial}");
    trial
}

/// The list of the runs in a folder's store; null if it cannot be read.
pub(crate) fn runs(dir: &Path) -> Value {
    serde_json::from_str(&run_in(dir, "runs --json -").1).unwrap_or_default()
}

/// The number of trials of the first of them.
pub(crate) fn trials(dir: &Path) -> u64 {
    runs(dir)[0]["trials"].as_u64().unwrap_or(0)
}

/// Gives a task of the lab to the process that does those of this name.
pub(crate) fn task(name: &str, task: &lab::Task) -> Told {
    let mut command = Command::new(cargo_bin("dnsdyno"));
    command.args([lab::TASK_COMMAND, name]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&serde_json::to_vec(task).expect("JSON")).expect("writes");
    drop(input);
    told(child.wait_with_output().expect("ends"))
}

/// Checks a document by the published schema of this name.
pub(crate) fn check_schema(name: &str, document: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = std::fs::read(folder.join(name).with_extension("json")).expect("a schema");
    let schema: Value = serde_json::from_slice(&text).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let faults = validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path()));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

/// Writes the experiment `x.toml`: a load of our own AuthDNS, which is always there.
pub(crate) fn small_load(dir: &Path, name: &str, repeats: u32, duration: &str) {
    let text = format!(
        "name = \"{name}\"\ntitle = \"a small load\"\nrole = \"authoritative\"\nservers = [\"authdns\"]\nmethod = \"load\"\n\
         repeats = {repeats}\n[workload]\nnamespace = \"10.0.0.0/24\"\n\
         [load]\nrates = [\"500\"]\nduration = \"{duration}\"\ntimeout = \"200ms\"\n"
    );
    std::fs::write(dir.join("x.toml"), text).expect("writes");
}

/// A run of the lab.
pub(crate) struct Ran {
    pub(crate) code: i32,
    /// What it printed on both outputs.
    pub(crate) told: String,
    /// The record of the run, with whole trials; null if it wrote none.
    pub(crate) run: Value,
}

impl Ran {
    /// Runs an experiment with trials of this time, or of its own if it is empty, in a folder, after the runs of others; `None`,
    /// with a notice, where there are no namespaces.
    pub(crate) fn experiment(dir: &Path, trial: &str, text: &str, line: &str) -> Option<Self> {
        std::fs::write(dir.join("x.toml"), text).expect("writes");
        // It was of another run.
        let _ = std::fs::remove_file(dir.join("run.json"));
        let file = if line.contains("--resume") { "" } else { "x.toml" };
        let mut command = dnsdyno(&format!("run --wait --json run.json {file} {line}"));
        command.env("DNSDYNO_STORE", dir.join("runs.db"));
        if !trial.is_empty() {
            command.env("DNSDYNO_TEST_TRIAL", trial);
        }
        let (code, out, err) = told(command.current_dir(dir).output().expect("starts"));
        let told = out + &err;
        if told.contains("cannot get its namespaces") {
            return skip::none(told);
        }
        let record = std::fs::read(dir.join("run.json")).ok();
        let record = record.and_then(|text| serde_json::from_slice(&text).ok());
        Some(Ran { code, told, run: super::shared::whole(record.unwrap_or_default()) })
    }
}
