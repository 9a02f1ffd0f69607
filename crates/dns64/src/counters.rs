//! What a worker counts.

/// Makes the structure, its sum, and its names for Prometheus from one list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What a worker counts; all from its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Adds another worker's counts.
            pub fn merge(&mut self, other: &Counters) {
                $(self.$name += other.$name;)+
            }

            /// Name, meaning and value of each.
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($doc),+).trim_ascii(), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Queries received by UDP.
    queries_udp,
    /// Queries received by streams.
    queries_stream,
    /// Messages dropped unread: responses and scraps.
    ignored,
    /// Queries of clients that may not ask.
    denied,
    /// Queries answered with FORMERR, NOTIMP, BADVERS or REFUSED for what they were.
    bad_queries,
    /// Replies handed to the engine or to a stream.
    replies,
    /// Replies cut to what the client takes.
    truncated,
    /// Replies withheld by the rate limit.
    rate_limited,
    /// Replies withheld because a batch, or the room for streams, was full.
    unsent,
    /// Replies with synthesised AAAA records.
    synthesised,
    /// Replies to AAAA queries that had AAAA records of their own.
    native,
    /// PTR queries answered for addresses under a prefix.
    reverse,
    /// Queries for ipv4only.arpa and its reverse names answered here.
    ipv4only,
    /// Queries answered from the cache.
    cache_hits,
    /// Queries answered from the cache with what had expired.
    cache_stale,
    /// Queries that joined one under way.
    joined,
    /// Queries refused or dropped because all places were taken.
    overloaded,
    /// Queries refused or dropped because their network had its share.
    over_share,
    /// Waiting queries given up for newer ones.
    displaced,
    /// Queries sent upstream.
    upstream_queries,
    /// Queries sent upstream again.
    upstream_retries,
    /// Queries sent upstream by TCP or TLS.
    upstream_tcp,
    /// Replies from upstream that were waited for.
    upstream_replies,
    /// Queries that upstream did not answer in time.
    upstream_timeouts,
    /// Replies with an error: SERVFAIL, REFUSED and the like.
    upstream_errors,
    /// Messages on upstream sockets that nobody waited for: late, or guessed.
    upstream_unexpected,
    /// Messages with a right id but another question, or its name in another case.
    upstream_mismatched,
    /// Messages from upstream that could not be read.
    upstream_malformed,
    /// Times an upstream server was found dead.
    upstream_deaths,
    /// Failures told to clients (SERVFAIL).
    failures,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_names() {
        let mut sum = Counters { replies: 1, ..Counters::default() };
        sum.merge(&Counters { replies: 2, failures: 3, ..Counters::default() });
        assert_eq!((sum.replies, sum.failures), (3, 3));
        let list = sum.list();
        assert!(list.contains(&("replies", "Replies handed to the engine or to a stream.", 3)));
        assert!(list.iter().all(|(_, meaning, _)| meaning.ends_with('.')));
    }
}
