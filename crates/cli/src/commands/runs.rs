//! `dnsdyno runs`, `show`, `export` and `delete`: the runs that the store keeps.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use record::{Run, RunLine, Table};
use report::export::{self, Better};
use serde_json::Value;

use crate::arguments::choice::{Choice, choice};
use crate::arguments::json::JsonArgs;
use crate::arguments::store::{RunRef, StoreArgs, failure};
use crate::failure::Failure;
use crate::output::{create, make_folder, print};

#[derive(Args, Clone, Debug)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// Number of the run, `last`, `last~1` for the one before, or a JSON file
    #[arg(value_name = "RUN", default_value = "last")]
    run: RunRef,
    /// Show what the table rests on too: conditions, proofs of limiters, void repeats, warnings, differences from RFC 8219, every figure
    #[arg(long)]
    details: bool,
    /// Show each trial too
    #[arg(long)]
    trials: bool,
    /// Show the experiment's file and the configuration files as they were used
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RunsExportArgs {
    /// Number of the run, `last`, `last~1` for the one before, or a JSON file
    #[arg(value_name = "RUN", default_value = "last")]
    run: RunRef,
    /// What the run is written as
    #[arg(long, value_parser = choice(&FORMATS), value_name = "FORMAT")]
    format: RunsFormat,
    /// The table of --format csv [default: trials]
    #[arg(long, value_parser = choice(&TABLES), value_name = "TABLE")]
    table: Option<Which>,
    /// With --format json, also write the buckets of each histogram, for programs that cannot read the encoded form
    #[arg(long)]
    buckets: bool,
    /// The file to write; `-` is the standard output. With --format svg a folder
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Format in which a run is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RunsFormat {
    Json,
    JsonLines,
    Csv,
    DnsMetrics,
    Bencher,
    GithubBenchmark(Better),
    Junit,
    Hlog,
    OpenMetrics,
    Markdown,
    Latex,
    Svg,
}

/// Forms of a run for other programs.
const FORMATS: [Choice<RunsFormat>; 13] = [
    ("json", "The whole run, as `dnsdyno run --json` writes it", RunsFormat::Json),
    (
        "json-lines",
        "A JSON object for each trial on a line of its own, with its server and settings",
        RunsFormat::JsonLines,
    ),
    ("csv", "A table of comma-separated values (--table)", RunsFormat::Csv),
    (
        "dns-metrics",
        "DNS-OARC's shared schema dns-metrics, an object a line, as kxdpgun writes it",
        RunsFormat::DnsMetrics,
    ),
    ("bencher", "The figures in the Bencher Metric RunsFormat", RunsFormat::Bencher),
    (
        "github-bigger",
        "Rates for github-action-benchmark's tool customBiggerIsBetter",
        RunsFormat::GithubBenchmark(Better::Bigger),
    ),
    (
        "github-smaller",
        "Times, memory and CPU for its tool customSmallerIsBetter",
        RunsFormat::GithubBenchmark(Better::Smaller),
    ),
    ("junit", "The goals as tests, in JUnit's XML", RunsFormat::Junit),
    ("hlog", "The latencies of each trial as an interval log of HdrHistogram", RunsFormat::Hlog),
    (
        "openmetrics",
        "The figures and the latencies as OpenMetrics, with histograms",
        RunsFormat::OpenMetrics,
    ),
    ("markdown", "The figures as a table in Markdown", RunsFormat::Markdown),
    ("latex", "The figures as a table in LaTeX, with the rules of booktabs", RunsFormat::Latex),
    (
        "svg",
        "The plots of the page, each as an SVG file in the folder of --output",
        RunsFormat::Svg,
    ),
];

/// Returns the words of `--format` of an export.
pub(crate) fn format_words() -> String {
    FORMATS.map(|(word, ..)| word).join(", ")
}

/// A table of a run.
#[derive(Clone, Copy, Debug)]
enum Which {
    /// The one that `run` prints.
    Results,
    Of(Table),
}

const TABLES: [Choice<Which>; 6] = [
    ("results", "The table of results, as `dnsdyno run` prints it", Which::Results),
    ("cells", "A row for each cell: server and setting", Which::Of(Table::Cells)),
    ("trials", "A row for each trial", Which::Of(Table::Trials)),
    (
        "figures",
        "A row for each value of each figure, also for the capacity of each search",
        Which::Of(Table::Figures),
    ),
    ("series", "A row for each sample of each series", Which::Of(Table::Series)),
    (
        "experiments",
        "A row for each experiment of each lock-step load",
        Which::Of(Table::Experiments),
    ),
];

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// Runs: their numbers, `last`, or `last~1` for the one before
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<RunRef>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) const EXPORT_EXAMPLES: &str = "Examples:
  The trials of the last run, for a spreadsheet
    dnsdyno export last --format csv --output trials.csv

  The capacity of each search of run 7
    dnsdyno export 7 --format csv --table figures

  The goals of a load as tests for a CI system, and its latencies for HdrHistogram's plotters
    dnsdyno export load.json --format junit --output junit.xml
    dnsdyno export load.json --format hlog --output load.hlog

  The plots of the last run, each as an SVG file in a folder
    dnsdyno export last --format svg --output figures

  What `dnsdyno load` measured, for tools that read kxdpgun's JSON
    dnsdyno export load.json --format dns-metrics";

pub(crate) fn list(args: &RunsArgs) -> Result<(), Failure> {
    let runs: Vec<RunLine> = match args.store.existing()? {
        Some(store) => store.runs().map_err(failure)?,
        None => Vec::new(),
    };
    if runs.is_empty() {
        eprintln!("there are no runs in {}", args.store.path()?.display());
    }
    let text = || if runs.is_empty() { String::new() } else { report::runs(&runs) };
    args.json.show(|path| record::write(path, &runs), text)
}

pub(crate) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let run = args.store.load(&args.run)?;
    print(|out| {
        let text = if args.details { report::details(&run) } else { report::run(&run) };
        write!(out, "{}\n{text}", report::heading(&run))?;
        for cell in run.results.iter().filter(|_| args.trials) {
            writeln!(out, "\n{}", report::view::cell_name(cell))?;
            for trial in &cell.trials {
                writeln!(out, "  {}", report::trial_of_cell(cell, trial))?;
            }
        }
        if !args.files {
            return Ok(());
        }
        let experiment = Some((format!("{}.toml", run.plan.experiment), &run.plan.text));
        let of_run = run.plan.files.iter().map(|(name, text)| (name.clone(), text));
        let of_cells = run.results.iter().flat_map(|cell| {
            let name = report::view::cell_name(cell);
            cell.files.iter().map(move |(file, text)| (format!("{file} ({name})"), text))
        });
        let experiment = experiment.into_iter().filter(|(_, text)| !text.is_empty());
        for (name, text) in experiment.chain(of_run).chain(of_cells) {
            writeln!(out, "\n==> {name} <==\n{}", text.trim_end())?;
        }
        Ok(())
    })
}

pub(crate) fn export(args: &RunsExportArgs) -> Result<(), Failure> {
    for (given, option, format) in [
        (args.table.is_some(), "--table", ("csv", RunsFormat::Csv)),
        (args.buckets, "--buckets", ("json", RunsFormat::Json)),
    ] {
        if given && args.format != format.1 {
            return Err(Failure::input(anyhow!("{option} requires --format {}", format.0)));
        }
    }
    let mut run = args.store.load(&args.run)?;
    if let (RunRef::Last(_), Some(id)) = (&args.run, run.id) {
        eprintln!("{}: run {id}, {}", args.run, run.plan.experiment);
    }
    if args.buckets {
        let mut trials = run.results.iter_mut().flat_map(|cell| &mut cell.trials);
        trials.try_for_each(|trial| trial.trial.fill_buckets()).map_err(Failure::run)?;
    }
    if args.format == RunsFormat::Svg {
        return draw(&run, &args.output);
    }
    let table = args.table.unwrap_or(Which::Of(Table::Trials));
    let write = |out: &mut dyn Write| write_as(args.format, table, &run, out);
    if args.output == Path::new("-") {
        return print(write);
    }
    let mut out = BufWriter::new(create(&args.output)?);
    write(&mut out).and_then(|()| out.flush()).map_err(Failure::run)
}

/// Writes the plots of a run into a folder; prints the path of each.
fn draw(run: &Run, folder: &Path) -> Result<(), Failure> {
    if folder == Path::new("-") {
        let why = "--format svg writes several files: name a folder with --output";
        return Err(Failure::input(anyhow!(why)));
    }
    let drawings = export::svg(run);
    if drawings.is_empty() {
        return Err(Failure::input(anyhow!("the run has nothing to plot")));
    }
    make_folder(folder)?;
    for drawing in drawings {
        let path = folder.join(&drawing.name);
        record::write_bytes(&path, drawing.text.as_bytes()).map_err(Failure::run)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Writes a run in one of the forms.
fn write_as(format: RunsFormat, table: Which, run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let json = |out: &mut dyn Write, value: &Value| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    };
    match format {
        RunsFormat::Csv => match table {
            Which::Results => out.write_all(export::csv(run).as_bytes()),
            Which::Of(table) => record::write_csv(run, table, out).map_err(io::Error::from),
        },
        RunsFormat::DnsMetrics => record::write_dns_metrics(run, out),
        RunsFormat::JsonLines => record::write_json_lines(run, out),
        RunsFormat::Bencher => json(out, &export::bencher(run)),
        RunsFormat::GithubBenchmark(better) => json(out, &export::github_benchmark(run, better)),
        RunsFormat::Junit => out.write_all(export::junit(run).as_bytes()),
        RunsFormat::Hlog => export::hlog(run, out),
        RunsFormat::OpenMetrics => out.write_all(export::open_metrics(run).as_bytes()),
        RunsFormat::Markdown => out.write_all(export::markdown(run).as_bytes()),
        RunsFormat::Latex => out.write_all(export::latex(run).as_bytes()),
        RunsFormat::Json | RunsFormat::Svg => {
            out.write_all(&serde_json::to_vec(run)?)?;
            writeln!(out)
        }
    }
}

pub(crate) fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    let store = args.store.must_exist()?;
    // All runs are looked up before one is deleted, so that `last` keeps its meaning.
    let ids = args.runs.iter().map(|run| run.id(&store)).collect::<Result<Vec<i64>, _>>()?;
    for id in ids {
        store.delete(id).map_err(failure)?;
        eprintln!("deleted run {id}");
    }
    store.compact().map_err(failure)
}
