//! The table of a lock-step load, in the layout of seed 000 (Lencse 2016, tables I to IV).

use std::fmt::Write;

use record::{LockStepRow, LockStepTable};

/// Returns the table: one column for each number of threads.
pub fn lockstep(table: &LockStepTable) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "DNS64 performance: {}", table.server);
    let number =
        |x: Option<f64>, digits: usize| x.map_or("-".to_owned(), |x| format!("{x:.digits$}"));
    type Cell<'a> = Box<dyn Fn(&LockStepRow) -> String + 'a>;
    let rows: [(&str, &str, Cell<'_>); 8] = [
        ("Number of threads", "", Box::new(|r| r.threads.to_string())),
        ("Exec. time of 256 queries (ms)", "average", Box::new(|r| number(Some(r.mean_ms), 2))),
        ("", "std. dev.", Box::new(|r| number(Some(r.std_dev_ms), 2))),
        ("", "maximum", Box::new(|r| number(Some(r.max_ms), 2))),
        ("Number of queries per second", "", Box::new(|r| number(Some(r.qps), 0))),
        ("CPU utilization (%)", "average", Box::new(|r| number(r.cpu_percent, 2))),
        ("", "std. dev.", Box::new(|r| number(r.cpu_std_dev, 2))),
        ("Queries without a valid answer", "", Box::new(|r| r.trial.bad().to_string())),
    ];
    for (what, which, cell) in &rows {
        let _ = write!(out, "{what:<32}{which:<10}");
        for row in &table.rows {
            let _ = write!(out, "{:>10}", cell(row));
        }
        out.push('\n');
    }
    for row in &table.rows {
        if let Some(why) = &row.trial.void.0 {
            let _ = writeln!(out, "VOID with {} threads: {why}", row.threads);
        }
    }
    out
}
