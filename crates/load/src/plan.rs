//! The plan of a trial: the same for all workers except for the worker's number.

use measure::{Goal, Nanos, Pacing};

/// Plan of one worker: its part of the load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rule of when queries leave.
    pub pacing: Pacing,
    /// Duration of sending; outstanding queries are awaited after it.
    pub duration: Nanos,
    /// Timeout of one query: a reply counts only within this time.
    pub timeout: Nanos,
    /// Longest time that a query may be held after its due time to leave together with others.
    pub max_burst: Nanos,
    /// Whether neighbouring queries leave as one segmented message: then each waits `max_burst` at most for
    /// others, and many go through one socket. Else each leaves when it is due, through the next socket.
    pub segmented: bool,
    /// Whether a window grows with the replies and is limited to the number that the server
    /// answers; otherwise it is full at once.
    pub adaptive_window: bool,
    /// Whether a query of a closed loop keeps its place until its timeout, as over streams; else, where the window is adaptive, only as
    /// long as a reply is likely.
    pub keep_places: bool,
    /// Goal that ends the trial as soon as it cannot be met any more.
    pub stop_at: Option<Goal>,
    /// Number of queries outstanding at this worker at which the sending ends.
    pub most_outstanding: Option<u64>,
    /// Length of the steps whose queries are counted separately.
    pub step: Option<Nanos>,
    /// Number of connected sockets of the engine.
    pub sockets: u16,
    /// Seed of Poisson arrivals and of the ids.
    pub seed: u64,
    /// Number of this worker, from 0.
    pub worker: u32,
    /// Number of workers, which share the load equally.
    pub workers: u32,
}

impl Plan {
    /// Returns the time after the start at which an open loop behind its schedule stops sending: a
    /// tenth of its duration and a second after its end. The rest of its queries stays unsent.
    pub fn cut_off(&self) -> Nanos {
        self.duration + Nanos(self.duration.0 / 10) + Nanos::from_secs(1)
    }
}
