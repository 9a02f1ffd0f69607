//! Rules of an operator for single names, from files: local answers, and exceptions from synthesis.
//!
//! ```text
//!   query ──> exact name? wildcard of the closest name above it? ──> answer, alias, no reply, never, always
//!                └ no rule: as usual                                  exception: as usual, overrides other rules
//! ```
//!
//! Rules are for the names that clients query; only records and aliases also answer for targets of aliases. `*.NAME` is for all
//! names below NAME. The files are lists (`list`) or response policy zones (`zone`), then hosts files and leases (`hosts`); of several
//! rules for a name the first one holds.

mod hosts;
mod list;
mod zone;

pub use hosts::Leases;
pub(crate) use hosts::reverse_name;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use crate::config::Group;
use siphasher::sip::SipHasher13;
use thiserror::Error;
use wire::name::Labels;
use wire::{Name, Qtype};

/// Highest number of rules of all files together.
pub const MAX_RULES: usize = 4_000_000;

/// The treatment of queries for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// There is no rule, also where a wildcard would be one.
    Exception,
    /// Never synthesised: AAAA records come from upstream.
    Never,
    /// Synthesised even if there are AAAA records.
    Always,
    /// The name does not exist.
    Nxdomain,
    /// The name has no records.
    NoData,
    /// The query gets no reply.
    Drop,
    /// The name is an alias of another one.
    Alias(Box<Name>),
    /// The name has these records and no others.
    Records(Vec<LocalRecord>),
}

/// A record of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalRecord {
    pub(crate) rtype: Qtype,
    /// TTL in seconds, the same in each answer.
    pub(crate) ttl: u32,
    pub(crate) data: Box<[u8]>,
}

/// Format of a file with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesFormat {
    /// A list: a name and a rule on each line.
    List,
    /// A response policy zone (RPZ).
    Zone,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct RulesError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The problem, and an accepted form.
    pub problem: String,
}

/// Rules by names in wire form.
type Map = HashMap<Box<[u8]>, Rule>;

/// The rules of one set of files, found by exact name, or by the closest name above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// By the name in wire form, in lower case.
    names: Map,
    /// Rules for all names below these.
    wildcards: Map,
    /// Records of response policy zones with triggers that are not supported; lines and names of hosts that cannot be used.
    skipped: usize,
}

/// The rules for all clients, and the rules of each view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSets {
    /// Rules of the clients of all views, from `[rules]`.
    pub common: Arc<Rules>,
    /// Rules of each view, which take precedence.
    pub views: Vec<Arc<Rules>>,
    /// Names of hosts, which have the lowest precedence.
    pub hosts: Arc<Rules>,
}

impl Rules {
    /// Adds the rules of a file to those of earlier files.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn add(&mut self, format: RulesFormat, text: &str) -> Result<(), RulesError> {
        let mut own = Rules::default();
        // Some editors begin a file with a mark of its encoding.
        let text = text.trim_start_matches('\u{feff}');
        match format {
            RulesFormat::List => list::read(text, &mut own)?,
            RulesFormat::Zone => zone::read(text, &mut own)?,
        }
        for (all, more) in [(&mut self.names, own.names), (&mut self.wildcards, own.wildcards)] {
            for (name, rule) in more {
                all.entry(name).or_insert(rule);
            }
        }
        self.skipped += own.skipped;
        Ok(())
    }

    /// Returns the number of skipped lines and records.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns the number of rules.
    fn len(&self) -> usize {
        self.names.len() + self.wildcards.len()
    }

    /// Returns the names of all rules; for a wildcard the name above it.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        let all = self.names.keys().chain(self.wildcards.keys());
        all.filter_map(|name| Name::from_wire(name).ok())
    }

    /// Returns the rule for a name in lower case, which may be an exception.
    fn entry(&self, name: &Name) -> Option<&Rule> {
        let wildcard = || {
            let mut rest = name.as_wire();
            while let [len, after @ ..] = rest
                && *len > 0
            {
                rest = after.get(usize::from(*len)..)?;
                if let Some(rule) = self.wildcards.get(rest) {
                    return Some(rule);
                }
            }
            None
        };
        self.names
            .get(name.as_wire())
            .or_else(|| if self.wildcards.is_empty() { None } else { wildcard() })
    }

    /// Returns whether names are synthesised as under other rules.
    fn synthesises_like(&self, other: &Rules) -> bool {
        let alike = |own: &Map, other: &Map| {
            let count = |all: &Map| all.values().filter(|rule| rule.synthesises()).count();
            let mut some = own.iter().filter(|(_, rule)| rule.synthesises());
            count(own) == count(other) && some.all(|(name, rule)| other.get(name) == Some(rule))
        };
        // An exception may apply to such a wildcard.
        alike(&self.names, &other.names) && alike(&self.wildcards, &other.wildcards)
    }

    /// Returns a hash of the rules that change the synthesis of names; 0 without such rules.
    fn synthesis_hash(&self) -> u64 {
        let sum = |all: &Map, kind: &str| {
            let some = all.iter().filter(|(_, rule)| rule.synthesises());
            let text = some.map(|(name, rule)| format!("{kind} {name:?} {rule:?}"));
            // The order of hash maps differs from run to run.
            let numbers = text.map(|text| SipHasher13::new().hash(text.as_bytes()));
            numbers.fold(0, u64::wrapping_add)
        };
        sum(&self.names, "name").wrapping_add(sum(&self.wildcards, "below"))
    }

    /// Adds a rule for a name, which may begin with `*`; records of the same name are combined,
    /// without duplicates (RFC 2181 section 5).
    fn insert(&mut self, name: &Name, rule: Rule) -> Result<(), String> {
        if self.len() >= MAX_RULES {
            return Err(format!("there are more than {MAX_RULES} rules: remove some"));
        }
        let name = name.to_lowercase();
        let entry = match name.as_wire().strip_prefix(b"\x01*") {
            Some(below) => self.wildcards.entry(below.into()),
            None => self.names.entry(name.as_wire().into()),
        };
        match entry {
            Entry::Vacant(place) => {
                place.insert(rule);
            }
            Entry::Occupied(mut place) => match (place.get_mut(), rule) {
                (Rule::Records(known), Rule::Records(more)) => {
                    for record in more {
                        let is_it = |own: &LocalRecord| {
                            (own.rtype, &own.data) == (record.rtype, &record.data)
                        };
                        if !known.iter().any(is_it) {
                            known.push(record);
                        }
                    }
                }
                (known, rule) if *known == rule => {}
                _ => return Err(format!("{name} has another rule already: remove one")),
            },
        }
        Ok(())
    }
}

impl RuleSets {
    /// Returns the rule for a name in lower case and a group of clients: the rule of its view, or
    /// else the rule for all clients. An alias to the name itself is no rule: a wildcard may
    /// contain its own target.
    pub(crate) fn find(&self, group: Group, name: &Name) -> Option<&Rule> {
        if self.is_empty() {
            return None;
        }
        let own = group.view().and_then(|view| self.views.get(view)?.entry(name));
        let usual = || self.common.entry(name).or_else(|| self.hosts.entry(name));
        own.or_else(usual).filter(|rule| match rule {
            Rule::Exception => false,
            Rule::Alias(target) => **target != *name,
            _ => true,
        })
    }

    /// Returns whether a rule gives a name in lower case records, or makes it an alias. Whether an
    /// alias of a target without a rule counts is decided by `is_taken`.
    pub(crate) fn has_records(
        &self,
        group: Group,
        name: &Name,
        is_taken: impl FnOnce(&Name) -> bool,
    ) -> bool {
        match self.find(group, name) {
            Some(Rule::Records(_)) => true,
            Some(Rule::Alias(target)) => {
                let rule = self.find(group, target);
                matches!(rule, Some(Rule::Records(_) | Rule::Alias(_))) || is_taken(target)
            }
            _ => false,
        }
    }

    /// Returns whether some client may get the answer of a rule for a name in lower case.
    pub(crate) fn may_answer(&self, name: &Name) -> bool {
        let answers = |rule: &Rule| !matches!(rule, Rule::Exception | Rule::Never | Rule::Always);
        self.all().any(|rules| rules.entry(name).is_some_and(answers))
    }

    /// Returns whether a view has a rule for a name in lower case.
    pub(crate) fn is_apart(&self, name: &Name) -> bool {
        self.views.iter().any(|view| view.entry(name).is_some())
    }

    fn all(&self) -> impl Iterator<Item = &Rules> {
        [&self.common, &self.hosts].into_iter().chain(&self.views).map(|rules| &**rules)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.all().map(Rules::len).sum()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many records of response policy zones were left out, since their triggers are not supported.
    pub fn skipped(&self) -> usize {
        [&self.common].into_iter().chain(&self.views).map(|rules| rules.skipped()).sum()
    }

    /// Returns whether names are synthesised as under other rules.
    pub(crate) fn synthesises_like(&self, other: &RuleSets) -> bool {
        let mut pairs = self.all().zip(other.all());
        self.views.len() == other.views.len()
            && pairs.all(|(own, other)| own.synthesises_like(other))
    }

    /// Returns a hash of the rules that change the synthesis of names; 0 without such rules.
    pub(crate) fn synthesis_hash(&self) -> u64 {
        let numbers = self.all().enumerate();
        numbers.fold(0, |all, (i, rules)| all ^ rules.synthesis_hash().rotate_left(i as u32))
    }
}

impl Rule {
    /// Returns whether cached answers depend on the rule.
    fn synthesises(&self) -> bool {
        matches!(self, Rule::Never | Rule::Always | Rule::Exception)
    }
}

impl LocalRecord {
    /// Makes an A or AAAA record, by the family of the address; the TTL is in seconds.
    fn address(address: IpAddr, ttl: u32) -> Self {
        match address {
            IpAddr::V4(v4) => LocalRecord { rtype: Qtype::A, ttl, data: v4.octets().into() },
            IpAddr::V6(v6) => LocalRecord { rtype: Qtype::AAAA, ttl, data: v6.octets().into() },
        }
    }
}

/// Returns the number of labels of a name, without the root.
fn label_count(name: &Name) -> usize {
    Labels::of(name.as_wire()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LeaseFormat;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        text.parse().expect(text)
    }

    fn list(text: &str) -> Rules {
        let mut rules = Rules::default();
        rules.add(RulesFormat::List, text).expect(text);
        rules
    }

    fn shown(rules: &Rules, text: &str) -> String {
        match rules.entry(&name(text)).filter(|rule| **rule != Rule::Exception) {
            None => "none".into(),
            Some(Rule::Alias(target)) => format!("alias {target}"),
            Some(Rule::Records(records)) => {
                let types = records.iter().map(|r| format!("{} {}", r.ttl, r.rtype));
                types.collect::<Vec<_>>().join(", ")
            }
            Some(rule) => format!("{rule:?}").to_lowercase(),
        }
    }

    const LIST: &str = "# names of a network\n\
        ads.example nxdomain\n*.Ads.example nodata   # below it\ngood.ads.example pass\n\
        internal.example never\n*.half.example always\nshop.example cname Safe.example.\n\
        printer.lan 192.0.2.7 2001:db8::7\nnoisy.example drop\n\n";

    const ZONE: &str = "$TTL 300\n@ SOA ns.rpz. host.rpz. 1 2 3 4 5\n@ NS ns.rpz.\n\
        ads.example CNAME .\n*.ads.example CNAME *.\ngood.ads.example CNAME rpz-passthru.\n\
        internal.example CNAME dns64-never.\n*.half.example 60 CNAME dns64-always.\n\
        shop.example CNAME safe.example.\nprinter.lan 60 A 192.0.2.7\nprinter.lan AAAA 2001:db8::7\n\
        noisy.example CNAME rpz-drop.\n24.0.2.0.192.rpz-ip CNAME .\nns.bad.rpz-nsdname CNAME .\n\
        tcp.example CNAME rpz-tcp-only.\n";

    #[test]
    fn both_formats_say_the_same() {
        let mut zone = Rules::default();
        zone.add(RulesFormat::Zone, ZONE).expect("a zone");
        assert_eq!(zone.skipped, 3);
        for (rules, printer) in [(list(LIST), "300 A, 300 AAAA"), (zone, "60 A, 300 AAAA")] {
            assert_eq!(rules.len(), 8);
            for (name, rule) in [
                ("ads.example", "nxdomain"),
                ("x.y.ads.example", "nodata"),
                ("good.ads.example", "none"),
                ("internal.example", "never"),
                ("www.internal.example", "none"),
                ("half.example", "none"),
                ("www.half.example", "always"),
                ("shop.example", "alias safe.example"),
                ("printer.lan", printer),
                ("noisy.example", "drop"),
                ("example", "none"),
            ] {
                assert_eq!(shown(&rules, name), rule, "{name}");
            }
        }
    }

    #[test]
    fn files_may_have_units_of_time_and_a_mark_of_their_encoding() {
        let mut rules = list("\u{feff}ads.example nxdomain");
        let zone = "\u{feff}$TTL 1H\n@ 1d IN SOA LOCALHOST. mgr.example.com. (1 ; serial\n 1h 15m ; (3d\n\
            \t30d 2h)\n\tNS LOCALHOST.\nnodata.example CNAME *.\n2h.example 90m in A 192.0.2.1\n\
            \t1w TXT \"1h; (\" 1h\n\\;\\ 1h.example IN 1h1s CNAME 1h.example.\n";
        rules.add(RulesFormat::Zone, zone).expect(zone);
        for (name, rule) in [
            ("ads.example", "nxdomain"),
            ("nodata.example", "nodata"),
            ("2h.example", "5400 A, 604800 TXT"),
            ("\\059\\0321h.example", "alias 1h.example"),
        ] {
            assert_eq!(shown(&rules, name), rule, "{name}");
        }
        let error = Rules::default().add(RulesFormat::Zone, "$TTL 1h\n\na.test 1x A 192.0.2.1\n");
        assert!(error.expect_err("not a time").to_string().starts_with("line 3"));
    }

    #[test]
    fn errors_name_the_line_and_a_remedy() {
        let error = |format, text: &str| {
            let error = Rules::default().add(format, text).expect_err(text);
            error.to_string()
        };
        for (text, says) in [
            ("a.test nxdomain\nb.test", "line 2: there is no rule: write"),
            ("a..test never", "line 1: a..test"),
            ("a.test block", "line 1: `block` is no rule: write"),
            ("a.test cname", "line 1: cname needs one name"),
            ("a.test cname A.test", "line 1: a.test is an alias of itself: write pass"),
            ("a.test nxdomain x", "line 1: nxdomain takes no further words"),
            ("a.test 192.0.2.1 x", "line 1: `x` is not an address"),
            ("a.test never\na.test always", "line 2: a.test has another rule already"),
        ] {
            assert!(error(RulesFormat::List, text).starts_with(says), "{text}");
        }
        for (text, says) in [
            (
                "$ORIGIN rpz.\na A x\nb A 192.0.2.1",
                "the one before it is not a record: expected IPv4",
            ),
            (
                "$ORIGIN rpz.\n@ SOA a. b. 1 2 3 4 5\na.other. CNAME .",
                "a.other is not in the zone rpz",
            ),
            ("$INCLUDE other", "$INCLUDE is not supported: write"),
        ] {
            let error = error(RulesFormat::Zone, text);
            assert!(error.contains(says), "{text}: {error}");
            let line: usize = error[5..6].parse().expect("a number");
            assert!((1..=text.lines().count() + 1).contains(&line), "{error}");
        }
    }

    #[test]
    fn the_first_file_decides_and_synthesis_is_compared_alone() {
        let mut rules = list("a.test never\n");
        rules.add(RulesFormat::List, "a.test always\nb.test nxdomain").expect("rules");
        assert_eq!((shown(&rules, "a.test").as_str(), rules.len()), ("never", 2));
        assert!(rules.synthesises_like(&list("a.test never\nc.test drop")));
        assert!(!rules.synthesises_like(&list("a.test always")));
        assert!(!rules.synthesises_like(&Rules::default()));
    }

    #[test]
    fn a_lease_takes_no_name_of_another_host() {
        let mut hosts = Rules::default();
        hosts.add_hosts(
            "192.0.2.10 nas.lan nas.lan\n192.0.2.10 nas.lan\n127.0.1.1 own.lan\n::1 own.lan\n",
        );
        let domain = name("lan");
        let leases = |texts| Leases { format: LeaseFormat::Dnsmasq, texts, domain: &domain };
        let old = "50 1 192.0.2.20 tv 1\n90 2 192.0.2.21 tv 2\n60 3 2001:db8::3 nas 3\nduid 0\n";
        let other = "80 4 2001:db8::4 tv 4\n80 5 2001:db8::5 tv 5\n0 6 192.0.2.22 own 6\n";
        let next = hosts.add_leases(&[leases(vec![old]), leases(vec![other])], 7);
        assert_eq!((next, hosts.skipped()), (Some(50), 0));
        let data = |text: &str| match hosts.entry(&name(text)) {
            Some(Rule::Records(records)) => records.iter().map(|r| r.data.to_vec()).collect(),
            _ => Vec::new(),
        };
        let six: std::net::Ipv6Addr = "2001:db8::4".parse().expect("an address");
        for (host, expected) in [
            ("nas.lan", vec![vec![192, 0, 2, 10]]),
            ("tv.lan", vec![vec![192, 0, 2, 21], six.octets().to_vec()]),
            ("own.lan", vec![vec![192, 0, 2, 22]]),
            ("21.2.0.192.in-addr.arpa", vec![b"\x02tv\x03lan\0".to_vec()]),
            ("20.2.0.192.in-addr.arpa", Vec::new()),
        ] {
            assert_eq!(data(host), expected, "{host}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([a-c.*]{0,6} (never|drop|cname b|::1|\\PC{0,5})\n){0,4}\\PC{0,40}") {
            let mut hosts = Rules::default();
            hosts.add_hosts(&text);
            let (domain, other) = (name("lan"), text.replace(',', "\n"));
            let leases = [LeaseFormat::Dnsmasq, LeaseFormat::Kea];
            let leases =
                leases.map(|format| Leases { format, texts: vec![other.as_str(), text.as_str()], domain: &domain });
            hosts.add_leases(&leases, 7);
            prop_assert!(hosts.len() <= 8 * text.len());
            for format in [RulesFormat::List, RulesFormat::Zone] {
                let mut rules = Rules::default();
                match rules.add(format, &text) {
                    Ok(()) => prop_assert!(rules.len() <= text.len()),
                    Err(error) => {
                        prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 1);
                        prop_assert!(!error.problem.is_empty());
                    }
                }
            }
        }
    }
}
