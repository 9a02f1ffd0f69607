//! Checks of a comparison of answers.

use std::ops::RangeInclusive;

use measure::{Nanos, Transport};
use record::EngineChoice;

use super::{Invalid, lasting, must, within};
use crate::settings::{Method, Settings};

/// Bounds of the number of servers whose answers are compared, and of the queries under way at once.
pub(crate) const SERVERS: RangeInclusive<usize> = 2..=8;
const WINDOW: RangeInclusive<u16> = 1..=1_024;

/// Checks the settings of the method `answers`, and that no setting is given that it does not have.
pub(super) fn answers(s: &Settings) -> Result<(), Invalid> {
    let a = &s.answers;
    lasting(a.timeout, "answers.timeout")?;
    within(a.window, WINDOW, "answers.window")?;
    if s.method != Method::Answers {
        return Ok(());
    }
    must(
        s.repeats == 1,
        "repeats",
        "the method `answers` repeats a query itself where answers differ: write `repeats = 1`",
    )?;
    must(
        s.workload.is_stream() && s.workload.internet.is_none(),
        "workload",
        "the method `answers` sends each query of a stream once: give `mixed`, `hosts` or `zone-file`, or `queries` or `replay`",
    )?;
    must(
        s.servers.len() <= *SERVERS.end(),
        "servers",
        format!("the answers of {} to {} servers are compared", SERVERS.start(), SERVERS.end()),
    )?;
    must(
        s.warm_up == Nanos::ZERO,
        "warm-up",
        "the method `answers` applies no load to its servers: leave out `warm-up`",
    )?;
    must(
        s.dut.cpu_limit.is_none(),
        "dut.cpu-limit",
        "`cpu-limit` slows one server down, but the method `answers` queries all servers at once: leave it out",
    )?;
    must(
        s.tester.transport == Transport::Udp && s.tester.engine != EngineChoice::Kernel,
        "tester",
        "the method `answers` sends queries over udp by sockets, and repeats them over tcp after a truncated reply",
    )
}
