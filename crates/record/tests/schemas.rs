//! Runs of schemas 2 and 3 as files. Never edit the fixtures: they represent files that users already have.

use std::path::Path;

use measure::{Link, Path as LinkPath, Void, Warning};
use record::{CustomHow, Run, SCHEMA, read_run};

#[test]
fn a_run_of_schema_2_reads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run_2.json");
    let run = read_run(&path).expect("a run");
    assert_eq!((run.schema, run.results.len()), (SCHEMA, 1));
    let trials = &run.results[0].trials;
    assert_eq!((trials[0].trial.void.0.as_ref(), trials[0].trial.sent), (None, 16_000));
    assert_eq!(trials[1].trial.void.0, Some(Void::Starved { run_delay: 0.49, foreign: 0.37 }));
    let listens = Warning::NobodyListens { times: 3, target: "[fd00:9::2]:53".into() };
    assert_eq!(trials[1].trial.warnings, [Warning::ForeignOnServer { share: 0.38 }, listens]);
    let testbed = run.plan.testbed.as_ref().expect("a testbed");
    assert_eq!((testbed.link, testbed.path), (Some(Link::Plain), Some(LinkPath::Wire)));
    assert_eq!((&testbed.auth_cpus[..], &testbed.dut_cpus[..]), (&[0][..], &[1, 2][..]));
    let choices = &run.plan.choices;
    assert_eq!((choices.seed, choices.link, choices.path), (Some(7), Some(Link::Plain), None));
    assert_eq!(choices.servers, ["nsd", "own"]);
    assert_eq!(choices.custom[1].how, CustomHow::Address(([192, 0, 2, 1], 5353).into()));
    let host = run.plan.host.as_ref().expect("a host");
    assert_eq!((host.cpu.online, host.kernel.clock_source.as_deref()), (2, Some("tsc")));
    let away = Warning::CoreAway { cpu: 1, max_us: 8_062.667 };
    assert_eq!(host.warnings, [Warning::ClockRateHidden, away, Warning::FewCores { cores: 2 }]);
    let words = run.plan.words();
    assert_eq!(
        (words["links"].as_str(), words["custom own"].as_str()),
        ("plain", "/opt/own -c {{ dir }}/x=1, y")
    );
}

#[test]
fn a_run_of_schema_3_reads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run_3.json.gz");
    let run = read_run(&path).expect("a run");
    assert_eq!((run.schema, run.results.len()), (SCHEMA, 2));
    let trials = &run.results[0].trials;
    assert_eq!(trials.len(), 12);
    for record in trials {
        let conditions = &record.trial.conditions;
        assert!(conditions.command.contains(" --names "), "{}", conditions.command);
        assert_eq!((conditions.names.as_str(), conditions.options.as_str()), ("", ""));
        let busy = record.trial.probes.iter().find(|series| series.name == "dut.system");
        let busy = busy.expect("the samples of the server");
        assert_eq!((busy.unit.as_str(), busy.samples.len() >= 2), ("%", true));
        assert_eq!(record.trial.latency_us.histogram().expect("one").count(), record.trial.sent);
    }
    let text = serde_json::to_string(&run).expect("JSON");
    assert!(text.contains(r#""shared":{"conditions":{"#));
    assert_eq!(serde_json::from_str::<Run>(&text).expect("reads"), run);
}
