//! The way of packets (`server.route`, `upstream.route`).

use serde::Deserialize;

/// Longest name of a device, in octets (`IFNAMSIZ`, with the zero at its end).
const MAX_DEVICE: usize = 15;
/// Highest class of traffic (RFC 2474).
const MAX_DSCP: u8 = 63;

/// The way of a socket's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RouteConfig {
    /// Network interface or VRF; empty for any.
    pub device: String,
    /// Whether addresses are used that the host does not have (yet).
    pub freebind: bool,
    /// Class of the traffic (DSCP).
    pub dscp: u8,
}

impl RouteConfig {
    /// Returns the key of a value that no socket accepts, and an accepted value.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let odd = |c: char| c == '/' || c == '\0' || c.is_whitespace();
        if self.device.len() > MAX_DEVICE || self.device.contains(odd) {
            let problem =
                format!("write the name of an interface or a VRF, of at most {MAX_DEVICE} octets");
            return Some(("device", problem));
        }
        if self.dscp > MAX_DSCP {
            let found = self.dscp;
            return Some(("dscp", format!("{found} is out of bounds: write 0 to {MAX_DSCP}")));
        }
        None
    }
}
