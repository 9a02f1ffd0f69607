//! What passes between a worker and whoever carries its streams (TCP and what is built on it).
//!
//! A worker knows streams by numbers only. What comes is put into the worker's inbox by [`Dns64::take`]; what is to go
//! is fetched by [`Dns64::give`](crate::Dns64::give).
//!
//! [`Dns64::take`]: crate::Dns64::take

use std::net::{IpAddr, SocketAddr};

/// What comes to a worker.
#[derive(Debug)]
pub enum FromStreams {
    /// A client asks.
    Query {
        /// His stream.
        stream: u64,
        /// His address.
        client: IpAddr,
        /// His query.
        message: Vec<u8>,
    },
    /// Upstream has answered, or will not.
    Reply {
        /// What was stated in [`ToStreams::Ask`].
        lookup: u32,
        /// What was stated there, too.
        ticket: u32,
        /// The reply; `None` after a failure.
        message: Option<Vec<u8>>,
    },
}

/// What a worker wants carried.
#[derive(Debug, PartialEq, Eq)]
pub enum ToStreams {
    /// A reply to a client; an empty one where he is to get none.
    Answer {
        /// His stream.
        stream: u64,
        /// The reply.
        message: Vec<u8>,
    },
    /// A query to an upstream server.
    Ask {
        /// The server.
        server: SocketAddr,
        /// For the reply.
        lookup: u32,
        /// For the reply.
        ticket: u32,
        /// The query.
        message: Vec<u8>,
    },
}
