//! The memory of the streams: connections, queries on their way to the workers, answers on their
//! way to clients, replies on their way from upstream. A connection without memory is refused, a
//! query without memory gets no answer, as over UDP. One client network may have a share of it, so
//! that a client with many connections cannot starve the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Size in octets up to which a message is small: nearly all queries and answers are.
const MAX_SMALL: usize = 4 << 10;
/// The part of a memory that only connections and small messages may have, as a divisor: large
/// answers without a reader cannot fill it, so that other clients can connect and get answers.
const FOR_SMALL: usize = 16;
/// The part of it that only small messages may have, as a divisor of the same memory: a client that
/// could connect can also send a query.
const FOR_MESSAGES: usize = 32;
/// Number of accounts from which on those that are not in use are removed.
const MANY_ACCOUNTS: usize = 64;

/// Memory, in octets; clones share it.
#[derive(Clone)]
pub(crate) struct Budget(Arc<BudgetOctets>);

struct BudgetOctets {
    used: AtomicUsize,
    limit: AtomicUsize,
    /// Octets that one client network may have.
    share: AtomicUsize,
    accounts: Mutex<Accounts>,
    /// Number of times that a network got no memory because it had used its share.
    refused: AtomicU64,
}

/// The accounts of client networks, and the number of them from which on unused ones are removed.
struct Accounts {
    all: HashMap<IpAddr, Arc<AtomicUsize>>,
    many: usize,
}

/// The memory of one client network; clones share it.
#[derive(Clone)]
pub(crate) struct Account {
    budget: Budget,
    used: Arc<AtomicUsize>,
}

/// Reserved memory; released when it is dropped.
pub(crate) struct Reservation {
    budget: Budget,
    /// Account of the client to which the memory is also charged.
    account: Option<Arc<AtomicUsize>>,
    octets: usize,
}

impl Budget {
    /// Makes a memory of `limit` octets, of which one client network may have `share`.
    pub(crate) fn new(limit: usize, share: usize) -> Self {
        Budget(Arc::new(BudgetOctets {
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            share: AtomicUsize::new(share),
            accounts: Mutex::new(Accounts { all: HashMap::new(), many: MANY_ACCOUNTS }),
            refused: AtomicU64::new(0),
        }))
    }

    /// Changes the size of the memory and the share of a network; reservations are kept.
    pub(crate) fn resize(&self, limit: usize, share: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
        self.0.share.store(share, Ordering::Relaxed);
    }

    /// Returns the octets in use, and all.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.0.used.load(Ordering::Relaxed), self.0.limit.load(Ordering::Relaxed))
    }

    /// Returns how often a network got no memory because it had used its share.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns the account of a client network.
    pub(crate) fn account(&self, network: IpAddr) -> Account {
        // Each change of the table is complete before anything can panic.
        let mut accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if accounts.all.len() >= accounts.many {
            // An account in use has another owner, or octets.
            let is_used = |used: &Arc<AtomicUsize>| {
                Arc::strong_count(used) > 1 || used.load(Ordering::Relaxed) > 0
            };
            accounts.all.retain(|_, used| is_used(used));
            accounts.many = MANY_ACCOUNTS.max(2 * accounts.all.len());
        }
        let used = accounts.all.entry(network).or_default().clone();
        Account { budget: self.clone(), used }
    }

    /// Makes an empty reservation, for a failure that is reported without a message.
    pub(crate) fn none(&self) -> Reservation {
        Reservation { budget: self.clone(), account: None, octets: 0 }
    }

    /// Reserves memory for a message to or from no client, if there is enough.
    pub(crate) fn take(&self, octets: usize) -> Option<Reservation> {
        self.take_for(None, octets, open_to_message(octets))
    }

    fn take_for(
        &self,
        account: Option<Arc<AtomicUsize>>,
        octets: usize,
        open: fn(usize) -> usize,
    ) -> Option<Reservation> {
        // Made before the check, so that dropping it releases a reservation that does not fit.
        let reservation = Reservation { budget: self.clone(), account, octets };
        let before = self.0.used.fetch_add(octets, Ordering::Relaxed);
        let limit = open(self.0.limit.load(Ordering::Relaxed));
        (before + octets <= limit).then_some(reservation)
    }
}

impl Account {
    /// Reserves memory for a message of a client of the network, if there is enough and the network has not got its share.
    pub(crate) fn take(&self, octets: usize) -> Option<Reservation> {
        self.take_of(octets, open_to_message(octets))
    }

    /// Reserves memory for a connection of a client of the network in the same way.
    pub(crate) fn take_place(&self, octets: usize) -> Option<Reservation> {
        self.take_of(octets, all_but_for_messages)
    }

    /// Reserves memory for a connection that follows an ended one, whose own memory is released
    /// when its task ends, which may be later.
    pub(crate) fn follow(&self, octets: usize) -> Reservation {
        self.used.fetch_add(octets, Ordering::Relaxed);
        self.budget.0.used.fetch_add(octets, Ordering::Relaxed);
        Reservation { budget: self.budget.clone(), account: Some(self.used.clone()), octets }
    }

    fn take_of(&self, octets: usize, open: fn(usize) -> usize) -> Option<Reservation> {
        let before = self.used.fetch_add(octets, Ordering::Relaxed);
        // Dropping the reservation releases both from here on.
        let reservation = self.budget.take_for(Some(self.used.clone()), octets, open);
        let share = open(self.budget.0.share.load(Ordering::Relaxed));
        if reservation.is_some() && before + octets > share {
            self.budget.0.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        reservation
    }

    /// Returns whether the network has no room for a connection of `octets` octets.
    pub(crate) fn is_full(&self, octets: usize) -> bool {
        let share = all_but_for_messages(self.budget.0.share.load(Ordering::Relaxed));
        self.used.load(Ordering::Relaxed) + octets > share
    }
}

/// Returns the function that computes how much of a memory a message of `octets` octets may use.
fn open_to_message(octets: usize) -> fn(usize) -> usize {
    if octets > MAX_SMALL { all_but_reserve } else { all }
}

fn all_but_reserve(memory: usize) -> usize {
    memory - memory / FOR_SMALL
}

fn all_but_for_messages(memory: usize) -> usize {
    memory - memory / FOR_MESSAGES
}

fn all(memory: usize) -> usize {
    memory
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.octets, Ordering::Relaxed);
        if let Some(account) = &self.account {
            account.fetch_sub(self.octets, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    #[test]
    fn the_budget_is_limited() {
        let budget = Budget::new(1_000, 1_000);
        let all = budget.take(1_000).expect("it is empty");
        assert!(budget.take(1).is_none());
        drop(all);
        assert!(budget.take(1_001).is_none());
        let half = budget.take(500).expect("there is room");
        budget.resize(400, 400);
        assert_eq!(budget.used(), (500, 400));
        assert!(budget.take(1).is_none());
        drop(half);
        assert!(budget.take(400).is_some());
        assert_eq!(budget.used().0, 0);
    }

    #[test]
    fn a_network_has_its_share_and_leaves_the_rest() {
        let budget = Budget::new(1_000, 300);
        let (one, other) = (budget.account(network(1)), budget.account(network(2)));
        let first = one.take(200).expect("it has nothing");
        assert!(one.is_full(101) && one.take(101).is_none());
        let second = budget.account(network(1)).take(100).expect("the rest of its share");
        assert_eq!((budget.refused(), budget.used().0), (1, 300));
        let third = other.take(300).expect("another network");
        assert!(other.take(1).is_none());
        // What is for no client has the rest.
        let rest = budget.take(400).expect("the rest");
        budget.resize(1_000, 1_000);
        assert!(one.take(1).is_none(), "all is in use");
        assert_eq!(budget.refused(), 2);
        drop((first, second, third, rest));
        assert_eq!((one.used.load(Ordering::Relaxed), budget.used().0), (0, 0));
        drop(one.take(1_000).expect("all is free"));
    }

    #[test]
    fn large_answers_leave_room_for_connections_and_small_ones() {
        let budget = Budget::new(4_000_000, 1_600_000);
        let account = budget.account(network(1));
        let large: Vec<Reservation> = std::iter::from_fn(|| account.take(60_000)).collect();
        assert_eq!((large.len(), account.is_full(50_000)), (25, false));
        let places: [_; 2] = std::array::from_fn(|_| account.take_place(20_000).expect("room"));
        assert!(account.is_full(20_000) && account.take_place(20_000).is_none());
        // One that follows another comes in, and asks.
        let [ended, _] = places;
        let follows = account.follow(20_000);
        drop(ended);
        let small: Vec<Reservation> = std::iter::from_fn(|| account.take(100)).collect();
        assert_eq!(small.len(), 600);
        let others: Vec<Reservation> = std::iter::from_fn(|| budget.take(60_000)).collect();
        assert_eq!(others.len(), (4_000_000 - 250_000 - 1_600_000) / 60_000);
        assert!(budget.take(100).is_some());
        drop(follows);
    }

    #[test]
    fn accounts_that_are_not_in_use_are_removed() {
        let budget = Budget::new(1_000, 1_000);
        let kept = budget.account(network(0));
        let reserved = budget.account(network(1)).take(7).expect("room");
        for n in 0..10_000u32 {
            budget.account(IpAddr::V4(n.into()));
        }
        let accounts = budget.0.accounts.lock().expect("no panic");
        assert!(accounts.all.len() <= 2 * MANY_ACCOUNTS, "{}", accounts.all.len());
        assert!([0, 1].iter().all(|n| accounts.all.contains_key(&network(*n))));
        drop((kept, reserved));
    }
}
