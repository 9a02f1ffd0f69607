//! The conductor for a remote dnsdyno (`lab::job`): it reads orders from its input and writes replies to its output.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::clock;
use lab::message::{Greeting, Order, Reply, each, encode};
use load::Live;
use measure::Nanos;
use record::{TesterCount, TrialRequest};
use tester::Background;

use crate::conductor::Conductor;
use crate::link::Link;

/// Interval of the counters of a trial.
const COUNTER_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between checks whether a signal has come.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks for an order.
const ORDER_CHECK_INTERVAL: Nanos = Nanos::from_millis(5);

/// Writes a reply to an output of several threads; a closed reader also ends the input.
fn say<W: Write>(output: &Mutex<W>, reply: &Reply) {
    let mut out = output.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = out.write_all(&encode(reply)).and_then(|()| out.flush());
}

/// Carries out the orders on `input` until it ends or `signalled` is set; replies go to `output`.
/// Returns the conductor.
pub fn serve<L: Link>(
    mut conductor: Conductor<L>,
    version: &str,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signalled: Arc<AtomicBool>,
) -> Conductor<L> {
    let output = Arc::new(Mutex::new(output));
    let greeting = Greeting { version: version.to_owned(), ..Greeting::default() };
    say(&output, &Reply::Ready(Box::new(greeting)));
    let stop = Arc::new(AtomicBool::new(false));
    let trials = read_orders(input, stop.clone());
    loop {
        match trials.recv_timeout(Duration::ZERO) {
            Ok((trial, request)) => {
                let live = Arc::new(Live::default());
                let counters = show(live.clone(), stop.clone(), signalled.clone(), output.clone());
                let result = conductor.trial(&request, &live, &stop);
                drop(counters);
                say(
                    &output,
                    &match result {
                        Ok(result) => Reply::Done { trial, result: Box::new(result) },
                        Err(why) => Reply::Refused(why),
                    },
                );
            }
            Err(RecvTimeoutError::Timeout) if signalled.load(Ordering::Relaxed) => {
                return conductor;
            }
            Err(RecvTimeoutError::Timeout) => conductor.pause(ORDER_CHECK_INTERVAL),
            Err(RecvTimeoutError::Disconnected) => return conductor,
        }
    }
}

/// Reads orders in a thread of its own; passes on the orders for trials. `stop` is set by an order
/// to end a trial and at the end of the input, and reset by the next trial.
fn read_orders(
    input: impl Read + Send + 'static,
    stop: Arc<AtomicBool>,
) -> Receiver<(u64, Box<TrialRequest>)> {
    let (sender, trials) = sync_channel(1);
    std::thread::spawn(move || {
        each(input, |order| {
            match order {
                Ok(Order::Trial { trial, request }) => {
                    stop.store(false, Ordering::Relaxed);
                    return sender.send((trial, request)).is_ok();
                }
                Ok(Order::EndTrial { .. }) => stop.store(true, Ordering::Relaxed),
                Ok(Order::Alive) => {}
                Ok(_) => return false,
                Err(found) => {
                    eprintln!("not an order of a conductor: {found}");
                    return false;
                }
            }
            true
        });
        stop.store(true, Ordering::Relaxed);
    });
    trials
}

/// Writes the start of a trial once it is agreed, and its counters, until the returned value is dropped; a signal stops the trial.
fn show<W: Write + Send + 'static>(
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    signalled: Arc<AtomicBool>,
    output: Arc<Mutex<W>>,
) -> Background<()> {
    Background::start(move |done| {
        let (mut next, mut told) = (Instant::now(), false);
        while !done.load(Ordering::Relaxed) {
            if signalled.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(SIGNAL_CHECK_INTERVAL);
            let agreed = Nanos(live.agreed_ns.load(Ordering::Relaxed));
            if !told && agreed > Nanos::ZERO {
                told = true;
                say(&output, &Reply::Starts { in_ns: agreed.since(clock::realtime()).0 });
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + COUNTER_INTERVAL;
            let all = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
            let counters = all.map(|counter| counter.load(Ordering::Relaxed));
            let testers = live.testers.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let count = |(name, sent, bad)| TesterCount { name, sent, bad };
            let testers = testers.into_iter().map(count).collect();
            say(&output, &Reply::Counters { counters, testers });
        }
    })
}
