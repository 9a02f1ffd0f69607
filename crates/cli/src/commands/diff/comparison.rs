//! Running a comparison: progress, outputs, exit code.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use answers::{Diff, Progress};
use anyhow::anyhow;
use record::{AnswerDiff, AnswerDifference, SCHEMA, Snapshot};
use report::view::thousands;
use tester::{Background, write_live};

use super::queries::Queries;
use crate::failure::Failure;
use crate::output::{self, is_stdout, output};
use crate::progress::Line;

/// Exit code if answers differ in unknown ways.
const EXIT_DIFFERS: u8 = 3;
/// Time after which the progress is shown, and between two of its lines.
const PROGRESS_DELAY: Duration = Duration::from_secs(2);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Files that the result is written to; `None` where the user wants none.
pub(super) struct Outputs<'a> {
    pub(super) json: &'a Option<PathBuf>,
    pub(super) lines: &'a Option<PathBuf>,
    pub(super) page: &'a Option<PathBuf>,
}

impl Outputs<'_> {
    fn all(&self) -> [&Option<PathBuf>; 3] {
        [self.json, self.lines, self.page]
    }

    /// Checks that all outputs can be written, before the first query.
    pub(super) fn try_writing(&self) -> Result<(), Failure> {
        if self.all().into_iter().flatten().filter(|path| is_stdout(path)).count() > 1 {
            return Err(Failure::BadInput(anyhow!(
                "only one of the outputs can be the standard output"
            )));
        }
        output::try_writing(self.all())
    }

    fn write(&self, record: &AnswerDiff) -> Result<(), Failure> {
        let json = self.json.as_ref().map_or(Ok(()), |path| record::write(path, record));
        let page = self.page.as_ref().map_or(Ok(()), |path| {
            record::write_bytes(path, report::answers_page(record).as_bytes())
        });
        if !self.all().into_iter().flatten().any(|path| is_stdout(path)) {
            print!("{}", report::answers(record));
        }
        json.and(page).map_err(Failure::run)
    }
}

/// A comparison with its queries, sides and outputs.
pub(super) struct Comparison<'a> {
    pub(super) diff: Diff,
    pub(super) queries: Queries,
    pub(super) outputs: Outputs<'a>,
    /// File for the counters of the running comparison.
    pub(super) live: Option<PathBuf>,
}

impl Comparison<'_> {
    /// Runs the comparison, and writes its outputs.
    ///
    /// # Errors
    /// A verdict, if answers have unknown differences; a failure, if the comparison ended early.
    pub(super) fn run(self, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
        let Comparison { diff, queries, outputs, live } = self;
        let progress = Arc::new(Progress::default());
        let shown = show(progress.clone(), queries.spool.count());
        let live = live.map(|path| {
            let progress = progress.clone();
            write_live(path, move |began| snapshot(&progress, began))
        });
        let mut lines =
            outputs.lines.as_ref().map(|path| output(path).map(BufWriter::new)).transpose()?;
        let mut line = |found: &AnswerDifference| match &mut lines {
            Some(out) => {
                out.write_all(&serde_json::to_vec(found)?)?;
                out.write_all(b"\n")
            }
            None => Ok(()),
        };
        let record = diff.run(&queries.spool, &mut line, &progress, stop);
        drop((shown, live));
        let mut record =
            record.map_err(|e| Failure::run(anyhow!("the comparison cannot be stored: {e}")))?;
        record.queries_from = queries.from;
        record.incomplete = record.incomplete.or(queries.incomplete);
        let flushed = lines.map_or(Ok(()), |mut out| out.flush()).map_err(Failure::run);
        outputs.write(&record).and(flushed)?;
        match &record.incomplete {
            Some(why) => Err(Failure::run(anyhow!("the comparison is incomplete: {why}"))),
            None if record.differ > 0 => Err(Failure::Verdict(EXIT_DIFFERS)),
            None => Ok(()),
        }
    }
}

/// Returns the counters of a comparison that began at `began`: valid are the queries with answers that are alike, bad the others.
fn snapshot(progress: &Progress, began: Instant) -> Snapshot {
    let [asked, unlike] =
        [&progress.asked, &progress.unlike].map(|counter| counter.load(Ordering::Relaxed));
    Snapshot {
        schema: SCHEMA,
        at_s: began.elapsed().as_secs_f64(),
        sent: asked,
        answered: asked,
        valid: asked.saturating_sub(unlike),
        bad: unlike,
        ..Snapshot::default()
    }
}

/// Shows the counters on a terminal until the returned value is dropped.
fn show(progress: Arc<Progress>, queries: u64) -> Option<Background<()>> {
    let terminal = std::io::stderr().is_terminal();
    terminal.then(|| Background::start(move |done| draw(&progress, queries, done)))
}

fn draw(progress: &Progress, queries: u64, done: &AtomicBool) {
    let (began, mut line) = (Instant::now(), Line::default());
    let mut next = began + PROGRESS_DELAY;
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if Instant::now() < next {
            continue;
        }
        let [asked, unlike, again] = [&progress.asked, &progress.unlike, &progress.again]
            .map(|counter| thousands(counter.load(Ordering::Relaxed) as f64));
        let again = if again == "0" { String::new() } else { format!(", {again} repeated") };
        let (seconds, queries) = (began.elapsed().as_secs_f64(), thousands(queries as f64));
        line.show(&format!(
            "diff {seconds:>6.1} s  {asked} of {queries} sent  {unlike} differ{again}"
        ));
        next = Instant::now() + PROGRESS_INTERVAL;
    }
}
