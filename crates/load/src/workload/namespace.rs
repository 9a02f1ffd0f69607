//! The dns64perf namespace: every name once; the only state is a counter.
//!
//! ```text
//! without a mix    [ first ........................... first + names )   each once
//! with a mix       [ popular )[ each once ........................... )  missing names: the same
//!                    repeated                                            labels, outside of the prefix
//! ```

use std::net::Ipv4Addr;

use wire::namespace::LABEL;
use wire::reply::Rcodes;
use wire::{Edns, Expect, Invalid, Namespace, Pref64, Qtype, QueryTemplate, reply};

use super::mix::{Mix, MixError, NameKind, Picker};
use super::{ComposedQuery, EdnsTooLong, Workload, opt_record};
use crate::permutation::{OrderParameters, Permutation};

/// Settings of a workload over a namespace.
#[derive(Clone, Debug)]
pub struct NamespaceSpec {
    /// The namespace of the names.
    pub namespace: Namespace,
    /// Type of all queries.
    pub qtype: Qtype,
    /// Condition for valid replies.
    pub expect: NamespaceExpect,
    /// Number of the first name used.
    pub first: u64,
    /// Number of names that may be used, from the first on.
    pub names: u64,
    /// Whether to start again when all names are used.
    pub reuse: bool,
    /// Whether names are queried in their own order (as dns64perf does) instead of a seeded one.
    pub sequential: bool,
    /// Seed of the order in which names are queried.
    pub seed: u64,
    /// Whether the RD bit is set.
    pub recursion_desired: bool,
    /// The OPT record, if any.
    pub edns: Option<Edns>,
}

/// Expected reply to a query for a name of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceExpect {
    /// The address in the name, in an A record.
    Address,
    /// The address in the name, embedded in the prefix, in an AAAA record.
    Embedded(Pref64),
    /// The address in the name, embedded under any prefix, in an AAAA record.
    AnyPrefix,
    /// The same expectation for every name.
    Same(Expect),
}

/// Error of a workload over a namespace.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NamespaceError {
    /// The range of names is outside of the namespace.
    #[error("names {first} to {last} are wanted, but {prefix} holds {size}; take a shorter prefix")]
    OutOfRange {
        /// Number of the first requested name.
        first: u64,
        /// Number of the last requested name.
        last: u64,
        /// IPv4 prefix of the namespace.
        prefix: String,
        /// Number of names in the namespace.
        size: u64,
    },
    /// There are fewer names than queries.
    #[error(
        "{queries} queries are planned, but there are {names} names in {prefix} from number {first} on: take a prefix of /{enough} or shorter, a lower rate or a shorter duration, or allow names to be used again"
    )]
    TooFew {
        /// Number of queries that the trial plans.
        queries: u64,
        /// Number of names that the queries may use.
        names: u64,
        /// Number of the first of them.
        first: u64,
        /// IPv4 prefix of the namespace.
        prefix: String,
        /// Prefix length with enough names.
        enough: u32,
    },
    /// The mix is not valid.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// The EDNS options are too long.
    #[error(transparent)]
    Edns(#[from] EdnsTooLong),
}

/// Data for a program that sends the queries of a namespace by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceParts {
    /// A query with the id 0, for some name.
    pub query: Vec<u8>,
    /// Length of its question in octets.
    pub question: usize,
    /// Address of the first name.
    pub first: Ipv4Addr,
    /// Order of the names; `None` for their own order.
    pub order: Option<OrderParameters>,
}

impl NamespaceSpec {
    /// Returns the parts of which the queries are made.
    pub fn parts(&self) -> NamespaceParts {
        let template = self.template();
        NamespaceParts {
            query: template.bytes().to_vec(),
            question: template.question_range().len(),
            first: self.namespace.nth(self.first),
            order: (!self.sequential).then(|| Permutation::new(self.names, self.seed).parameters()),
        }
    }

    /// Makes the query that is edited for each name.
    fn template(&self) -> QueryTemplate {
        let edns = self.edns.as_ref();
        QueryTemplate::for_namespace(
            &self.namespace,
            self.qtype,
            self.recursion_desired,
            false,
            edns,
        )
    }

    /// Checks that `queries` (see [`Pacing::most_queries`](measure::Pacing::most_queries)) have a name each, or
    /// that names may be used again.
    ///
    /// # Errors
    /// [`NamespaceError::TooFew`].
    pub fn holds(&self, queries: u64) -> Result<(), NamespaceError> {
        if self.reuse || queries <= self.names {
            return Ok(());
        }
        let needed = self.first.saturating_add(queries).max(2);
        Err(NamespaceError::TooFew {
            queries,
            names: self.names,
            first: self.first,
            prefix: self.namespace.prefix().to_string(),
            // The binary logarithm, rounded up.
            enough: 32u32.saturating_sub(64 - (needed - 1).leading_zeros()),
        })
    }
}

/// The stream of queries of one worker.
#[derive(Clone, Debug)]
pub struct NamespaceWorkload {
    spec: NamespaceSpec,
    template: QueryTemplate,
    /// The question as sent; its label is edited in place.
    question: Vec<u8>,
    order: Permutation,
    /// Positions of the next new name and of the next missing name in the order.
    next: u64,
    next_missing: u64,
    /// Position of the first name that is used once, after the popular ones.
    once_from: u64,
    step: u64,
    picker: Option<Picker>,
    worker: u32,
}

/// Bit whose change moves an address out of every prefix but /0; the name of such an address is missing.
const OUTSIDE_BIT: u32 = 1 << 31;

impl NamespaceWorkload {
    /// Makes the share of `worker` among `workers`.
    ///
    /// # Errors
    /// When the names are outside of the namespace, or the EDNS options are too long.
    pub fn new(spec: NamespaceSpec, worker: u32, workers: u32) -> Result<Self, NamespaceError> {
        opt_record(spec.edns.as_ref())?;
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
        let template = spec.template();
        let mut question = template.bytes()[template.question_range()].to_vec();
        question.reserve(LABEL);
        let order = Permutation::new(spec.names, spec.seed);
        Ok(NamespaceWorkload {
            template,
            question,
            order,
            next: u64::from(worker),
            next_missing: u64::from(worker),
            once_from: 0,
            step: u64::from(workers),
            picker: None,
            worker,
            spec,
        })
    }

    /// Queries names in the shares of `mix`. The reply for a missing name must be NXDOMAIN.
    ///
    /// # Errors
    /// When the mix is not valid.
    pub fn with_mix(mut self, mix: Mix) -> Result<Self, NamespaceError> {
        let picker = Picker::new(mix, self.spec.names, self.spec.seed, self.worker)?;
        if mix.missing > 0.0 && self.spec.namespace.prefix().prefix_len() == 0 {
            return Err(MixError::NoneMissing.into());
        }
        self.once_from = mix.popular;
        self.next += mix.popular;
        self.picker = Some(picker);
        Ok(self)
    }

    /// Returns the address of the next name.
    #[inline]
    fn pick(&mut self) -> Option<u32> {
        match self.picker.as_mut().map_or(NameKind::Fresh, Picker::next) {
            NameKind::Fresh => self.fresh(),
            NameKind::Popular(rank) => Some(self.address(rank)),
            NameKind::Missing => {
                let address = self.address(self.next_missing % self.spec.names);
                self.next_missing += self.step;
                Some(address ^ OUTSIDE_BIT)
            }
        }
    }

    /// Returns the address of the next new name, or starts again.
    #[inline]
    fn fresh(&mut self) -> Option<u32> {
        if self.next >= self.spec.names {
            let once = self.spec.names - self.once_from;
            if !self.spec.reuse || once == 0 {
                return None;
            }
            self.next = self.once_from + (self.next - self.once_from) % once;
        }
        let address = self.address(self.next);
        self.next += self.step;
        Some(address)
    }

    /// Makes `question` that for the name of `address`.
    #[inline]
    fn write_question(&mut self, address: Ipv4Addr) {
        let mut label = [0; LABEL];
        let len = self.spec.namespace.label(address, &mut label);
        if !self.spec.namespace.is_padded() {
            // Labels have many lengths: the text after the label is copied from the template,
            // within the capacity.
            let whole = &self.template.bytes()[self.template.question_range()];
            self.question.clear();
            self.question.push(len as u8);
            self.question.extend_from_slice(&label[..len]);
            self.question.extend_from_slice(&whole[1 + usize::from(whole[0])..]);
        } else {
            self.question[1..=LABEL].copy_from_slice(&label);
        }
    }

    /// Returns the address at a position of the order.
    #[inline]
    fn address(&self, position: u64) -> u32 {
        let position = if self.spec.sequential { position } else { self.order.map(position) };
        self.spec.namespace.nth(self.spec.first + position).into()
    }
}

impl Workload for NamespaceWorkload {
    #[inline]
    fn next(&mut self, out: &mut [u8]) -> Option<ComposedQuery> {
        let key = self.pick()?;
        let mut label = [0; LABEL];
        let label_len = self.spec.namespace.label(key.into(), &mut label);
        let len = if self.spec.namespace.is_padded() {
            let len = self.template.write(0, out);
            self.template.set_label(out, &label);
            len
        } else {
            self.template.write_with_label(0, &label[..label_len], out)
        };
        Some(ComposedQuery { len, key })
    }

    #[inline]
    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        let address = key.into();
        self.write_question(address);
        let missing = self.picker.is_some() && !self.spec.namespace.contains(address);
        let expect = match self.spec.expect {
            _ if missing => Expect::Rcodes(Rcodes::NXDOMAIN),
            NamespaceExpect::Address => Expect::A(address),
            NamespaceExpect::Embedded(pref64) => Expect::Aaaa(pref64.embed(address)),
            NamespaceExpect::AnyPrefix => Expect::Embeds(address),
            NamespaceExpect::Same(expect) => expect,
        };
        reply::check(message, &self.question, &expect)
    }

    fn address(&self, key: u32) -> Option<Ipv4Addr> {
        let address = key.into();
        self.spec.namespace.contains(address).then_some(address)
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
    fn names_without_padding_are_sent_and_checked() {
        let namespace = spec(1).namespace.with_padding(false);
        let (expect, sequential) = (NamespaceExpect::Address, true);
        let spec = NamespaceSpec { namespace, expect, sequential, qtype: Qtype::A, ..spec(200) };
        let mut workload = NamespaceWorkload::new(spec, 0, 1).expect("inside");
        let mut out = [0; super::super::MAX_QUERY];
        for d in 100..=255u8 {
            let ComposedQuery { len, key } = workload.next(&mut out).expect("a query");
            let label = format!("10-0-0-{d}");
            assert_eq!(&out[13..13 + label.len()], label.as_bytes());
            let mut reply = out[..len].to_vec();
            reply[2] |= 0x80;
            reply[7] = 1;
            reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, d]);
            assert_eq!(workload.check(key, &reply), Ok(0), "{label}");
            *reply.last_mut().expect("octets") ^= 1;
            assert!(workload.check(key, &reply).is_err(), "{label}");
            // The padded name is another name.
            assert_eq!(workload.check(key + 1, &reply), Err(Invalid::WrongQuestion));
        }
    }

    #[test]
    fn reuse_starts_again() {
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

    #[test]
    fn too_many_queries_are_refused_with_the_prefix_that_holds_them() {
        let spec = NamespaceSpec { first: 536, ..spec(65_000) };
        assert_eq!(spec.holds(65_000), Ok(()));
        assert_eq!(NamespaceSpec { reuse: true, ..spec.clone() }.holds(u64::MAX), Ok(()));
        for (queries, enough) in [
            (65_001, "/15 or"),
            (131_072 - 536, "/15 or"),
            (131_073 - 536, "/14 or"),
            (1 << 40, "/0 or"),
        ] {
            let error = spec.holds(queries).expect_err("too many").to_string();
            assert!(error.contains("65000 names") && error.contains(enough), "{error}");
        }
    }

    #[test]
    fn a_mix_has_repeated_new_and_missing_names() {
        let mix = Mix { popular: 100, exponent: 1.0, repeats: 0.5, missing: 0.2 };
        let stream = |worker| {
            NamespaceWorkload::new(spec(20_000), worker, 2)
                .and_then(|workload| workload.with_mix(mix))
                .expect("fits")
        };
        let mut out = [0; super::super::MAX_QUERY];
        let (mut popular, mut once, mut missing) = (HashSet::new(), HashSet::new(), HashSet::new());
        let order: Vec<u32> = (0..100).map(|rank| stream(0).address(rank)).collect();
        let mut counts = [0; 3];
        for mut workload in [stream(0), stream(1)] {
            for _ in 0..10_000 {
                let key = workload.next(&mut out).expect("enough names").key;
                if key & OUTSIDE_BIT != 0 {
                    assert!(missing.insert(key), "a missing name is queried once");
                    counts[0] += 1;
                } else if order.contains(&key) {
                    popular.insert(key);
                    counts[1] += 1;
                } else {
                    assert!(once.insert(key), "a new name is queried once");
                    counts[2] += 1;
                }
            }
        }
        assert_eq!(popular.len(), 100);
        for (count, expected) in counts.into_iter().zip([4_000, 8_000, 8_000]) {
            assert!(i32::abs(count - expected) < 350, "{counts:?}");
        }
    }

    #[test]
    fn a_missing_name_must_not_exist() {
        let mix = Mix { popular: 1, exponent: 1.0, repeats: 0.0, missing: 1.0 };
        let mut workload = NamespaceWorkload::new(spec(10), 0, 1)
            .and_then(|workload| workload.with_mix(mix))
            .expect("fits");
        let mut out = [0; super::super::MAX_QUERY];
        let ComposedQuery { len, key } = workload.next(&mut out).expect("endless");
        let reply = &mut out[..len];
        reply[2] |= 0x80;
        assert_eq!(workload.check(key, reply), Err(Invalid::Rcode(0)));
        reply[3] = 3;
        assert_eq!(workload.check(key, reply), Ok(3));
    }
}
