//! Limits of several Testers on other hosts: they run each trial together, and this host sends no
//! queries.

use experiment::file::Role;
use experiment::{Experiment, Method, Settings};
use record::Run;

use super::error::RunError;
use crate::adapter::Adapter;
use crate::remote::hosts::RemoteHosts;

/// Checks that the Testers of `hosts`, if there are any, can run the trials of an experiment, and
/// that a resumed run has as many as it began with (`resumed`); `certified`: there is a
/// certificate.
///
/// # Errors
/// [`RunError::Testers`], or [`RunError::File`] with the place of a value that requires one Tester.
pub(super) fn check(
    experiment: &Experiment,
    adapters: &[Adapter],
    hosts: &RemoteHosts,
    resumed: Option<&Run>,
    certified: bool,
) -> Result<(), RunError> {
    let refuse = |why| Err(RunError::Testers(why));
    let count = hosts.testers.as_ref().map(|testers| testers.count);
    if let Some(run) = resumed
        && run.plan.choices.testers != count
    {
        let began = run.plan.choices.testers;
        return refuse(match began {
            Some(began) => format!("the run began with {began} Testers: give a file with {began}"),
            None => "the run began with this host as its Tester: leave --hosts out".to_owned(),
        });
    }
    if count.is_none() {
        return Ok(());
    }
    let starts = hosts.starts();
    if let Some(here) = adapters.iter().find(|adapter| adapter.remote.is_none() && !starts) {
        return refuse(format!(
            "{} would run on this host; several Testers measure servers of another one (`dut HOST` in the file, or --dut HOST), or one at an \
             address (--remote NAME=ADDRESS)",
            here.title
        ));
    }
    if certified {
        return refuse("a certificate belongs to one Tester: leave --certificate out".to_owned());
    }
    for point in &experiment.points {
        if let Some((key, why)) = single_tester_error(&point.settings, starts) {
            let why = format!("{why}; leave --hosts out");
            return Err(RunError::File(experiment.bad(point, key, why)));
        }
    }
    match hosts.remotes.auth.is_empty() {
        true => without_authdns(experiment.common(), starts).map_or(Ok(()), refuse),
        false => Ok(()),
    }
}

/// Returns why an AuthDNS on a separate host is needed; `None` if not. On this host no agent would
/// watch it, and no Tester would reach it.
fn without_authdns(common: &Settings, starts: bool) -> Option<String> {
    let name_it = "name its host (`auth HOST` in the file, or --auth HOST)";
    let tests = common.search.as_ref().is_some_and(|search| search.self_test);
    if starts && common.role != Role::Authoritative {
        let why = "several Testers need an AuthDNS that all of them reach, on a host whose CPU and drops can be read";
        return Some(format!("{why}: {name_it}"));
    }
    let why = "the self-test of several Testers needs an AuthDNS that all of them reach";
    let untested = "or write `search.self-test = false`";
    (common.method == Method::Search && tests).then(|| format!("{why}: {name_it}, {untested}"))
}

/// Returns the key of a setting that only one Tester supports, and why; `starts`: servers are
/// started on other hosts.
fn single_tester_error(settings: &Settings, starts: bool) -> Option<(&'static str, &'static str)> {
    let workload = &settings.workload;
    if settings.method == Method::Generators {
        return Some(("method", "only one Tester can run generators"));
    }
    if settings.method == Method::Clients {
        return Some(("method", "the clients of a trial are in a file on this host"));
    }
    let files = [
        ("workload.queries", workload.queries.is_some()),
        ("workload.replay", workload.replay.is_some()),
        ("workload.slice", workload.slice.is_some()),
        ("workload.zone-file", workload.zone_file.is_some()),
        ("workload.hosts", workload.hosts.is_some()),
        ("workload.delegations", workload.delegations.is_some()),
        ("workload.mixed", workload.mixed.is_some()),
    ];
    if let Some((key, _)) = files.into_iter().find(|(_, used)| *used) {
        return Some((key, "zones, captures and files of queries exist on this host only"));
    }
    if starts && settings.tester.transport.uses_tls() {
        let why = "the authority of the certificate exists on this host only";
        return Some(("tester.transport", why));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::{Choices, Plan};

    use super::*;
    use crate::remote::hosts::Testers;

    const SEARCH: &str = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"unbound\"]\nmethod = \"search\"\n\
                          search = { goal = \"zero-loss\", start = \"1k\", max = \"2k\", resolution = 0.1, duration = \"1s\" }\n";

    /// Two Testers, servers on another host, and the AuthDNS on a third one.
    fn hosts(auth: Option<&str>) -> RemoteHosts {
        let host = record::DutHost { auth: auth.map(str::to_owned), ..record::DutHost::default() };
        let testers = Some(Testers { count: 2, job: None });
        RemoteHosts { testers, ..RemoteHosts::recorded(host) }
    }

    /// What is said of an experiment.
    fn said(text: &str, hosts: &RemoteHosts, resumed: Option<&Run>) -> String {
        let experiment = Experiment::parse(text, Path::new("x.toml")).expect("an experiment");
        let catalogue = crate::adapter::catalogue::Catalogue::load(None).expect("adapters");
        let unbound = catalogue.get("unbound").expect("an adapter").clone();
        let checked = check(&experiment, &[unbound], hosts, resumed, false);
        checked.map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn what_several_testers_cannot_do_is_refused() {
        let with = |more: &str| format!("{SEARCH}{more}\n");
        let all = hosts(Some("auth.example"));
        assert_eq!(said(SEARCH, &all, None), "");
        assert!(said(SEARCH, &hosts(None), None).contains("`auth HOST` in the file"));
        let untested = SEARCH.replace("}", ", self-test = false }");
        assert!(said(&untested, &hosts(None), None).contains("whose CPU and drops can be read"));
        let authoritative = SEARCH.replace("dns64", "authoritative");
        assert!(said(&authoritative, &hosts(None), None).contains("`search.self-test = false`"));
        let authoritative = untested.replace("dns64", "authoritative");
        assert_eq!(said(&authoritative, &hosts(None), None), "");
        let clients = said(&SEARCH.replace("\"search\"", "\"clients\""), &all, None);
        assert!(
            clients.starts_with("x.toml:5:") && clients.contains("a file on this host"),
            "{clients}"
        );
        let tls = said(&with("tester = { transport = \"tls\" }"), &all, None);
        assert!(tls.starts_with("x.toml:7:") && tls.contains("leave --hosts out"), "{tls}");
        let zone = said(&with("workload = { hosts = 10 }"), &all, None);
        assert!(zone.starts_with("x.toml:7:") && zone.contains("this host only"), "{zone}");
        let here = said(SEARCH, &RemoteHosts { dut: None, ..all }, None);
        assert!(here.starts_with("--hosts: Unbound would run on this host"), "{here}");
    }

    #[test]
    fn a_run_goes_on_with_as_many_testers() {
        let began = |testers| {
            let plan =
                Plan { choices: Choices { testers, ..Choices::default() }, ..Plan::default() };
            Run { plan, ..Run::default() }
        };
        let all = hosts(Some("auth.example"));
        let goes_on = |testers, hosts: &RemoteHosts| said(SEARCH, hosts, Some(&began(testers)));
        assert_eq!(goes_on(Some(2), &all), "");
        assert!(goes_on(Some(3), &all).contains("the run began with 3 Testers"));
        assert!(goes_on(None, &all).contains("this host as its Tester"));
        let alone = goes_on(Some(2), &RemoteHosts::default());
        assert!(alone.contains("the run began with 2 Testers"), "{alone}");
    }
}
