//! The dns64perf namespace: every name once, no state but a counter.

use wire::namespace::LABEL;
use wire::{Edns, Expect, Invalid, Namespace, Pref64, Qtype, QueryTemplate, reply};

use super::{Composed, Workload};
use crate::permutation::Permutation;

/// What a namespace trial asks.
#[derive(Clone, Debug)]
pub struct NamespaceSpec {
    /// The names.
    pub namespace: Namespace,
    /// The type asked for.
    pub qtype: Qtype,
    /// What the replies must say.
    pub expect: NamespaceExpect,
    /// The first name used.
    pub first: u64,
    /// How many names from there on may be used.
    pub names: u64,
    /// Whether to begin again when all names were used.
    pub reuse: bool,
    /// Whether the order is the names' own (dns64perf) instead of the seed's.
    pub sequential: bool,
    /// Seed of the order.
    pub seed: u64,
    /// Whether the RD bit is set.
    pub recursion_desired: bool,
    /// The OPT record, if any.
    pub edns: Option<Edns>,
}

/// What a reply to a namespace query must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceExpect {
    /// The address that the name stands for, in an A record.
    Address,
    /// That address embedded in the prefix, in an AAAA record.
    Embedded(Pref64),
    /// The same for every name.
    Same(Expect),
}

/// Why a namespace trial cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The range lies outside.
    #[error(
        "names {first} to {last} are asked for, but {prefix} holds {size}; take a shorter prefix"
    )]
    OutOfRange {
        /// First name wanted.
        first: u64,
        /// Last name wanted.
        last: u64,
        /// The block.
        prefix: String,
        /// How many names it has.
        size: u64,
    },
}

/// The queries of one worker.
#[derive(Clone, Debug)]
pub struct NamespaceWorkload {
    spec: NamespaceSpec,
    template: QueryTemplate,
    /// The question as sent, the label edited in place.
    question: Vec<u8>,
    order: Permutation,
    next: u64,
    step: u64,
}

impl NamespaceWorkload {
    /// The share of `worker` among `workers`.
    ///
    /// # Errors
    /// When the names asked for lie outside of the namespace.
    pub fn new(spec: NamespaceSpec, worker: u32, workers: u32) -> Result<Self, NamespaceError> {
        let size = spec.namespace.size();
        if spec.names == 0 || spec.first.checked_add(spec.names).is_none_or(|end| end > size) {
            let last = spec.first.saturating_add(spec.names).saturating_sub(1);
            return Err(NamespaceError::OutOfRange {
                first: spec.first,
                last,
                prefix: spec.namespace.prefix().to_string(),
                size,
            });
        }
        let template = QueryTemplate::for_namespace(
            &spec.namespace,
            spec.qtype,
            spec.recursion_desired,
            false,
            spec.edns.as_ref(),
        );
        let question = template.bytes()[template.question_range()].to_vec();
        let order = Permutation::new(spec.names, spec.seed);
        Ok(NamespaceWorkload {
            template,
            question,
            order,
            next: u64::from(worker),
            step: u64::from(workers),
            spec,
        })
    }
}

impl Workload for NamespaceWorkload {
    #[inline]
    fn next(&mut self, out: &mut [u8]) -> Option<Composed> {
        if self.next >= self.spec.names {
            if !self.spec.reuse {
                return None;
            }
            self.next %= self.spec.names;
        }
        let place = if self.spec.sequential { self.next } else { self.order.map(self.next) };
        self.next += self.step;
        let address = self.spec.namespace.nth(self.spec.first + place);
        let mut label = [0; LABEL];
        Namespace::write_label(address, &mut label);
        let len = self.template.write(0, out);
        self.template.set_label(out, &label);
        Some(Composed { len, key: u32::from(address) })
    }

    #[inline]
    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        let address = key.into();
        let label: &mut [u8; LABEL] =
            (&mut self.question[1..=LABEL]).try_into().expect("the question begins with the label");
        Namespace::write_label(address, label);
        let expect = match self.spec.expect {
            NamespaceExpect::Address => Expect::A(address),
            NamespaceExpect::Embedded(pref64) => Expect::Aaaa(pref64.embed(address)),
            NamespaceExpect::Same(expect) => expect,
        };
        reply::check(message, &self.question, &expect)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn spec(names: u64) -> NamespaceSpec {
        NamespaceSpec {
            namespace: Namespace::with_default_zone("10.0.0.0/16".parse().expect("a prefix")),
            qtype: Qtype::AAAA,
            expect: NamespaceExpect::Same(Expect::NoError),
            first: 100,
            names,
            reuse: false,
            sequential: false,
            seed: 42,
            recursion_desired: true,
            edns: None,
        }
    }

    fn all(mut workload: NamespaceWorkload) -> Vec<u32> {
        let mut out = [0; super::super::MAX_QUERY];
        std::iter::from_fn(|| workload.next(&mut out).map(|c| c.key)).collect()
    }

    #[test]
    fn workers_share_the_names_without_overlap() {
        let whole: HashSet<u32> =
            all(NamespaceWorkload::new(spec(1_000), 0, 1).expect("inside")).into_iter().collect();
        assert_eq!(whole.len(), 1_000);
        assert!(whole.iter().all(|a| (100..1_100).contains(&(a & 0xffff))));
        let parts: Vec<u32> = (0..3)
            .flat_map(|w| all(NamespaceWorkload::new(spec(1_000), w, 3).expect("inside")))
            .collect();
        assert_eq!(parts.len(), 1_000);
        assert_eq!(parts.into_iter().collect::<HashSet<_>>(), whole);
    }

    #[test]
    fn reuse_begins_again() {
        let mut workload =
            NamespaceWorkload::new(NamespaceSpec { reuse: true, ..spec(3) }, 0, 1).expect("inside");
        let mut out = [0; super::super::MAX_QUERY];
        let keys: Vec<u32> =
            (0..6).map(|_| workload.next(&mut out).expect("endless").key).collect();
        assert_eq!(keys[..3], keys[3..]);
    }

    #[test]
    fn a_range_outside_is_refused() {
        let error =
            NamespaceWorkload::new(spec(1 << 16), 0, 1).expect_err("100 + 65536").to_string();
        assert!(error.contains("10.0.0.0/16 holds 65536"), "{error}");
    }
}
