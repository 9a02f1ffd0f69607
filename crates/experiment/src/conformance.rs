//! Differences from RFC 8219 section 9: a shorter or more tolerant run is useful, and its report lists them.

use measure::{Goal, Link, Nanos, Path, Qps};
use record::Certificate;

use crate::certify::TIMEOUT_FACTOR;
use crate::file::Role;
use crate::names::NameUse;
use crate::search::Search;
use crate::settings::{Method, Settings};

/// RFC 8219 section 9.2: a trial lasts at least 60 s.
pub const DURATION: Nanos = Nanos::from_secs(60);
/// RFC 8219 section 9.2: a reply counts within 1 s.
pub const TIMEOUT: Nanos = Nanos::from_secs(1);
/// RFC 8219 section 9.2: the search is repeated at least 20 times.
pub const REPEATS: u32 = 20;

/// Circumstances of a measurement, beside its search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// How names were used more than once.
    pub names: NameUse,
    /// Whether the clients used IPv6; unknown counts as no.
    pub over_ipv6: bool,
    /// The connection between the Tester and a server on the same host; `None` if the server is on
    /// another.
    pub one_host: Option<OneHost>,
    /// Duration to which a test shortened every trial; `None` if none did.
    pub shortened: Option<Nanos>,
}

/// Connection of two ends on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// A virtual link (veth) of the testbed.
    Veth(Link),
    /// The loopback interface, where there is no testbed.
    Loopback,
    /// Links between network namespaces that the user made.
    Namespaces,
}

/// Connection between the Tester and the server where both are on one host: no wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneHost {
    /// Kind of the link between the two.
    pub joined: Joined,
    /// How a datagram crosses the link.
    pub path: Path,
    /// Whether the Tester sends segmented messages.
    pub gso: bool,
    /// Whether the Tester receives coalesced replies.
    pub gro: bool,
    /// Whether the queries use TCP.
    pub tcp: bool,
}

impl Circumstances {
    /// Lists what the address family and the way to the server differ in.
    pub(crate) fn differences(&self) -> Vec<String> {
        let no_ipv6 = (!self.over_ipv6).then(|| "the clients did not speak IPv6".to_owned());
        let of_one_host = self.one_host.iter().flat_map(OneHost::differences);
        no_ipv6.into_iter().chain(of_one_host).collect()
    }
}

impl OneHost {
    /// Lists the differences from two hosts on a wire: the link, and every offload.
    fn differences(&self) -> Vec<String> {
        let between = match self.joined {
            Joined::Veth(link) => format!("a veth pair ({link})"),
            Joined::Loopback => "the loopback".to_owned(),
            Joined::Namespaces => "links between network namespaces of one kernel".to_owned(),
        };
        let offloads = [
            (true, "the link computes no checksums"),
            (self.path == Path::HostOffload, "segmented messages cross the link whole"),
            (self.tcp, "the link joins TCP segments (tx-tcp-segmentation)"),
            (
                self.joined == Joined::Veth(Link::Moderated),
                "the link joins packets on arrival (rx-gro)",
            ),
            (self.gso, "the Tester sends segmented messages (UDP_SEGMENT)"),
            (self.gro, "the Tester receives joined replies (UDP_GRO)"),
        ];
        let offloads = offloads.into_iter().filter(|(on, _)| *on);
        let first = format!("the Tester and the server are on one host, joined by {between}");
        [first].into_iter().chain(offloads.map(|(_, what)| format!("offload: {what}"))).collect()
    }
}

/// Lists the differences from RFC 8219 that a search has by its plan.
pub fn planned(search: &Search, repeats: u32) -> Vec<String> {
    let differences = [
        (
            search.duration < DURATION,
            format!("trials of {} instead of {} s", search.duration, DURATION.as_secs_f64()),
        ),
        (
            search.timeout != TIMEOUT,
            format!("a timeout of {} instead of {} s", search.timeout, TIMEOUT.as_secs_f64()),
        ),
        (
            search.goal != Goal::zero_loss(),
            format!("the goal `{}` instead of zero loss", search.goal),
        ),
        (repeats < REPEATS, format!("{repeats} searches instead of {REPEATS}")),
    ];
    differences.into_iter().filter(|(wrong, _)| *wrong).map(|(_, what)| what).collect()
}

/// Lists how a method that is no search differs from RFC 8219's by its plan.
pub fn of_method(settings: &Settings) -> Vec<String> {
    let mut out = vec![format!("the method is `{}`, not a search", settings.method.word())];
    if settings.role != Role::Dns64 {
        return out;
    }
    let (of, timeout) = match &settings.method {
        Method::Capacity => {
            (format!(" of {}", settings.capacity.duration), settings.capacity.timeout)
        }
        Method::Lockstep => (String::new(), settings.lockstep.timeout),
        _ => return out,
    };
    out.push(format!("closed loops{of} instead of rates for {} s", DURATION.as_secs_f64()));
    if timeout != TIMEOUT {
        out.push(format!("a timeout of {timeout} instead of {} s", TIMEOUT.as_secs_f64()));
    }
    out.extend(["no goal of zero loss", "no self-test of the Tester"].map(str::to_owned));
    out
}

/// Lists how a server and its queries differ from RFC 8219's test of DNS64 servers by their settings.
pub fn of_settings(settings: &Settings) -> Vec<String> {
    let w = &settings.workload;
    let server = match settings.role {
        Role::Dns64 => None,
        Role::Authoritative => Some("the server is authoritative, not a DNS64 server"),
        Role::Resolver => Some("the server is a resolver, not a DNS64 server"),
    };
    let is_stream = w.is_stream() || settings.method.replicates();
    let of_names = settings.role == Role::Dns64 && !is_stream;
    let differences = [
        // Other methods are labelled as such already.
        server.filter(|_| settings.method.searches()),
        (settings.method == Method::Clients)
            .then_some("a search over clients that query at their own times, instead of a rate"),
        is_stream.then_some(
            "the queries are a stream: names repeat as in the stream, and from trial to trial",
        ),
        (w.repeat_share > 0.0 && of_names).then_some(
            "queries repeat names: the optional test of caching (section 9.2), not the required one",
        ),
        (w.aaaa_share > 0.0 && of_names).then_some(
            "names have AAAA records: an optional test (section 9.2), not the required one",
        ),
    ];
    differences.into_iter().flatten().map(str::to_owned).collect()
}

/// Lists the differences of a measurement from RFC 8219; empty if it conforms. `highest` is the highest capacity found,
/// in queries a second.
pub fn differs(
    search: &Search,
    repeats: u32,
    certificate: Option<&Certificate>,
    highest: Option<f64>,
    circumstances: &Circumstances,
) -> Vec<String> {
    let mut out = planned(search, repeats);
    let mut say = |wrong: bool, what: String| {
        if wrong {
            out.push(what);
        }
    };
    circumstances.names.difference().into_iter().for_each(|how| say(true, how));
    match certificate {
        None => say(true, "no self-test of the Tester".into()),
        Some(c) if !c.passed => say(true, "the Tester failed its self-test".into()),
        Some(c) => {
            let short = highest.is_some_and(|rate| rate > c.certified_qps);
            let certified = Qps::new(c.certified_qps).unwrap_or_default();
            say(short, format!("the Tester is certified for {certified} only"));
            say(
                c.duration_s < DURATION.as_secs_f64(),
                format!(
                    "a self-test of {} s instead of {} s",
                    c.duration_s,
                    DURATION.as_secs_f64()
                ),
            );
            let timeout_s = search.timeout.as_secs_f64() * TIMEOUT_FACTOR;
            say(
                c.timeout_s > timeout_s,
                format!("a self-test with a timeout of {} s instead of {timeout_s} s", c.timeout_s),
            );
            say(
                c.shortened_s.is_some() && circumstances.shortened.is_none(),
                "a self-test that a test hook shortened".into(),
            );
            let missed = c.checks.iter().filter(|check| check.is_failed());
            missed.for_each(|check| {
                say(true, format!("the Tester missed a known value: {}", check.name))
            });
        }
    }
    out.extend(circumstances.differences());
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::Form;

    use super::*;
    use crate::Experiment;

    #[test]
    fn a_short_form_names_all_that_it_differs_in() {
        let text = include_str!("../../../experiments/dns64-rfc8219.toml");
        let experiment = Experiment::parse(text, Path::new("x")).expect("an experiment");
        let quick = experiment.in_form(Form::Quick).expect("a form");
        let wanted = [
            "the method is `capacity`, not a search",
            "closed loops of 450ms instead of rates for 60 s",
            "a timeout of 500ms instead of 1 s",
            "no goal of zero loss",
            "no self-test of the Tester",
        ];
        assert_eq!(of_method(quick.common()), wanted);
        assert!(!quick.common().title.contains("by RFC 8219"));
    }

    #[test]
    fn optional_tests_of_rfc_8219_are_not_the_required_one() {
        let cached = include_str!("../../../experiments/dns64-cached.toml");
        let existing = include_str!("../../../experiments/dns64-existing-aaaa.toml");
        for text in [cached, existing] {
            let experiment = Experiment::parse(text, Path::new("x")).expect("an experiment");
            let found: Vec<_> =
                experiment.points.iter().map(|point| of_settings(&point.settings)).collect();
            // The first share is 0.
            assert_eq!((found.len(), found[0].len()), (6, 0), "{found:?}");
            assert!(found[1..].iter().all(|of| of.len() == 1 && of[0].contains("optional test")));
        }
    }
}
