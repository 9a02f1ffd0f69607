//! `dnsdyno site`: runs as a static site.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use report::site::{File, LIST, Site, listed};

use crate::arguments::store::{RunRef, StoreArgs};
use crate::failure::Failure;
use crate::output::make_folder;

#[derive(Args, Clone, Debug)]
pub(crate) struct SiteArgs {
    /// The folder of the site: a new or empty one, or a site whose pages are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Runs: their numbers, `last`, `last~1` for the one before, or JSON files
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<RunRef>,
    /// The title above the index
    #[arg(long, value_name = "TEXT", default_value = "Results of DNS servers")]
    title: String,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) const EXAMPLES: &str = "Examples:
  A site of two runs of the store and of the records of a folder
    dnsdyno site public 7 8 records/*.json

  The index is public/index.html; any web server can serve the folder, and a browser can open it as it is.
  The site has the runs that are named: name the older ones again to keep them. Pages of runs that are no longer named are removed.";

pub(crate) fn run(args: &SiteArgs) -> Result<(), Failure> {
    let folder = &args.folder;
    is_ours(folder)?;
    for part in ["runs", "servers", "builds"] {
        make_folder(&folder.join(part))?;
    }
    let mut site = Site::new(&args.title);
    // A folder in which a run could not be read is ours the next time, too.
    let list = folder.join(LIST);
    let before = std::fs::read_to_string(&list).unwrap_or_default();
    if before.is_empty() {
        record::write_bytes(&list, b"{\"runs\": []}\n").map_err(Failure::run)?;
    }
    let mut written = BTreeSet::new();
    for run in &args.runs {
        // Runs are loaded one at a time: a site may have more than fit in memory.
        let run = args.store.load(run)?;
        write(folder, site.add(&run), &mut written)?;
    }
    write(folder, site.finish(), &mut written)?;
    for withdrawn in listed(&before).iter().filter(|path| !written.contains(*path)) {
        let path = folder.join(withdrawn);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::run(anyhow!("cannot remove {}: {e}", path.display())));
            }
            _ => {}
        }
    }
    println!("{}", folder.join("index.html").display());
    Ok(())
}

/// Refuses a folder with files that do not belong to a site.
fn is_ours(folder: &Path) -> Result<(), Failure> {
    let mut files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Failure::input(anyhow!("cannot read {}: {e}", folder.display()))),
    };
    if files.next().is_none() || folder.join(LIST).is_file() {
        return Ok(());
    }
    let folder = folder.display();
    Err(Failure::input(anyhow!(
        "{folder} is neither empty nor a site of dnsdyno (it has no {LIST}); name a new folder"
    )))
}

/// Writes files, and records their paths.
fn write(folder: &Path, files: Vec<File>, written: &mut BTreeSet<String>) -> Result<(), Failure> {
    files.into_iter().try_for_each(|file| {
        record::write_bytes(&folder.join(&file.path), &file.content).map_err(Failure::run)?;
        written.insert(file.path);
        Ok(())
    })
}
