//! Source ports that are never used.

use std::str::FromStr;

/// Lowest source port: lower ones are privileged.
const LOWEST_PORT: u16 = 1_024;

/// A port or a range of ports: `1900`, `5060-5061`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Makes the range of one port.
    pub(super) const fn of(port: u16) -> Self {
        PortRange { first: port, last: port }
    }

    /// Returns whether a port is in the range.
    fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(PortRange { first, last }),
            _ => {
                Err(format!("`{text}` is not a port or a range of ports: write 1900 or 5060-5061"))
            }
        }
    }
}

/// Returns whether queries may have this source port.
pub(crate) fn is_usable(port: u16, avoided: &[PortRange]) -> bool {
    port >= LOWEST_PORT && !avoided.iter().any(|range| range.contains(port))
}

/// Returns the number of usable source ports.
pub(crate) fn usable(avoided: &[PortRange]) -> usize {
    (LOWEST_PORT..=u16::MAX).filter(|port| is_usable(*port, avoided)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_and_counted() {
        let ranges = ["1900", "5060-5061", "1-1030"].map(|text| text.parse().expect(text));
        for (port, usable) in [
            (1_023, false),
            (1_030, false),
            (1_031, true),
            (1_900, false),
            (5_061, false),
            (5_062, true),
        ] {
            assert_eq!(is_usable(port, &ranges), usable, "{port}");
        }
        assert_eq!(usable(&[]), 64_512);
        assert_eq!(usable(&ranges), 64_512 - 1 - 2 - 7);
        for text in ["", "x", "5-4", "70000", "1-"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
    }
}
