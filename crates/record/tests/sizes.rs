//! The size of what a run keeps, by the trials of the sample runs, some of which were recorded with whole histograms, and by those of
//! two cells of `make demo`, with their samples over time.

use std::path::{Path, PathBuf};

use record::{Run, TrialRecord, read_run};

/// Largest JSON of a trial of a run, in octets, beside the times of its lock-step experiments; and the mean of those of a demo.
const MAX_TRIAL: usize = 10_000;
const MEAN_TRIAL: usize = 3_750;
/// Mean JSON of trials over streams, which have connections and their latencies.
const MEAN_OF_STREAMS: usize = 6_500;
/// Largest JSON of a run in its short form, and of a whole plan.
const MAX_QUICK: usize = 1 << 20;
const MAX_WHOLE: usize = 50_000_000;
/// Searches of a demo, and of the whole plan: five servers, with and without a cache.
const DEMO_SEARCHES: usize = 5 * (2 + 1);
const WHOLE_SEARCHES: usize = 5 * 2 * 20;
/// Trials of a search, at most: 17 were seen, with a warm-up and void trials.
const TRIALS: usize = 17;
/// What a trial of 60 seconds has more than one of a second: its counts of each second.
const OF_A_MINUTE: usize = 60 * r#"{"sent":100000,"valid":100000},"#.len();

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Reads a run and reduces it as the lab does.
fn compacted(path: &Path) -> Run {
    let mut run = read_run(path).expect("a run");
    let certificates = run.results.iter_mut().filter_map(|cell| cell.certificate.as_mut());
    certificates.skip(1).for_each(|certificate| certificate.trials.clear());
    for cell in &mut run.results {
        let own = cell.certificate.iter_mut().flat_map(|certificate| &mut certificate.trials);
        for record in cell.trials.iter_mut().chain(own) {
            record.trial.compact().expect("histograms");
        }
    }
    run
}

fn octets(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).expect("JSON").len()
}

/// Writes the options in which trials differ apart, as they are since.
fn set_apart(record: &mut TrialRecord) {
    let conditions = &mut record.trial.conditions;
    let from = ["--first-name", "--names"].iter().find_map(|o| conditions.command.find(o));
    let from = from.expect("its names");
    let to = conditions.command.find("--duration").expect("its duration");
    conditions.options = conditions.command.drain(from..to).collect();
    let names = conditions.workload.find(", addresses checked").expect("what is checked");
    let from = conditions.workload[..names].rfind(", ").expect("the names");
    conditions.names = conditions.workload.drain(from..names).skip(2).collect();
}

#[test]
fn a_trial_takes_ten_kilobytes_at_most_and_a_short_run_a_megabyte_or_the_mean_of_its_trials() {
    let paths: Vec<PathBuf> = std::fs::read_dir(folder("../../runs"))
        .expect("the sample runs")
        .map(|entry| entry.expect("an entry").path().join("record.json.gz"))
        .filter(|path| path.is_file())
        .collect();
    let (mut trials, mut largest) = (0, (0, String::new()));
    for path in paths {
        let run = compacted(&path);
        for record in run.results.iter().flat_map(|cell| &cell.trials) {
            trials += 1;
            let size = octets(record) - octets(&record.trial.experiment_times_ms);
            largest = largest.max((size, path.display().to_string()));
        }
        let size = octets(&run);
        let count: usize = run.results.iter().map(|cell| cell.trials.len()).sum();
        println!("{}: {size} octets, {} cells, {count} trials", path.display(), run.results.len());
        let most = MAX_QUICK.max(count * MEAN_OF_STREAMS);
        assert!(size <= most, "{}: {size}", path.display());
    }
    assert!(trials > 300, "{trials}");
    println!("the largest of {trials} trials: {largest:?}");
    assert!(largest.0 <= MAX_TRIAL, "{largest:?}");
}

#[test]
fn a_demo_takes_a_megabyte_and_a_whole_plan_fifty() {
    let mut run = compacted(&folder("../../runs/dns64-existing-aaaa/record.json.gz"));
    run.results.iter_mut().flat_map(|cell| &mut cell.trials).for_each(set_apart);
    let trials: usize = run.results.iter().map(|cell| cell.trials.len()).sum();
    let whole = octets(&run);
    let mut lean = run;
    lean.results.iter_mut().for_each(|cell| cell.trials.clear());
    // The plan, the host and the self-tests.
    let beside = octets(&lean);
    let each = (whole - beside) / trials;
    let demo = beside + each * DEMO_SEARCHES * TRIALS;
    let plan = beside + (each + OF_A_MINUTE) * WHOLE_SEARCHES * TRIALS;
    println!(
        "{trials} trials of {each} octets, a demo of {demo} octets, a whole plan of {plan} octets"
    );
    assert!(each <= MEAN_TRIAL, "{each}");
    assert!(demo <= MAX_QUICK, "{demo}");
    assert!(plan <= MAX_WHOLE, "{plan}");
}
