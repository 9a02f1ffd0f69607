//! Hardware addresses of Ethernet devices.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Hardware address of an Ethernet device, written as 02:00:00:00:00:01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareAddress(pub [u8; 6]);

/// Error for a text that is no hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no hardware address: write six pairs of hexadecimal digits, as 02:00:00:00:00:01"
)]
pub struct BadHardwareAddress(String);

impl FromStr for HardwareAddress {
    type Err = BadHardwareAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let octet = |pair: &str| {
            let digits = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(pair, 16).ok().filter(|_| digits)
        };
        let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
        let address = octets.and_then(|octets| octets.try_into().ok());
        address.map(HardwareAddress).ok_or_else(|| BadHardwareAddress(text.to_owned()))
    }
}

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.map(|octet| format!("{octet:02x}"));
        f.pad(&pairs.join(":"))
    }
}

impl Serialize for HardwareAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HardwareAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_read_as_they_are_written(octets: [u8; 6]) {
            let address = HardwareAddress(octets);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-g:+]{0,20}") {
            if let Ok(address) = text.parse::<HardwareAddress>() {
                prop_assert_eq!(address.to_string(), text.to_lowercase());
            }
        }
    }
}
