//! Counters of a worker since its start.

/// Defines the structure, its summation and its metric names from one list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters of a worker since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Adds the counts of another worker.
            pub fn merge(&mut self, other: &Counters) {
                $(self.$name += other.$name;)+
            }

            /// Counts queries over UDP that a second cache answered in front of the server.
            pub fn answered_in_front(&mut self, answers: u64) {
                self.queries_udp += answers;
                self.cache_hits += answers;
                self.replies += answers;
            }

            /// Counts replies over the rate limits that a second cache suppressed or, `slipped` of
            /// them, truncated.
            pub fn limited_in_front(&mut self, limited: u64, slipped: u64) {
                self.queries_udp += limited - slipped.min(limited);
                self.rate_limited += limited;
                self.truncated += slipped;
            }

            /// Counts queries over UDP that a program in front of the server resolved, of these
            /// numbers of `answers`, `queries` to upstream and `replies`; queries that it passed to
            /// the server are included.
            pub fn resolved_in_front(&mut self, answers: u64, queries: u64, replies: u64) {
                self.queries_udp += answers;
                self.synthesised += answers;
                self.replies += answers;
                self.upstream_queries += queries;
                self.upstream_replies += replies;
            }

            /// Returns name, meaning and value of each counter.
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($doc),+).trim_ascii(), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Queries of clients over UDP, also those that the kernel answers.
    queries_udp,
    /// Queries of clients over TCP, TLS, HTTPS and QUIC.
    queries_stream,
    /// Messages of clients dropped without a reply: responses and unreadable ones.
    ignored,
    /// Queries of clients that are not permitted.
    denied,
    /// Datagrams of proxies without a valid PROXY header, dropped.
    proxy_errors,
    /// Invalid or unsupported queries, answered with FORMERR, NOTIMP, BADVERS or REFUSED.
    bad_queries,
    /// Replies passed to the engine or to a stream.
    replies,
    /// Replies truncated to the size that the client accepts.
    truncated,
    /// Replies not sent because of the rate limit.
    rate_limited,
    /// Replies not sent because a batch, or the memory for streams, was full.
    unsent,
    /// Replies with synthesised AAAA records.
    synthesised,
    /// Replies to AAAA queries with AAAA records from upstream.
    native,
    /// Queries for reverse names under a prefix.
    reverse,
    /// Queries for ipv4only.arpa and its reverse names, answered locally.
    ipv4only,
    /// Queries for localhost and other names that are never forwarded, answered locally.
    local,
    /// Queries for names with a rule of a file.
    ruled,
    /// Queries answered from the cache.
    cache_hits,
    /// Queries answered from the cache with an expired answer.
    cache_stale,
    /// Queries that joined the same pending question.
    joined,
    /// Queries refused or dropped because all places were taken.
    overloaded,
    /// Queries refused or dropped because their client network had used its share.
    over_share,
    /// Waiting queries dropped or refused to make room for newer ones.
    displaced,
    /// Queries sent upstream, each attempt counted.
    upstream_queries,
    /// Queries sent upstream again, since no reply came in time.
    upstream_retries,
    /// Queries sent upstream again later than usual, since upstream answers too few queries.
    upstream_postponed,
    /// Queries sent upstream by TCP or TLS.
    upstream_tcp,
    /// Replies from upstream to pending queries.
    upstream_replies,
    /// Queries that upstream did not answer in time.
    upstream_timeouts,
    /// Replies with an error: SERVFAIL, REFUSED and the like.
    upstream_errors,
    /// Messages on upstream sockets without a pending query: late or forged ones.
    upstream_unexpected,
    /// Messages with the right id but another question, another letter case of its name, or another cookie.
    upstream_mismatched,
    /// Replies from upstream with the cookie of the query.
    upstream_cookies,
    /// Replies that refuse the cookie of the query, or require one (BADCOOKIE).
    upstream_bad_cookies,
    /// Messages from upstream that could not be parsed.
    upstream_malformed,
    /// Replies from which records were removed that do not belong to the question.
    upstream_scrubbed,
    /// Number of times that an upstream server was declared dead.
    upstream_deaths,
    /// Failures (SERVFAIL) returned to clients.
    failures,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_have_names() {
        let mut sum = Counters { replies: 1, ..Counters::default() };
        sum.merge(&Counters { replies: 2, failures: 3, ..Counters::default() });
        assert_eq!((sum.replies, sum.failures), (3, 3));
        let list = sum.list();
        assert!(list.contains(&("replies", "Replies passed to the engine or to a stream.", 3)));
        assert!(list.iter().all(|(_, meaning, _)| meaning.ends_with('.')));
    }
}
