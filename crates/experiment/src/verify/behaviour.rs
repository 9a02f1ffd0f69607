//! The behaviour of a server that a Tester is checked against, as arguments of `dnsdyno auth`.

use measure::{Nanos, Qps};

/// Known behaviour of a server; by default it answers every query correctly and at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// Delay of every reply, unless there are two latencies.
    pub delay: Nanos,
    /// Rate of its answers; `None` if only limited by time.
    pub capacity: Option<TokenBucket>,
    /// Two latencies; `None` for none.
    pub latency: Option<Bimodal>,
    /// Share (0 to 1) of replies that are not sent.
    pub loss: f64,
    /// Share (0 to 1) of replies that are sent twice.
    pub duplicates: f64,
    /// Share (0 to 1) of replies with the return code SERVFAIL.
    pub servfail: f64,
    /// Replies after the Tester's timeout.
    pub late: Option<Late>,
    /// Connections that are accepted a second; `None` without a limit.
    pub accept_rate: Option<Qps>,
}

/// A rate of answers, with a burst after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucket {
    /// Answers a second in the long run.
    pub rate: Qps,
    /// Size of a burst, as a time at the full rate.
    pub burst: Nanos,
}

/// Two delays: each reply has the low one or the high one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bimodal {
    /// Share (0 to 1) of replies with the low latency.
    pub share: f64,
    /// Delay of the replies that `share` counts.
    pub low: Nanos,
    /// Delay of all other replies.
    pub high: Nanos,
}

/// Replies that the server delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// Share (0 to 1) of the replies.
    pub share: f64,
    /// Delay of such replies after the query.
    pub after: Nanos,
}

impl TokenBucket {
    /// Returns the highest rate at which a trial of `duration` gets every answer: the burst is spent within the trial.
    pub fn lossless(&self, duration: Nanos) -> f64 {
        let burst = (self.rate.get() * self.burst.as_secs_f64()).round().max(1.0);
        self.rate.get() + burst / duration.as_secs_f64()
    }
}

impl Behaviour {
    /// Returns the arguments of `dnsdyno auth` for this behaviour.
    pub fn arguments(&self) -> Vec<String> {
        let capacity = self.capacity.map(|c| format!("--capacity={}:{}", c.rate.exact(), c.burst));
        let latency = self.latency.map(|l| {
            format!("--latency=bimodal:{}:{}:{}", l.share, compact(l.low), compact(l.high))
        });
        let late = self.late.map(|l| format!("--late={}:{}", l.share, compact(l.after)));
        let delay = (self.delay > Nanos::ZERO).then(|| format!("--delay={}", compact(self.delay)));
        let accept = self.accept_rate.map(|rate| format!("--accept-rate={}", rate.exact()));
        let shares = [
            ("loss=", self.loss),
            ("fault=servfail:", self.servfail),
            ("fault=duplicate:", self.duplicates),
        ];
        let shares = shares.map(|(flag, of)| (of > 0.0).then(|| format!("--{flag}{of}")));
        shares.into_iter().chain([delay, capacity, latency, late, accept]).flatten().collect()
    }
}

/// Formats a time without the spaces of its units.
fn compact(time: Nanos) -> String {
    time.to_string().replace(' ', "")
}
