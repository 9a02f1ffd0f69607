//! Question plan: the namespace, type and prefix of the queries at one point of an experiment's matrix.

use std::fmt::Display;
use std::str::FromStr;

use experiment::file::Role;
use experiment::settings::AUTO;
use experiment::{Experiment, FileError, Method, NameBudget, Point};
use record::request::{Expect, Names, NamespaceExpect, Query};
use serde::{Deserialize, Serialize};
use wire::{Namespace, Pref64, Qtype};
use zone::ZoneRecords;

use crate::adapter::Adapter;
use crate::server::clients::Replaying;
use crate::server::query_stream::{ColdInternet, Prepared};
use crate::server::ready::Ask;
use crate::server::zonefile::{MOST_NAMES, check_size, most_names, namespace_of};

/// Queries of one point, with parsed names and prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuestionPlan {
    /// Namespace of the queried names.
    pub(crate) namespace: Namespace,
    /// Type of the queries: A or AAAA.
    pub(crate) qtype: Qtype,
    /// Prefix under which the addresses of AAAA records are expected.
    pub(crate) pref64: Pref64,
    /// Whether any AAAA record is a correct answer, since the server has wrong addresses.
    pub(crate) any_address: bool,
}

/// Names that are queried, and the expected answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueriedNames {
    /// Block of IPv4 addresses in the names.
    pub prefix: String,
    /// Zone that the names end with.
    pub zone: String,
    /// Whether the names have no leading zeros.
    pub unpadded: bool,
    /// Type of the queries: A or AAAA.
    pub qtype: String,
    /// Prefix under which the addresses of AAAA records are expected.
    pub pref64: String,
}

impl QuestionPlan {
    /// Parses the workload of `point`; a zone must fit into the memory of this host with one of `adapters`.
    pub(crate) fn new(
        experiment: &Experiment,
        point: &Point,
        adapters: &[Adapter],
    ) -> Result<Self, FileError> {
        let most = || adapters.iter().map(|adapter| most_names(adapter.bytes_per_name));
        let (w, role) = (&point.settings.workload, point.settings.role);
        let bad = |key: &str, why: String| experiment.bad(point, &format!("workload.{key}"), why);
        let namespace = match (w.namespace.as_str(), role) {
            (AUTO, Role::Authoritative) => {
                // All servers have the same names.
                namespace_of(point.settings.names_of_a_trial(), most().min().unwrap_or(MOST_NAMES))
            }
            (AUTO, _) => {
                let why = format!("`{AUTO}` is for authoritative servers only");
                return Err(bad("namespace", why));
            }
            (text, _) => Namespace::with_default_zone(
                text.parse().map_err(|e: wire::Ipv4PrefixError| bad("namespace", e.to_string()))?,
            ),
        };
        let namespace = namespace.with_padding(!w.unpadded);
        let pref64 =
            w.pref64.parse().map_err(|e: wire::Pref64Error| bad("pref64", e.to_string()))?;
        let qtype = match (w.qtype.parse().ok(), role) {
            (Some(Qtype::AAAA), _) => Qtype::AAAA,
            (Some(Qtype::A), Role::Authoritative | Role::Resolver) => Qtype::A,
            (_, Role::Dns64) => {
                let why = format!("`{}`: a DNS64 server is queried for AAAA", w.qtype);
                return Err(bad("type", why));
            }
            (_, Role::Authoritative | Role::Resolver) => {
                let why = format!("`{}`: the names have A or AAAA records", w.qtype);
                return Err(bad("type", why));
            }
        };
        let plan = Self { namespace, qtype, pref64, any_address: false };
        let most = most().max().unwrap_or(MOST_NAMES);
        plan.check_size(point, most).map_err(|why| bad("namespace", why))?;
        Ok(plan)
    }

    /// Returns the plan for a server: without a check of addresses if its adapter reports wrong
    /// ones.
    pub(crate) fn for_server(self, adapter: &Adapter) -> Self {
        let any_address = adapter.chain().any(|part| part.wrong_addresses.is_some());
        Self { any_address, ..self }
    }

    /// Checks that there are enough names for the first trial; an authoritative server may get the same name twice, and has `most`.
    fn check_size(&self, point: &Point, most: u64) -> Result<(), String> {
        let (size, settings) = (self.namespace.size(), &point.settings);
        if settings.method.replicates() {
            // These methods use a query file of another zone.
            return Ok(());
        }
        let workload = &settings.workload;
        if workload.has_zone() || (workload.is_stream() && settings.role != Role::Authoritative) {
            return Ok(());
        }
        if settings.method == Method::ZoneLoad {
            // A zone that does not fit here is skipped, and smaller ones are measured.
            return check_size(&self.namespace, MOST_NAMES).map_err(|e| e.to_string());
        }
        if settings.role == Role::Authoritative {
            return check_size(&self.namespace, most).map_err(|e| e.to_string());
        }
        let search = settings.search.as_ref().filter(|_| settings.method.searches());
        let Some(search) = search else { return Ok(()) };
        let (needed, what) = match settings.client_names() {
            Some(names) => {
                let needed = names.count(search.start.get(), search.duration);
                (needed, format!("{} clients need {needed}", search.start.get()))
            }
            None => {
                let needed = search.start.queries_in(search.duration);
                let each = "queries, each for a different name";
                (needed, format!("{} for {} are {needed} {each}", search.start, search.duration))
            }
        };
        (needed <= size).then_some(()).ok_or_else(|| {
            format!(
                "{size} names are too few for the first trial: {what}; take a shorter prefix (10.0.0.0/8 has 2^24 names)"
            )
        })
    }

    /// Returns the names to query; `recursion` sets the RD bit, and with `reuse` names may repeat.
    pub(crate) fn names(&self, recursion: bool, reuse: bool) -> Names {
        let expect = match self.qtype {
            Qtype::A => NamespaceExpect::Address,
            _ if self.any_address => NamespaceExpect::Same(Expect::AnyAaaa),
            _ => NamespaceExpect::Embedded(net(&self.pref64)),
        };
        Names {
            prefix: net(&self.namespace.prefix()),
            zone: self.namespace.zone().to_string(),
            unpadded: !self.namespace.is_padded(),
            qtype: self.qtype.to_string(),
            expect,
            first: 0,
            names: None,
            reuse,
            repeats: None,
            query: Query::plain(recursion),
        }
    }

    /// Returns the capture or clients that the trials of `point` replay; `None` if they replay
    /// nothing.
    ///
    /// # Errors
    /// If a file with clients cannot be read, in words.
    pub(crate) fn replayed(
        &self,
        point: &Point,
        stream: Option<&Prepared>,
        seed: u64,
    ) -> Result<Option<Replaying>, String> {
        Replaying::new(point, self.namespace, self.qtype, stream, seed)
    }

    /// Returns the names for the trials of a visit; a server with a cache gets names of earlier
    /// trials again only with `may_reuse`. Names of a stream are not counted, but a cold server
    /// gets each name of an Internet in a box once.
    pub(crate) fn budget(
        &self,
        role: Role,
        stream: Option<&Prepared>,
        may_reuse: bool,
    ) -> NameBudget {
        let size = self.namespace.size();
        match (stream, role) {
            (Some(stream), _) => {
                let once = stream.internet.as_ref().map(ColdInternet::queries);
                NameBudget::new(once.unwrap_or(u64::MAX), false)
            }
            (None, Role::Authoritative) => NameBudget::repeating(size),
            (None, _) => NameBudget::new(size, may_reuse),
        }
    }

    /// Returns the plan as text, for another host.
    pub(crate) fn queried_names(&self) -> QueriedNames {
        QueriedNames {
            prefix: self.namespace.prefix().to_string(),
            zone: self.namespace.zone().to_string(),
            unpadded: !self.namespace.is_padded(),
            qtype: self.qtype.to_string(),
            pref64: self.pref64.to_string(),
        }
    }

    /// Makes the plan for names that another host requested.
    ///
    /// # Errors
    /// The first value that is not valid.
    pub(crate) fn of(names: &QueriedNames) -> Result<Self, String> {
        let bad = |what: &str, found: &str, why: String| format!("{what} `{found}`: {why}");
        let prefix = names.prefix.parse().map_err(|e: wire::Ipv4PrefixError| {
            bad("the namespace", &names.prefix, e.to_string())
        })?;
        let zone = names.zone.parse::<wire::Name>();
        let zone = zone.map_err(|e| bad("the zone", &names.zone, e.to_string()))?;
        let namespace = Namespace::new(prefix, zone);
        let namespace = namespace.map_err(|e| bad("the zone", &names.zone, e.to_string()))?;
        let pref64 = names
            .pref64
            .parse()
            .map_err(|e: wire::Pref64Error| bad("the prefix", &names.pref64, e.to_string()))?;
        let qtype = match names.qtype.as_str() {
            "A" => Qtype::A,
            "AAAA" => Qtype::AAAA,
            other => return Err(bad("the type", other, "it is A or AAAA".to_owned())),
        };
        let namespace = namespace.with_padding(!names.unpadded);
        Ok(Self { namespace, qtype, pref64, any_address: false })
    }

    /// Returns the expected answer for each name.
    pub(crate) fn ask(&self) -> Ask {
        match self.qtype {
            Qtype::A => Ask::A,
            _ if self.any_address => Ask::AnyAaaa,
            _ => Ask::Aaaa(self.pref64),
        }
    }

    /// Returns the command that the user of a remote server must start, so that it can answer for
    /// the names of `point`.
    pub(crate) fn remote_remedy(&self, point: &Point) -> String {
        let (prefix, pref64) = (self.namespace.prefix(), self.pref64);
        if point.settings.role == Role::Authoritative {
            let records = if self.qtype == Qtype::A { "a" } else { "aaaa" };
            let form = if self.namespace.is_padded() { "" } else { " --unpadded" };
            return format!(
                "it must have the zone that `dnsdyno zone generate dns64 --namespace {prefix}{form} --records {records} \
                 --pref64 {pref64} --output FILE` writes"
            );
        }
        let resolver = point.settings.role == Role::Resolver;
        let share = if resolver { 1.0 } else { point.settings.workload.aaaa_share };
        let share = if share > 0.0 { format!(" --aaaa-share {share}") } else { String::new() };
        format!(
            "it must ask an AuthDNS started with `dnsdyno auth --listen ADDRESS:PORT --namespace {prefix} \
             --pref64 {pref64}{share}`"
        )
    }

    /// Returns the records of each name in a generated zone.
    pub(crate) fn records(&self) -> ZoneRecords {
        if self.qtype == Qtype::A { ZoneRecords::A } else { ZoneRecords::Aaaa(self.pref64) }
    }
}

/// Converts a prefix of `wire` for a request.
fn net<T: FromStr<Err: std::fmt::Debug>>(prefix: &impl Display) -> T {
    prefix.to_string().parse().expect("both print a prefix in the same form")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> QuestionPlan {
        QuestionPlan {
            namespace: Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix")),
            qtype: Qtype::AAAA,
            pref64: "2001:db8:64::/96".parse().expect("a prefix"),
            any_address: false,
        }
    }

    #[test]
    fn names_are_the_same_there() {
        let plan = plan();
        let names = plan.queried_names();
        assert_eq!(QuestionPlan::of(&names), Ok(plan));
        for wrong in [
            QueriedNames { prefix: "$(reboot)".to_owned(), ..names.clone() },
            QueriedNames { zone: "a..b".to_owned(), ..names.clone() },
            QueriedNames { pref64: "x".to_owned(), ..names.clone() },
            QueriedNames { qtype: "TXT".to_owned(), ..names },
        ] {
            assert!(QuestionPlan::of(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_mtd64_is_not_held_to_its_addresses() {
        let catalogue = crate::adapter::catalogue::Catalogue::load(None).expect("adapters");
        for name in ["mtd64", "mtd64-ng", "totd", "unbound", "dnsdist+mtd64", "dnsdist+totd"] {
            let plan = plan().for_server(catalogue.get(name).expect(name));
            let any = plan.names(true, false).expect == NamespaceExpect::Same(Expect::AnyAaaa);
            assert_eq!(any, name.ends_with("mtd64"), "{name}");
            assert_eq!(plan.ask() == Ask::AnyAaaa, any, "{name}");
        }
    }
}
