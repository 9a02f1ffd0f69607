//! The report of a stream of updates.

use std::fmt::Write as _;

use record::UpdateRun;

use crate::view::{significant, thousands, time_us};

/// Formats the result of a stream of updates.
pub fn updates(run: &UpdateRun) -> String {
    let mut out = String::new();
    // A write to a String never fails.
    let _ = write_updates(run, &mut out);
    out
}

fn write_updates(run: &UpdateRun, out: &mut String) -> std::fmt::Result {
    let signed = run.key.as_ref().map_or("unsigned".to_owned(), |key| format!("key {key}"));
    let pace = match run.rate {
        Some(rate) => format!("{} a second", significant(rate)),
        None => format!("as fast as acknowledged, {} at once", run.window),
    };
    writeln!(out, "updates to {} over {}, {signed}, {pace}", run.server, run.transport)?;
    writeln!(
        out,
        "  {} sent in {:.2} s, {} acknowledged: {:.1} a second",
        thousands(run.sent as f64),
        run.seconds,
        thousands(run.acknowledged as f64),
        run.per_second
    )?;
    for (rcode, count) in &run.rcodes {
        writeln!(out, "  {rcode:<10} {count}")?;
    }
    if run.lost > 0 {
        writeln!(out, "  no reply   {}", run.lost)?;
    }
    let latency = &run.latency_us;
    if latency.count > 0 {
        writeln!(
            out,
            "  latency    median {}, 90 % {}, 99 % {}, largest {}",
            time_us(latency.p50),
            time_us(latency.p90),
            time_us(latency.p99),
            time_us(latency.max)
        )?;
    }
    if let Some(found) = &run.durability {
        let verdict = match found.gone {
            0 => "every acknowledged update survived".to_owned(),
            gone => format!("{gone} acknowledged updates are lost"),
        };
        writeln!(out, "  SIGKILL    {verdict} ({} looked up)", found.acknowledged)?;
        for name in &found.examples {
            writeln!(out, "             gone: {name}")?;
        }
    }
    for lag in &run.lags {
        let (p50, p99) = (time_us(lag.lag_us.p50), time_us(lag.lag_us.p99));
        let (seen, unseen) = (lag.lag_us.count, lag.unseen);
        writeln!(
            out,
            "  {} behind by {p50} (median), {p99} (99 %) over {seen} updates; {unseen} did not arrive",
            lag.server
        )?;
    }
    if let Some(why) = &run.ended_by {
        writeln!(out, "  ended early: {why}")?;
    }
    if let Some(why) = &run.left_out {
        writeln!(out, "  a zone could not be updated: {why}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::updates::{Durability, Lag};

    use super::*;

    #[test]
    fn every_line_of_the_report() {
        let run = UpdateRun {
            server: "127.0.0.1:53".to_owned(),
            transport: "udp".to_owned(),
            key: Some("lab".to_owned()),
            window: 4,
            seconds: 2.0,
            sent: 1_003,
            acknowledged: 1_000,
            rcodes: BTreeMap::from([("NOERROR".to_owned(), 1_000), ("YXDOMAIN".to_owned(), 2)]),
            lost: 1,
            per_second: 500.0,
            killed: true,
            ended_by: Some("it was killed".to_owned()),
            left_out: Some("NOTAUTH: no".to_owned()),
            durability: Some(Durability {
                acknowledged: 1_000,
                gone: 1,
                examples: vec!["a.test".to_owned()],
            }),
            lags: vec![Lag {
                server: "127.0.0.2:53".to_owned(),
                lag_us: record::Times { p50: 4e3, p99: 5e3, count: 9, ..Default::default() },
                unseen: 1,
            }],
            ..UpdateRun::default()
        };
        let text = updates(&run);
        for part in [
            "updates to 127.0.0.1:53 over udp, key lab, as fast as acknowledged, 4 at once\n",
            "1,003 sent in 2.00 s, 1,000 acknowledged: 500.0 a second\n",
            "YXDOMAIN   2\n",
            "no reply   1\n",
            "1 acknowledged updates are lost (1000 looked up)\n",
            "gone: a.test\n",
            "127.0.0.2:53 behind by 4.00 ms (median), 5.00 ms (99 %) over 9 updates; 1 did not arrive\n",
            "ended early: it was killed\n",
            "a zone could not be updated: NOTAUTH: no\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
