//! Sessions to resume: a bounded store of tickets for one peer, shared by many clients.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Tickets in order of arrival; the oldest are used first, each only once (RFC 8446 section C.4).
pub(super) struct Sessions {
    max_tickets: usize,
    kept: Mutex<KeptSessions>,
}

#[derive(Default)]
struct KeptSessions {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    /// Makes a store of at most `most` tickets. The store of rustls keeps only 8 per peer, and
    /// there is only one peer.
    pub(super) fn new(max_tickets: usize) -> Self {
        Sessions { max_tickets, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, KeptSessions> {
        // A panic cannot leave an incomplete ticket.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({} of {})", self.kept().tickets.len(), self.max_tickets)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _server_name: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(value);
    }

    fn tls12_session(&self, _server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12.clone()
    }

    fn remove_tls12_session(&self, _server_name: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(
        &self,
        _server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        let mut kept = self.kept();
        if kept.tickets.len() == self.max_tickets {
            kept.tickets.pop_front();
        }
        kept.tickets.push_back(value);
    }

    fn take_tls13_ticket(
        &self,
        _server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        self.kept().tickets.pop_front()
    }
}
