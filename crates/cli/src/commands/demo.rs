//! `dnsdyno demo`: a first measurement from this program alone, without a file or a setting.
//!
//! ```text
//! a DNS64 server is installed, or beside this program ──> dns64-rfc8219 --quick ──┐
//! none is ──> auth-scaling --quick, of the AuthDNS in this program ───────────────┴──> table, demo.json, demo.html
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use experiment::Experiment;
use lab::built_in;
use lab::detect::detect;
use lab::{Catalogue, is_inside};

use crate::failure::Failure;
use crate::output;

/// The experiment of installed servers.
const INSTALLED: &str = "dns64-rfc8219";
/// The experiment where none is installed, and the server of it that is in this program.
const WITHOUT_SERVERS: (&str, &str) = ("auth-scaling", "authdns");

pub(crate) const EXAMPLES: &str = "Examples:
  Measure the DNS64 servers of this host in minutes; the table here, the page in demo.html
    dnsdyno demo

  The same with a server more
    apt-get install unbound && dnsdyno demo";

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// The folder of the record (demo.json) and of the page (demo.html)
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
}

/// Runs commands of this program by `command`.
pub(crate) fn run(
    args: &DemoArgs,
    command: impl Fn(Vec<OsString>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    output::make_folder(&args.output)?;
    let [record, page] = ["demo.json", "demo.html"].map(|name| args.output.join(name));
    let (experiment, server) = chosen_experiment()?;
    let mut words: Vec<OsString> = vec!["run".into(), experiment.into(), "--quick".into()];
    words.extend(server.map(|name| format!("--servers={name}").into()));
    words.extend(["--json".into(), record.clone().into()]);
    // The lab executes this program again: the process outside writes the page.
    if is_inside() {
        return command(words);
    }
    output::try_writing([&Some(record.clone()), &Some(page.clone())])?;
    let _ = std::fs::remove_file(&record);
    let measured = command(words);
    if record.exists() {
        println!("every trial of it: {}\nthe report:", record.display());
        command(vec!["report".into(), record.into(), "--output".into(), page.into()])?;
    }
    measured
}

/// Returns the experiment, and the only server of it if nothing is installed.
fn chosen_experiment() -> Result<(&'static str, Option<&'static str>), Failure> {
    let catalogue = Catalogue::load(None).map_err(Failure::input)?;
    let text = built_in::experiment(INSTALLED).unwrap_or_default();
    let experiment = Experiment::parse(text, Path::new(INSTALLED)).map_err(Failure::input)?;
    let is_there =
        |name: &String| catalogue.get(name).is_ok_and(|adapter| detect(adapter).program.is_some());
    if experiment.common().servers.iter().any(is_there) {
        return Ok((INSTALLED, None));
    }
    if !is_inside() {
        eprintln!(
            "no DNS64 server is installed: the AuthDNS of this program is measured (`dnsdyno servers` names packages)"
        );
    }
    Ok((WITHOUT_SERVERS.0, Some(WITHOUT_SERVERS.1)))
}
