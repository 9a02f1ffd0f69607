//! Everything of the parts that is added up: counts, histograms, series, connections, CPU time.

use std::collections::BTreeMap;

use measure::{Histogram, Slice, Warning};

use super::part::{MergeError, Part};
use crate::connections::Connections;
use crate::series::Second;
use crate::trial::{Conditions, Cpu, Drops, Step, Steps, Trial};
use crate::{SCHEMA, Times};

/// Adds up the parts; the verdicts (void, goal, limiter) are left open.
pub(super) fn add_up(parts: &[Part]) -> Result<Trial, MergeError> {
    let trials = || parts.iter().map(|part| &part.trial);
    let duration_s = trials().map(|trial| trial.duration_s).fold(0.0, f64::max);
    let of_all = |what, of: fn(&Trial) -> &Times| {
        times(parts.iter().map(|part| (part.name.as_str(), of(&part.trial))), what)
    };
    let mut sum = Trial {
        schema: SCHEMA,
        invalid: counts(trials().map(|t| &t.invalid)),
        valid_while_sending: trials().map(|t| t.valid_while_sending).sum(),
        duration_s,
        last_sent_s: trials().filter_map(|trial| trial.last_sent_s).reduce(f64::max),
        latency_us: of_all("latency_us", |t| &t.latency_us)?,
        latency_from_send_us: of_all("latency_from_send_us", |t| &t.latency_from_send_us)?,
        schedule_error_us: of_all("schedule_error_us", |t| &t.schedule_error_us)?,
        rcodes: counts(trials().map(|t| &t.rcodes)),
        stopped_early: trials().any(|t| t.stopped_early),
        cpu: cpus(parts),
        drops: drops(parts),
        connections: connections(parts)?,
        disturbances: disturbances(parts),
        series: series(parts),
        steps: steps(parts),
        experiment_times_ms: trials().flat_map(|t| t.experiment_times_ms.clone()).collect(),
        conditions: conditions(parts),
        warnings: warnings(parts),
        // Percentiles of each second cannot be merged, so that there are no probes.
        ..Trial::default()
    };
    for trial in trials() {
        measure::add!(sum, trial;
            planned, sent, answered, valid, late, lost, unserved, duplicates, unexpected, unresolved,
            empty);
        measure::add!(sum.octets, trial.octets; queries, replies);
    }
    // The time of a part that fell behind is not that of the others.
    let answering_s = match sum.valid_while_sending {
        Some(_) if !trials().all(Trial::is_sustained) => sum.at_rate_of_sending_s(),
        _ => trials().map(Trial::answering_s).fold(0.0, f64::max),
    };
    sum.set_rates(answering_s);
    Ok(sum)
}

fn counts<'a>(all: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (word, count) in all.flatten() {
        *sum.entry(word.clone()).or_default() += count;
    }
    sum
}

/// Merges the histograms of `all` parts, each with the name of its part.
fn times<'p>(
    all: impl Iterator<Item = (&'p str, &'p Times)>,
    what: &'static str,
) -> Result<Times, MergeError> {
    let mut sum = Histogram::new();
    for (name, times) in all {
        if times.hdr.is_empty() {
            return Err(MergeError::Reduced(name.to_owned()));
        }
        let histogram = times.histogram().map_err(|why| MergeError::Histogram {
            name: name.to_owned(),
            what,
            why,
        })?;
        sum.merge(&histogram);
    }
    Ok(Times::from(&sum))
}

/// The Testers' CPU, and the other roles' CPU from the first part whose Tester watched them.
fn cpus(parts: &[Part]) -> BTreeMap<String, Cpu> {
    let all = parts.iter().rev().flat_map(|part| part.trial.cpu.clone());
    let mut cpus: BTreeMap<String, Cpu> = all.collect();
    cpus.insert("tester".to_owned(), cpu(parts));
    cpus
}

/// The Testers' CPU: times are added, shares of the cores averaged over the workers; of waiting and of foreign use, the worst.
fn cpu(parts: &[Part]) -> Cpu {
    let all: Vec<(&Cpu, f64)> = parts
        .iter()
        .filter_map(|part| {
            Some((part.trial.cpu.get("tester")?, part.trial.conditions.workers as f64))
        })
        .collect();
    let worst = |share: fn(&Cpu) -> Option<f64>| {
        all.iter().filter_map(|(cpu, _)| share(cpu)).max_by(f64::total_cmp)
    };
    let softirq: Vec<f64> = all.iter().filter_map(|(cpu, _)| cpu.softirq_s).collect();
    let workers: f64 = all.iter().map(|(_, workers)| workers).sum();
    Cpu {
        user_s: all.iter().map(|(cpu, _)| cpu.user_s).sum(),
        system_s: all.iter().map(|(cpu, _)| cpu.system_s).sum(),
        softirq_s: (softirq.len() == parts.len()).then(|| softirq.iter().sum()),
        busy: all.iter().map(|(cpu, workers)| cpu.busy * workers).sum::<f64>() / workers.max(1.0),
        run_delay: worst(|cpu| cpu.run_delay),
        waited: worst(|cpu| cpu.waited),
        foreign: worst(|cpu| cpu.foreign),
        // The cores of the parts are on different hosts.
        ..Cpu::default()
    }
}

fn drops(parts: &[Part]) -> Drops {
    let mut sum = Drops::default();
    for Part { trial, .. } in parts {
        measure::add!(sum, trial.drops;
            tester_receive, authdns_receive, dut_receive, dut_not_taken, link, tester_send);
    }
    sum
}

fn disturbances(parts: &[Part]) -> measure::Disturbances {
    let mut all = parts.iter().map(|part| &part.trial.disturbances);
    let mut sum = all.next().cloned().unwrap_or_default();
    all.for_each(|other| sum.merge_of_host(other));
    sum
}

fn series(parts: &[Part]) -> Vec<Second> {
    let seconds = parts.iter().map(|part| part.trial.series.len()).max().unwrap_or(0);
    let mut sum = vec![Second::default(); seconds];
    for part in parts {
        for (sum, second) in sum.iter_mut().zip(&part.trial.series) {
            sum.sent += second.sent;
            sum.unserved += second.unserved;
            sum.valid += second.valid;
            sum.lost += second.lost;
            sum.connections += second.connections;
            for (to, from) in
                [(&mut sum.rcodes, &second.rcodes), (&mut sum.invalid, &second.invalid)]
            {
                from.iter().for_each(|(word, n)| *to.entry(word.clone()).or_default() += n);
            }
        }
    }
    sum
}

/// Adds the steps that all parts have; the mean latency is over all their answered queries.
fn steps(parts: &[Part]) -> Option<Steps> {
    let all: Vec<&Steps> = parts.iter().filter_map(|part| part.trial.steps.as_ref()).collect();
    let length_s = all.first()?.length_s;
    let whole = all.iter().map(|steps| steps.steps.len()).min()?;
    let step = |number: usize| {
        let of = || all.iter().map(move |steps| &steps.steps[number]);
        let answered: u64 = of().map(|step| step.answered).sum();
        let waited: f64 = of().map(|step| step.latency_us * step.answered as f64).sum();
        let target: Option<Vec<f64>> = of().map(|step| step.target_qps).collect();
        Step {
            target_qps: target.map(|rates| rates.iter().sum()),
            sent: of().map(|step| step.sent).sum(),
            answered,
            lost: of().map(|step| step.lost).sum(),
            failed: of().map(|step| step.failed).sum(),
            latency_us: waited / answered.max(1) as f64,
        }
    };
    Some(Steps { length_s, steps: (0..whole).map(step).collect() })
}

/// Connections of a part, with its name.
type OfPart<'p> = (&'p str, &'p Connections);

/// Adds up the connections; `None` over UDP.
fn connections(parts: &[Part]) -> Result<Option<Connections>, MergeError> {
    let all = parts.iter().filter_map(|part| {
        part.trial.connections.as_ref().map(|connections| (part.name.as_str(), connections))
    });
    let all: Vec<OfPart<'_>> = all.collect();
    if all.is_empty() { Ok(None) } else { sum_of_connections(&all).map(Some) }
}

fn sum_of_connections(all: &[OfPart<'_>]) -> Result<Connections, MergeError> {
    let each = || all.iter().map(|(_, connections)| *connections);
    let merged = |what, of: fn(&Connections) -> &Times| {
        times(all.iter().map(|(name, connections)| (*name, of(connections))), what)
    };
    let transports = each().flat_map(|c| c.by_transport.keys()).cloned();
    let mut by_transport = BTreeMap::new();
    for transport in transports.collect::<std::collections::BTreeSet<String>>() {
        let parts =
            all.iter().filter_map(|(name, c)| Some((*name, c.by_transport.get(&transport)?)));
        let parts: Vec<OfPart<'_>> = parts.collect();
        by_transport.insert(transport.clone(), sum_of_connections(&parts)?);
    }
    let mut sum = Connections {
        clients: each().map(|c| c.clients).sum(),
        queries_per_connection: each().find_map(|c| c.queries_per_connection),
        outstanding: each().map(|c| c.outstanding).max().unwrap_or(0),
        failed: counts(each().map(|c| &c.failed)),
        queries_failed: counts(each().map(|c| &c.queries_failed)),
        connect_us: merged("connect_us", |c| &c.connect_us)?,
        handshake_us: merged("handshake_us", |c| &c.handshake_us)?,
        first_query_us: merged("first_query_us", |c| &c.first_query_us)?,
        steady_us: merged("steady_us", |c| &c.steady_us)?,
        by_transport,
        ..Connections::default()
    };
    for part in each() {
        // The peaks may be at different times: their sum is an upper bound.
        measure::add!(sum, part;
            attempts, established, resumed, early_data, completed, closed_idle, closed_by_server,
            slow, lost_with_connection, turned_away, resent, asked_over_tcp, streams_refused,
            streams_waited, unserved, peak, open_at_end, unanswered, served_peak, bytes_sent,
            bytes_received, writes, reads);
    }
    sum.resumption_rate = sum.resumed as f64 / sum.established.max(1) as f64;
    Ok(sum)
}

/// The conditions that all parts have, with the sockets and workers of all, and the start that was farthest from the agreed one.
fn conditions(parts: &[Part]) -> Conditions {
    let each = || parts.iter().map(|part| &part.trial.conditions);
    let starts = || each().filter_map(|c| c.agreed_start);
    let first = each().next().cloned().unwrap_or_default();
    Conditions {
        started_unix_s: each().filter_map(|c| c.started_unix_s).min_by(f64::total_cmp),
        sockets: each().map(|c| c.sockets).sum(),
        workers: each().map(|c| c.workers).sum(),
        cpus: Vec::new(),
        receive_buffer: each().map(|c| c.receive_buffer).min().unwrap_or(0),
        gro: each().all(|c| c.gro),
        timestamps: each().all(|c| c.timestamps),
        slice: Slice::default(),
        agreed_start: starts().max_by(|a, b| a.error_us.abs().total_cmp(&b.error_us.abs())),
        ..first
    }
}

/// The warnings of all parts; those that depend on the verdict are left out.
fn warnings(parts: &[Part]) -> Vec<Warning> {
    let of_verdict = |warning: &&Warning| {
        matches!(warning, Warning::NotSustained { .. } | Warning::LateQueries { .. })
    };
    let all = parts.iter().flat_map(|part| &part.trial.warnings);
    all.filter(|warning| !of_verdict(warning)).cloned().collect()
}
