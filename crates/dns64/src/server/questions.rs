//! The questions that are pending: by age, by hash for clients that may join one, and within a bound of memory.

use std::ops::{Deref, DerefMut};

use hashbrown::HashTable;

use crate::policy::Policy;
use crate::question::Key;
use crate::table::slab::{NONE, Slab};
use crate::transaction::{Client, Transaction, Waiter};

/// Pending questions and the clients that have joined them.
pub(super) struct Questions {
    pub(super) transactions: Slab<Transaction>,
    pub(super) waiters: Slab<Waiter>,
    /// Questions that other clients may join, by their hashes.
    joinable: HashTable<u32>,
    /// First and last question of the list by age.
    pub(super) oldest: u32,
    newest: u32,
    /// Octets of replies and aliases that questions keep, and the most that they may keep.
    kept: usize,
    max_kept: usize,
}

impl Questions {
    /// Makes tables for `outstanding` questions and as many further clients.
    pub(super) fn new(outstanding: usize, max_kept: usize) -> Self {
        Questions {
            transactions: Slab::new(outstanding),
            waiters: Slab::new(outstanding),
            joinable: HashTable::new(),
            oldest: NONE,
            newest: NONE,
            kept: 0,
            max_kept,
        }
    }

    /// Adds a question as the newest one; `None` if there is no room.
    pub(super) fn open(&mut self, question: Transaction) -> Option<u32> {
        let t = self.transactions.insert(question)?;
        self.transactions[t].older = self.newest;
        match self.newest {
            NONE => self.oldest = t,
            newest => self.transactions[newest].newer = t,
        }
        self.newest = t;
        Some(t)
    }

    /// Lets later clients with the same question wait for its answer.
    pub(super) fn offer_to_others(&mut self, t: u32) {
        let transactions = &mut self.transactions;
        transactions[t].shared = true;
        self.joinable.insert_unique(transactions[t].key.hash, t, |&t| transactions[t].key.hash);
    }

    /// Returns the question with this key that a client may join.
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.joinable.find(key.hash, |t| self.transactions[*t].key == *key).copied()
    }

    /// Adds a client to a question; returns whether there was room.
    pub(super) fn join(&mut self, t: u32, client: &Client) -> bool {
        let next = self.transactions[t].waiters;
        let waiter = self.waiters.insert(Waiter { client: *client, next });
        self.transactions[t].waiters = waiter.unwrap_or(next);
        waiter.is_some()
    }

    /// Removes and returns a client of a question: the first one, then those that have joined it.
    pub(super) fn next_client(&mut self, t: u32) -> Option<Client> {
        let transaction = &mut self.transactions[t];
        transaction.client.take().or_else(|| {
            let at = transaction.waiters;
            (at != NONE).then(|| {
                let Waiter { client, next } = self.waiters[at];
                transaction.waiters = next;
                self.waiters.remove(at);
                client
            })
        })
    }

    /// Reserves memory for the replies that a question keeps until its end; returns whether there
    /// was enough.
    pub(super) fn keep(&mut self, t: u32, octets: usize) -> bool {
        let fits = self.kept + octets <= self.max_kept;
        if fits {
            self.kept += octets;
            self.transactions[t].kept += octets as u32;
        }
        fits
    }

    /// Stops sharing the open questions with further clients, since parts of their answers may come
    /// from the previous rules; the rest is resolved for the current group of the client.
    pub(super) fn set_apart(&mut self, policy: &Policy) {
        self.joinable.clear();
        let mut t = self.oldest;
        while t != NONE {
            let transaction = &mut self.transactions[t];
            transaction.shared = false;
            // The server's own query is in no view.
            let client = transaction.client.filter(|client| !client.is_discovery());
            let group = client.map(|client| policy.group(client.address));
            transaction.key.group = group.unwrap_or(transaction.key.group);
            t = transaction.newer;
        }
    }

    /// Removes a question without pending lookups.
    pub(super) fn close(&mut self, t: u32) {
        let transaction = &mut self.transactions[t];
        self.kept -= std::mem::take(&mut transaction.kept) as usize;
        transaction.chain = Vec::new();
        (transaction.name, transaction.early) = (None, None);
        transaction.service = None;
        let (older, newer) = (transaction.older, transaction.newer);
        let (shared, hash) = (transaction.shared, transaction.key.hash);
        match older {
            NONE => self.oldest = newer,
            older => self.transactions[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.transactions[newer].older = older,
        }
        if shared && let Ok(found) = self.joinable.find_entry(hash, |&other| other == t) {
            found.remove();
        }
        self.transactions.remove(t);
    }
}

impl Deref for Questions {
    type Target = Slab<Transaction>;

    #[inline]
    fn deref(&self) -> &Slab<Transaction> {
        &self.transactions
    }
}

impl DerefMut for Questions {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slab<Transaction> {
        &mut self.transactions
    }
}
