//! Queries for names with a rule of a file.

use std::net::Ipv4Addr;

use measure::Nanos;
use wire::{Name, Qtype, Rcode};

use super::{Ctx, Dns64};
use crate::extended_error::ExtendedError;
use crate::policy::{NameRule, View};
use crate::question::Key;
use crate::rules::{LocalRecord, Rule};
use crate::special::Zone;
use crate::subnet::Subnet;
use crate::transaction::Client;

/// TTL of a rule's alias and of its negative answers, in seconds: clients may use an answer for
/// this time after the rule was removed.
pub(super) const ALIAS_TTL: u32 = 60;

/// The effect of a rule on a query.
pub(super) enum RuleOutcome {
    /// There is no rule, or only one about synthesis.
    No,
    /// The query is finished: the client has its answer, or gets none.
    Done,
    /// The rule is an alias: this name is queried in place of the client's.
    Alias(Box<Name>),
}

impl Dns64 {
    /// Answers a query by the rule for its name if there is one. The question is in the scratch buffer.
    pub(super) fn apply_rule(
        &mut self,
        client: &Client,
        view: View,
        key: &Key,
        subnet: Option<Subnet>,
        ctx: &mut Ctx<'_>,
    ) -> RuleOutcome {
        if self.settings.rules.is_empty() {
            return RuleOutcome::No;
        }
        let rules = self.settings.rules.clone();
        let Some(rule) = rules.find(key.group, &key.name) else { return RuleOutcome::No };
        self.counters.ruled += 1;
        match rule {
            Rule::Exception | Rule::Never | Rule::Always => return RuleOutcome::No,
            Rule::Alias(target) if key.qtype != Qtype::CNAME => {
                return RuleOutcome::Alias(target.clone());
            }
            Rule::Alias(target) => self.answer_alias(target),
            Rule::Drop => {
                self.send_error(client.to, client.network, &[], ctx);
                return RuleOutcome::Done;
            }
            Rule::Nxdomain => self.answer_absent(key, Rcode::NXDOMAIN),
            Rule::NoData => self.answer_absent(key, Rcode::NOERROR),
            Rule::Records(records) => self.answer_records(key, view, records, ctx.now),
        }
        self.deliver_own(client, subnet, ctx);
        RuleOutcome::Done
    }

    /// Composes an answer with the records or the alias of the rule for a name to which an alias has led; returns whether it has such a
    /// rule. The question is in the scratch buffer.
    pub(super) fn answer_moved(&mut self, key: &Key, now: Nanos) -> bool {
        let rules = self.settings.rules.clone();
        match rules.find(key.group, &key.name) {
            Some(Rule::Records(records)) => self.answer_records(key, key.view, records, now),
            Some(Rule::Alias(target)) => self.answer_alias(target),
            _ => return false,
        }
        true
    }

    /// Composes an answer with the alias of a rule.
    fn answer_alias(&mut self, target: &Name) {
        self.scratch.answer.compose(&self.scratch.question, |c| {
            c.at_question(Qtype::CNAME, ALIAS_TTL, target.as_wire());
        });
    }

    /// Composes the answer that a name does not exist, or has no records.
    fn answer_absent(&mut self, key: &Key, rcode: Rcode) {
        let zone = Zone { apex: key.name.as_wire(), ttl: ALIAS_TTL };
        let answer = &mut self.scratch.answer;
        answer.compose(&self.scratch.question, |c| {
            c.rcode(rcode);
            c.authority(&zone.soa());
        });
        ExtendedError::Blocked.push(&mut answer.options);
    }

    /// Composes an answer with the records of a rule; AAAA are synthesised if there are none.
    fn answer_records(&mut self, key: &Key, view: View, records: &[LocalRecord], now: Nanos) {
        let policy = &self.settings.policy;
        let v4 = |record: &LocalRecord| {
            let octets = <[u8; 4]>::try_from(&record.data[..]).ok();
            octets.filter(|_| record.rtype == Qtype::A).map(Ipv4Addr::from)
        };
        let view = policy.permitted(view, key.flags);
        let rule = policy.rule(key.group, key.name.as_wire());
        let dropping = policy.dropping(view, key.flags);
        let is_dropped = |record: &LocalRecord| {
            let is_mapped = |a| !policy.mapping(dropping, a).is_empty();
            rule != NameRule::Never && v4(record).is_some_and(is_mapped)
        };
        let is_wanted = |rtype| key.qtype == rtype || key.qtype == Qtype::ANY;
        let wanted = || records.iter().filter(|r| is_wanted(r.rtype) && !is_dropped(r));
        let longest = policy.longest_ttl(view, now);
        let mut count = 0;
        let answer = &mut self.scratch.answer;
        answer.compose(&self.scratch.question, |c| {
            for LocalRecord { rtype, ttl, data } in wanted() {
                c.at_question(*rtype, *ttl, data);
                count += 1;
            }
            if count > 0 {
                return;
            }
            if key.qtype == Qtype::AAAA && rule != NameRule::Never {
                let inner = records.iter().filter_map(|record| Some((record.ttl, v4(record)?)));
                for (ttl, address) in inner {
                    for outer in policy.map(view, address) {
                        c.at_question(Qtype::AAAA, ttl.min(longest), &outer.octets());
                        count += 1;
                    }
                }
            }
            if count == 0 {
                let zone = Zone { apex: key.name.as_wire(), ttl: ALIAS_TTL };
                c.authority(&zone.soa());
            }
        });
        if count > 0 && wanted().next().is_none() {
            ExtendedError::Synthesized.push(&mut answer.options);
        }
    }
}
