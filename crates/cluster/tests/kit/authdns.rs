//! An AuthDNS in the process of the test, whose queries are counted as they come.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use auth::{Auth, AuthConfig};
use engine::{Next, Role, RxBatch, SocketId, TxBatch, WaitMode, drive};
use measure::Nanos;
use nix::sched::{CloneFlags, setns};
use record::request::Sockets;
use tester::udp_options;
use udp::UdpEngine;

/// An AuthDNS over UDP; it ends when dropped.
pub(crate) struct AuthDns {
    pub(crate) address: SocketAddr,
    queries: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The role of the AuthDNS, with the number of queries that came.
struct Counted {
    auth: Auth,
    queries: Arc<AtomicU64>,
}

impl Role for Counted {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        self.queries.fetch_add(rx.len() as u64, Ordering::Relaxed);
        self.auth.handle(now, rx, tx)
    }
}

impl AuthDns {
    /// Starts an AuthDNS at an address of this host, or of a namespace.
    pub(crate) fn start(namespace: Option<&str>, at: &str) -> Self {
        let namespace = namespace.map(|name| format!("/run/netns/{name}"));
        let at: SocketAddr = at.parse().expect("an address");
        let (queries, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ended) = (queries.clone(), stop.clone());
        let (sender, bound) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            if let Some(path) = namespace {
                let file = File::open(path).expect("a namespace");
                setns(file, CloneFlags::CLONE_NEWNET).expect("enters");
            }
            let options = udp_options(&Sockets::default());
            let mut engine = UdpEngine::server(&[at], false, options).expect("binds");
            sender.send(engine.local_address(SocketId(0)).expect("bound")).expect("wanted");
            let names = "10.0.0.0/8".parse().expect("a prefix");
            let names = wire::Namespace::with_default_zone(names);
            let auth = Auth::new(AuthConfig::new(names));
            let mut role = Counted { auth, queries: count };
            drive(&mut engine, &mut role, WaitMode::Sleep, &ended).expect("serves");
        });
        let address = bound.recv().expect("binds");
        AuthDns { address, queries, stop, thread: Some(thread) }
    }

    /// Waits until so many more queries have come.
    pub(crate) fn wait_for(&self, queries: u64) {
        let wanted = self.queries.load(Ordering::Relaxed) + queries;
        let enough = || (self.queries.load(Ordering::Relaxed) >= wanted).then_some(());
        crate::kit::soon("the queries reach the AuthDNS", enough);
    }
}

impl Drop for AuthDns {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
