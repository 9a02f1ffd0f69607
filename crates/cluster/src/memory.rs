//! Links between threads of one process: for tests, and to simulate many ranks on one host.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::link::Link;

/// Link of one rank among threads.
#[derive(Debug)]
pub struct MemoryLink {
    rank: usize,
    others: Vec<Sender<(usize, Vec<u8>)>>,
    inbox: Receiver<(usize, Vec<u8>)>,
}

/// Makes the links of `size` ranks, in their order.
pub fn links(size: usize) -> Vec<MemoryLink> {
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
    let link = |(rank, inbox)| MemoryLink { rank, others: senders.clone(), inbox };
    inboxes.into_iter().enumerate().map(link).collect()
}

impl Link for MemoryLink {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.others.len()
    }

    fn send(&mut self, to: usize, message: &[u8]) {
        // A message to an ended rank is lost, as over a network.
        let _ = self.others[to].send((self.rank, message.to_vec()));
    }

    fn poll(&mut self) -> Option<(usize, Vec<u8>)> {
        self.inbox.try_recv().ok()
    }
}
