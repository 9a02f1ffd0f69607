//! The conductor for a remote dnsdyno (`lab::job`): it reads asks from its input and writes answers to its output.

use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::clock;
use lab::job::{Answer, Ask};
use load::Live;
use measure::Nanos;
use record::{TesterCount, TrialRequest};
use tester::Background;

use crate::conductor::{Conductor, NoTrial};
use crate::link::Link;

/// Longest ask, in octets.
const LONGEST: u64 = 16 << 20;
/// Interval of the counters of a trial.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two looks whether a signal has come.
const NAP: Duration = Duration::from_millis(20);
/// Time between two looks for an ask.
const LOOK: Nanos = Nanos::from_millis(5);

/// An output that two threads write to, a line each time.
struct Lines<W>(Mutex<W>);

impl<W: Write> Lines<W> {
    /// Writes an answer; a reader that is gone ends the input too.
    fn write(&self, answer: &Answer) {
        let mut line = serde_json::to_vec(answer).expect("an answer is plain data");
        line.push(b'\n');
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// Does what is asked on `input` until it ends or `signalled` is set; answers go to `output`. Returns the conductor.
pub fn serve<L: Link>(
    mut conductor: Conductor<L>,
    version: &str,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    signalled: Arc<AtomicBool>,
) -> Conductor<L> {
    let output = Arc::new(Lines(Mutex::new(output)));
    output.write(&Answer::Ready { version: version.to_owned() });
    let stop = Arc::new(AtomicBool::new(false));
    let asks = read_asks(input, stop.clone());
    loop {
        match asks.recv_timeout(Duration::ZERO) {
            Ok(request) => {
                let live = Arc::new(Live::default());
                let counters = show(live.clone(), stop.clone(), signalled.clone(), output.clone());
                let trial = conductor.trial(&request, &live, &stop);
                drop(counters);
                output.write(&match trial {
                    Ok(trial) => Answer::Trial { trial: Box::new(trial) },
                    Err(NoTrial::Refused(why)) => Answer::Refused { why },
                    Err(NoTrial::Failed(why)) => Answer::Failed { why },
                });
            }
            Err(RecvTimeoutError::Timeout) if signalled.load(Ordering::Relaxed) => {
                return conductor;
            }
            Err(RecvTimeoutError::Timeout) => conductor.pause(LOOK),
            Err(RecvTimeoutError::Disconnected) => return conductor,
        }
    }
}

/// Reads asks in a thread of its own. `stop` is set by an ask to stop and at the end of the input, and reset by the next trial.
fn read_asks(
    mut input: impl BufRead + Send + 'static,
    stop: Arc<AtomicBool>,
) -> Receiver<TrialRequest> {
    let (sender, asks) = sync_channel(1);
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            let read = input.by_ref().take(LONGEST).read_line(&mut line);
            let ask = match read {
                Ok(1..) => serde_json::from_str(&line).ok(),
                _ => None,
            };
            match ask {
                Some(Ask::Trial { request }) => {
                    stop.store(false, Ordering::Relaxed);
                    if sender.send(*request).is_err() {
                        return;
                    }
                }
                Some(Ask::Stop) => stop.store(true, Ordering::Relaxed),
                None => return stop.store(true, Ordering::Relaxed),
            }
        }
    });
    asks
}

/// Writes the start of a trial once it is agreed, and its counters, until the returned value is dropped; a signal stops the trial.
fn show<W: Write + Send + 'static>(
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    signalled: Arc<AtomicBool>,
    output: Arc<Lines<W>>,
) -> Background<()> {
    Background::start(move |done| {
        let (mut next, mut told) = (Instant::now(), false);
        while !done.load(Ordering::Relaxed) {
            if signalled.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(NAP);
            let agreed = Nanos(live.agreed_ns.load(Ordering::Relaxed));
            if !told && agreed > Nanos::ZERO {
                told = true;
                output.write(&Answer::Starts { in_ns: agreed.since(clock::realtime()).0 });
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + INTERVAL;
            let all = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
            let counters = all.map(|counter| counter.load(Ordering::Relaxed));
            let testers = live.testers.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let count = |(name, sent, bad)| TesterCount { name, sent, bad };
            let testers = testers.into_iter().map(count).collect();
            output.write(&Answer::Counters { counters, testers });
        }
    })
}
