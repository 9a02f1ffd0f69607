//! The size of what a run keeps: the trials of the sample runs, some of which were recorded with whole histograms.

use std::path::Path;

use record::read_run;

/// Largest JSON of a trial of a run, in octets.
const MAX_TRIAL: usize = 10_000;

#[test]
fn a_trial_takes_ten_kilobytes_at_most() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    let (mut trials, mut largest) = (0, (0, String::new()));
    for entry in std::fs::read_dir(runs).expect("the sample runs") {
        let path = entry.expect("an entry").path().join("record.json.gz");
        if !path.is_file() {
            continue;
        }
        let run = read_run(&path).expect("a run");
        for mut record in run.results.into_iter().flat_map(|cell| cell.trials) {
            record.trial.compact().expect("histograms");
            let size = serde_json::to_vec(&record).expect("JSON").len();
            trials += 1;
            largest = largest.max((size, path.display().to_string()));
        }
    }
    assert!(trials > 300, "{trials}");
    println!("the largest of {trials} trials: {largest:?}");
    assert!(largest.0 <= MAX_TRIAL, "{largest:?}");
}
