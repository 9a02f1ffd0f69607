//! The list of built-in experiments, and the plan of one.

use std::net::IpAddr;
use std::path::Path;

use experiment::certify::RATE_FACTOR;
use experiment::file::{Point, Role};
use experiment::settings::{Family, Method, Settings};
use experiment::{
    Experiment, estimate, of_method, of_settings, planned, self_test_estimate, servers_at,
    visit_estimate,
};
use lab::built_in::EXPERIMENTS;
use lab::{Checked, DutHost, RunOptions};
use measure::{Nanos, Qps};
use record::{EngineChoice, Form};
use report::view::{Align, align, setting_words, span};

/// Largest number of points of a matrix that are listed one by one.
const MAX_LISTED_POINTS: usize = 40;

/// Prints the built-in experiments with their durations and descriptions.
pub(crate) fn list() {
    let mut rows =
        vec![["experiment", "--quick", "--medium", "full", "what it measures"].map(str::to_owned)];
    for (name, text) in EXPERIMENTS {
        if let Ok(experiment) = Experiment::parse(text, Path::new(name)) {
            let title = experiment.common().title.clone();
            let [quick, medium, full] = [Form::Quick, Form::Medium, Form::Full].map(|form| {
                experiment.clone().in_form(form).map_or("-".to_owned(), |form| time(&form))
            });
            rows.push([(*name).to_owned(), quick, medium, full, title]);
        }
    }
    print!(
        "{}",
        align(&rows, &[Align::Left, Align::Right, Align::Right, Align::Right, Align::Left])
    );
    println!("\nTimes include all servers. `dnsdyno run NAME --dry-run` shows the plan.");
}

fn time(experiment: &Experiment) -> String {
    let time = estimate(experiment, |point| servers_at(experiment, point), true);
    span(time.as_secs_f64())
}

/// Prints the plan of an experiment with the engine and the hosts of the command line, if that names some.
pub(crate) fn show(checked: &Checked<'_>, options: &RunOptions) {
    let experiment = checked.experiment;
    let common = experiment.common();
    println!("{}: {}", common.name, common.title);
    let servers: Vec<String> = checked
        .adapters
        .iter()
        .map(|adapter| match adapter.program() {
            _ if adapter.remote.is_some() => {
                let at = adapter.remote.map(|address| address.to_string());
                format!("{} (at {})", adapter.name, at.unwrap_or_default())
            }
            _ if checked.starts_remotely => format!("{} (on the host of --dut)", adapter.name),
            Ok(_) => adapter.name.clone(),
            Err(_) => format!("{} (not installed; {})", adapter.name, adapter.remedy()),
        })
        .collect();
    println!("servers: {}", servers.join(", "));
    let form = experiment.form.word();
    let repeats = experiment.points.iter().map(|point| point.settings.repeats);
    let repeats = match (repeats.clone().min(), repeats.max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        _ => common.repeats.to_string(),
    };
    println!("form: {form}; method: {}; repeats: {repeats}", common.method.word());
    let engine = options.engine.unwrap_or(common.tester.engine);
    if engine != EngineChoice::Sockets {
        println!("engine: {engine}");
    }
    for input in checked.inputs.files() {
        println!("{}: {}, {}", input.key, input.path, input.words());
    }
    list_points(checked);
    let self_test = self_test_estimate(experiment);
    if self_test != Nanos::ZERO {
        println!("self-test of the Tester: about {}", span(self_test.as_secs_f64()));
    }
    print_search(common);
    if let Some(budget) = common.budget {
        println!("time budget: {budget}; no repeat starts after it");
    }
    let all = estimate(experiment, |point| checked.servers_at(point), loads_zones(checked));
    println!("about {} in all", span(all.as_secs_f64()));
    print_conformity(checked, options.remote_hosts.dut.as_ref());
}

fn loads_zones(checked: &Checked<'_>) -> bool {
    checked.adapters.iter().any(lab::Adapter::loads_zones)
}

/// Prints what a search does at each rate, and at which rate the Tester is tested before it.
fn print_search(settings: &Settings) {
    let Some(s) = settings.search().filter(|_| settings.method.searches()) else { return };
    println!(
        "search: trials of {}, timeout {}, goal `{}`, resolution {} %, from {} to {}",
        s.duration,
        s.timeout,
        s.goal,
        s.resolution * 100.0,
        s.min,
        s.max
    );
    if settings.search.as_ref().is_some_and(|s| s.self_test) && settings.method == Method::Search {
        let rate = Qps::new(s.max.get() * RATE_FACTOR).unwrap_or_default();
        println!("self-test: begins at {rate}");
    }
}

/// Prints the number of cells, and the points of the servers, each with the time of a visit.
fn list_points(checked: &Checked<'_>) {
    let experiment = checked.experiment;
    let all = || experiment.points.iter().enumerate();
    let cells: usize = all().map(|(at, _)| checked.servers_at(at)).sum();
    println!("cells: {cells}; order: {}", experiment.common().order.word());
    // A point may be for servers that were not chosen.
    let is_planned = |at: usize, point: &Point| {
        cells == 0 || checked.servers_at(at) > 0 || checked.cannot(point).is_some()
    };
    let points: Vec<&Point> =
        all().filter(|(at, point)| is_planned(*at, point)).map(|(_, point)| point).collect();
    for point in points.iter().take(MAX_LISTED_POINTS) {
        let mut words = match point.varied.is_empty() {
            true => "(nothing is varied)".to_owned(),
            false => setting_words(&point.varied),
        };
        if !point.settings.only.is_empty() {
            words += &format!(" (only {})", point.settings.only.join(", "));
        }
        match checked.cannot(point) {
            Some(why) => println!("  {words:<60} skipped: {why}"),
            None => {
                let each =
                    span(visit_estimate(&point.settings, loads_zones(checked)).as_secs_f64());
                println!("  {words:<60} {each:>8} a visit");
            }
        }
    }
    if points.len() > MAX_LISTED_POINTS {
        println!("  ... and {} more", points.len() - MAX_LISTED_POINTS);
    }
}

/// Prints whether the plan for DNS64 servers conforms to RFC 8219, and lists the differences.
fn print_conformity(checked: &Checked<'_>, dut: Option<&DutHost>) {
    if checked.experiment.common().role != Role::Dns64 {
        return;
    }
    let mut why = Vec::new();
    let addresses = dut.map_or(&[][..], |dut| &dut.addresses);
    let lacks = |of: fn(&IpAddr) -> bool| !addresses.is_empty() && !addresses.iter().any(of);
    let lacks_v6 = lacks(IpAddr::is_ipv6);
    for point in &checked.experiment.points {
        let settings = &point.settings;
        why.extend(match settings.search().filter(|_| settings.method.searches()) {
            Some(search) => planned(&search, settings.repeats),
            None => of_method(settings),
        });
        why.extend(of_settings(settings));
        let limit = settings.dut.cpu_limit;
        why.extend(limit.map(|cores| format!("the server's CPU time is limited to {cores} cores")));
        if lacks_v6 || settings.tester.family == Family::Ipv4 {
            why.push("the clients do not speak IPv6".to_owned());
        }
    }
    let is_here = |dut: &DutHost| dut.addresses.iter().any(IpAddr::is_loopback);
    if checked.adapters.iter().any(|adapter| adapter.remote.is_some()) {
        why.push(
            "a server at an address, not started for the run (`search --rfc8219` measures one)"
                .to_owned(),
        );
    } else if dut.is_some_and(|dut| !dut.starts) {
        why.push(
            "the server is not started for the run (--dut without --dut-process does)".to_owned(),
        );
    } else if dut.is_none_or(is_here) {
        why.push("the server runs on this host (--dut HOST starts it on another)".to_owned());
    }
    if lacks(IpAddr::is_ipv4) {
        why.push(
            "no IPv4 address of the server's host: it queries the AuthDNS over IPv4".to_owned(),
        );
    }
    why.sort();
    why.dedup();
    match why.is_empty() {
        true => println!(
            "conforms to RFC 8219, if the DUT is another machine, the hosts have IPv6 and IPv4, and the Tester passes its self-test"
        ),
        false => println!("not RFC 8219: {}", why.join("; ")),
    }
}
