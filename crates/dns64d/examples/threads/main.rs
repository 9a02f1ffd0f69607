//! A small DNS64 server with a thread for each query, or a pool of threads, as MTD64 and mtd64-ng are described: the
//! reference for the experiments of seed 000. It is no server for users: UDP only, no cache, no DNSSEC.
//!
//! ```text
//!   socket ──> query ──> a new thread, or one of the pool ──> AAAA? ──> upstream ──> answer: passed on
//!                                                             A?    ──> upstream ──> synthesised AAAA
//! ```
//!
//! A thread waits for its upstream server, on a socket of its own. So there is no table of queries in progress, and all
//! cores are used without further effort; the price is a thread, or a place in the pool, for each query that waits. What
//! this server does better than its models: it checks source, id and question of upstream replies, and the number of its
//! threads has a bound.

mod server;

use std::net::UdpSocket;

use clap::Parser;

use server::{Args, Server};

fn main() -> anyhow::Result<()> {
    let server = Server::new(Args::parse());
    let sockets = server.args.listen.iter().map(UdpSocket::bind);
    let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
    let pool = server.args.pool.map(|threads| server.start_pool(threads));
    std::thread::scope(|scope| {
        let serving: Vec<_> = sockets
            .into_iter()
            .map(|socket| scope.spawn(|| server.serve(socket, pool.as_ref())))
            .collect();
        // A socket is served without end.
        serving.into_iter().try_for_each(|thread| match thread.join() {
            Ok(error) => Err(error.into()),
            Err(_) => Err(anyhow::anyhow!("a thread panicked")),
        })
    })
}
