//! Tests of what a run chooses.

use super::*;

#[test]
fn links_without_a_choice_suit_what_is_measured() {
    let usual = |name: &str, privileged| {
        let text = crate::adapter::built_in::experiment(name).expect("an experiment");
        let mut experiment = Experiment::parse(text, FilePath::new(name)).expect("valid");
        let settings = experiment.points.remove(0).settings;
        let asked = RunOptions { link: Some(Link::Steered), ..RunOptions::default() };
        assert_eq!(asked.link_of(&settings, privileged), Link::Steered);
        RunOptions::default().link_of(&settings, privileged)
    };
    // A capacity of an authoritative server, one of a DNS64 server, a latency, and one with links of its own.
    assert_eq!(usual("auth-scaling", true), Link::Moderated);
    assert_eq!(usual("auth-scaling", false), Link::Plain);
    assert_eq!(usual("dns64-rfc8219", true), Link::Plain);
    assert_eq!(usual("dns64-lockstep", true), Link::Plain);
    assert_eq!(usual("os-evaluation", true), Link::Plain);
}

#[test]
fn a_run_goes_on_over_the_links_of_its_beginning() {
    let text = crate::adapter::built_in::experiment("auth-scaling").expect("an experiment");
    let experiment = Experiment::parse(text, FilePath::new("x")).expect("valid");
    let testbed = TestbedFacts { link: Some(Link::Plain), ..TestbedFacts::default() };
    let plan = Plan { testbed: Some(testbed), ..Plan::default() };
    let mut again = RunOptions::default();
    again.go_on(Run { plan, ..Run::default() });
    assert_eq!(again.link_of(&experiment.points[0].settings, true), Link::Plain);
}

fn host(name: &str) -> RemoteHosts {
    let host = record::DutHost { host: name.to_owned(), ..record::DutHost::default() };
    RemoteHosts::recorded(host)
}

#[test]
fn a_run_that_goes_on_does_so_as_it_began() {
    let began = RunOptions {
        only: vec!["nsd".to_owned(), "own".to_owned()],
        custom: vec![
            ("own".to_owned(), Custom::new("/opt/own -c {{ dir }}/x=1, y")),
            ("theirs".to_owned(), Custom::at(([192, 0, 2, 1], 5353).into())),
        ],
        seed: 7,
        link: Some(Link::Steered),
        path: Some(Path::HostOffload),
        engine: Some(EngineChoice::Auto),
        remote_hosts: host("server.example"),
        baseline: Some("nsd".to_owned()),
        fail_if: vec!["own < -5%".parse().expect("a condition")],
        ..RunOptions::default()
    };
    let fail_if = began.fail_if.clone();
    let plan = Plan { choices: began.choices(), fail_if, ..Plan::default() };
    let run = Run { plan, ..Run::default() };
    let mut again = RunOptions { seed: 1, ..RunOptions::default() };
    again.go_on(run.clone());
    assert_eq!(again.only, began.only);
    assert_eq!(again.custom, began.custom);
    assert_eq!((again.seed, again.link, again.path), (7, began.link, began.path));
    assert_eq!(again.engine, began.engine);
    assert_eq!((&again.baseline, &again.fail_if), (&began.baseline, &began.fail_if));
    assert_eq!(again.remote_hosts.remotes, began.remote_hosts.remotes);
    assert!(again.resumed.is_some());
    // One that is given now comes first: the host may have another name meanwhile.
    let other = host("other.example");
    let baseline = Some("own".to_owned());
    let fail_if = vec!["nsd < -1%".parse().expect("a condition")];
    let mut moved = RunOptions {
        remote_hosts: other.clone(),
        baseline: baseline.clone(),
        fail_if: fail_if.clone(),
        ..RunOptions::default()
    };
    moved.go_on(run);
    assert_eq!(moved.remote_hosts.remotes, other.remotes);
    assert_eq!((&moved.baseline, &moved.fail_if), (&baseline, &fail_if));
    let stored = &moved.resumed.expect("the run").plan;
    assert_eq!((&stored.choices.baseline, &stored.fail_if), (&baseline, &fail_if));
}
