//! Return codes: their names, and sets of them that may be expected.

use std::str::FromStr;

/// Names of the response codes by number, in lower case; the last one is for all higher codes.
pub(super) const NAMES: [&str; 25] = [
    "noerror",
    "formerr",
    "servfail",
    "nxdomain",
    "notimp",
    "refused",
    "yxdomain",
    "yxrrset",
    "nxrrset",
    "notauth",
    "notzone",
    "dsotypeni",
    "rcode-12",
    "rcode-13",
    "rcode-14",
    "rcode-15",
    "badvers",
    "badkey",
    "badtime",
    "badmode",
    "badname",
    "badalg",
    "badtrunc",
    "badcookie",
    "rcode-other",
];

/// A set of response codes that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rcodes(u32);

impl Rcodes {
    /// NXDOMAIN alone, for names that cannot exist.
    pub const NXDOMAIN: Self = Self(1 << 3);

    /// Returns whether a code is in the set.
    pub const fn contains(self, code: u8) -> bool {
        code < 32 && self.0 >> code & 1 == 1
    }

    /// Returns the code with this name, in any case, or number.
    pub fn code(name: &str) -> Option<u8> {
        let known = &NAMES[..NAMES.len() - 1];
        let number = || name.parse().ok().filter(|number| *number < known.len());
        let code = known.iter().position(|known| known.eq_ignore_ascii_case(name));
        code.or_else(number).map(|code| code as u8)
    }

    /// Makes the set of one code below 32.
    pub const fn of(code: u8) -> Self {
        Self(1 << code)
    }
}

impl FromStr for Rcodes {
    type Err = String;

    /// Reads names with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').try_fold(Rcodes(0), |set, name| match Rcodes::code(name) {
            Some(code) => Ok(Rcodes(set.0 | 1 << code)),
            None => Err(format!("`{name}` is no return code such as servfail or nxdomain")),
        })
    }
}
