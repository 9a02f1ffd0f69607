//! The AuthDNS: synthetic answers computed from the name.
