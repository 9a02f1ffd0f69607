//! The size of what a run keeps: the trials of the sample runs, some of which were recorded with whole histograms.

use std::path::Path;

use record::read_run;

/// Largest JSON of a trial of a run, in octets.
const MAX_TRIAL: usize = 10_000;
/// Largest JSON of a run in its short form, and of a whole plan.
const MAX_QUICK: usize = 1_000_000;
const MAX_WHOLE: usize = 50_000_000;
/// Repeats of a whole plan, and by how many times more trials a search to 1 % takes than one in the short form.
const REPEATS: usize = 20;
const LONGER: usize = 3;

#[test]
fn a_trial_takes_ten_kilobytes_at_most_and_a_short_run_a_megabyte() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    let (mut trials, mut largest) = (0, (0, String::new()));
    for entry in std::fs::read_dir(runs).expect("the sample runs") {
        let path = entry.expect("an entry").path().join("record.json.gz");
        if !path.is_file() {
            continue;
        }
        let mut run = read_run(&path).expect("a run");
        for record in run.results.iter_mut().flat_map(|cell| &mut cell.trials) {
            record.trial.compact().expect("histograms");
            let size = serde_json::to_vec(&record).expect("JSON").len();
            trials += 1;
            largest = largest.max((size, path.display().to_string()));
        }
        // As the lab does it since.
        let certificates = run.results.iter_mut().filter_map(|cell| cell.certificate.as_mut());
        for (i, certificate) in certificates.enumerate() {
            match i {
                0 => certificate
                    .trials
                    .iter_mut()
                    .for_each(|t| t.trial.compact().expect("histograms")),
                _ => certificate.trials.clear(),
            }
        }
        let size = serde_json::to_vec(&run).expect("JSON").len();
        let count: usize = run.results.iter().map(|cell| cell.trials.len()).sum();
        println!("{}: {size} octets, {} cells, {count} trials", path.display(), run.results.len());
        assert!(size <= MAX_QUICK, "{}: {size}", path.display());
        assert!(size * REPEATS * LONGER <= MAX_WHOLE, "{}: {size}", path.display());
    }
    assert!(trials > 300, "{trials}");
    println!("the largest of {trials} trials: {largest:?}");
    assert!(largest.0 <= MAX_TRIAL, "{largest:?}");
}
