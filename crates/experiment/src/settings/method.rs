//! The methods by which cells are measured, by their words.

use serde::Deserialize;

/// Method by which cells are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The highest rate that meets a goal, by bracketing and bisection.
    #[default]
    Search,
    /// The answers a second from rounds of closed loops and the server's own CPU time.
    Capacity,
    /// The largest number of clients with which a goal is met, each with its own queries at their own times.
    Clients,
    /// dns64perf's lanes: each lane sends its next query when the last one is answered.
    Lockstep,
    /// Open loop at given rates.
    Load,
    /// Closed loop: a fixed number of queries outstanding, as dnsperf does it.
    Closed,
    /// The time that a server takes to load its zone, its memory, and its rate afterwards.
    ZoneLoad,
    /// Experiments of 256 queries by different generators.
    Generators,
    /// Updates to a primary as fast as it commits them, and whether they survive SIGKILL.
    UpdateRate,
    /// Queries to a secondary whose primary is updated.
    QueryUnderUpdate,
    /// Queries for a signed or unsigned zone, and the sizes of the replies.
    SignedUnsigned,
    /// A legitimate load, and an attack in its middle.
    Drill,
    /// The answers of all servers to the same queries, compared.
    Answers,
}

measure::words! {
    Method {
        Search = "search",
        Capacity = "capacity",
        Clients = "clients",
        Lockstep = "lockstep",
        Load = "load",
        Closed = "closed",
        ZoneLoad = "zone-load",
        Generators = "generators",
        UpdateRate = "update-rate",
        QueryUnderUpdate = "query-under-update",
        SignedUnsigned = "signed-unsigned",
        Drill = "drill",
        Answers = "answers",
    }
}

impl Method {
    /// Returns the word of the method in records: a search over clients is a search.
    pub fn recorded(self) -> &'static str {
        if self.searches() { Method::Search.word() } else { self.word() }
    }

    /// Returns whether the method is a search (`[search]`).
    pub fn searches(self) -> bool {
        matches!(self, Method::Search | Method::Clients)
    }

    /// Returns the unit of the numbers of its search if they are no queries a second.
    pub fn over(self) -> Option<&'static str> {
        (self == Method::Clients).then_some("clients")
    }

    /// Returns whether the method measures all servers of a point at once, not one after the other.
    pub fn compares(self) -> bool {
        self == Method::Answers
    }

    /// Returns whether the method's figure is a capacity, and not a figure of one load.
    pub fn is_capacity(self) -> bool {
        self.searches() || matches!(self, Method::Closed | Method::Capacity)
    }

    /// Returns whether the method uses a zone of delegations, its primary and its secondaries (`[replication]`).
    pub fn replicates(self) -> bool {
        matches!(self, Method::UpdateRate | Method::QueryUnderUpdate | Method::SignedUnsigned)
    }
}
