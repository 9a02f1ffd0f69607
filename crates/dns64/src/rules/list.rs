//! Rules as a list: on each line a name and its rule, or its addresses. `#` begins a comment.
//!
//! ```text
//!   ads.example          nxdomain
//!   *.ads.example        nodata          # all names below ads.example
//!   good.ads.example     pass            # except this one
//!   internal.example     never           # never synthesised; always
//!   shop.example         cname  safe.example
//!   printer.lan          192.0.2.7  2001:db8::7
//!   noisy.example        drop
//! ```

use std::net::IpAddr;

use wire::Name;

use super::{LocalRecord, Rule, Rules, RulesError};

/// TTL of addresses, in seconds.
const TTL: u32 = 300;

/// Words for all rules.
const KNOWN_RULES: &str =
    "nxdomain, nodata, never, always, pass, drop, cname and a name, or IPv4 and IPv6 addresses";

/// Adds the rules of a list: a name and its rule in each line.
pub(super) fn read(text: &str, rules: &mut Rules) -> Result<(), RulesError> {
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let added =
            name.parse::<Name>().map_err(|error| format!("{name}: {error}")).and_then(|name| {
                match rule(&words.collect::<Vec<_>>())? {
                    Rule::Alias(target) if *target == name.to_lowercase() => {
                        Err(format!("{name} is an alias of itself: write pass if it has no rule"))
                    }
                    rule => rules.insert(&name, rule),
                }
            });
        added.map_err(|problem| RulesError { line: number, problem })?;
    }
    Ok(())
}

/// Reads the words after a name.
fn rule(words: &[&str]) -> Result<Rule, String> {
    let Some((first, rest)) = words.split_first() else {
        return Err(format!("there is no rule: write {KNOWN_RULES}"));
    };
    let rule = match *first {
        "nxdomain" => Rule::Nxdomain,
        "nodata" => Rule::NoData,
        "never" => Rule::Never,
        "always" => Rule::Always,
        "pass" => Rule::Exception,
        "drop" => Rule::Drop,
        "cname" => {
            let [target] = rest else { return Err("cname needs one name after it".into()) };
            let target = target.parse::<Name>().map_err(|error| format!("{target}: {error}"))?;
            return Ok(Rule::Alias(Box::new(target.to_lowercase())));
        }
        word if word.parse::<IpAddr>().is_ok() => {
            let address = |word: &&str| match word.parse() {
                Ok(address) => Ok(LocalRecord::address(address, TTL)),
                Err(_) => Err(format!("`{word}` is not an address")),
            };
            return words.iter().map(address).collect::<Result<_, _>>().map(Rule::Records);
        }
        word => return Err(format!("`{word}` is no rule: write {KNOWN_RULES}")),
    };
    match rest {
        [] => Ok(rule),
        _ => Err(format!("{first} takes no further words: remove them")),
    }
}
