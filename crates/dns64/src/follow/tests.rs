//! Tests of the follower: learned prefixes, their lifetimes, and probes.

use super::*;

fn follower(file: &str) -> Follower {
    Follower::new(&Config::parse(file).expect(file), Nanos::ZERO)
}

/// Returns the prefixes that are known, each with its remaining seconds and whether it works.
fn known(follower: &Follower, now: Nanos) -> Vec<(String, u32, bool)> {
    let known = |n: &Nat64| (n.prefix.to_string(), n.lifetime.seconds_left(now), n.works);
    follower.nat64s().iter().map(known).collect()
}

fn prefix(text: &str) -> Pref64 {
    text.parse().expect("a prefix")
}

fn s(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

const A: &str = "2001:db8:a::/96";
const B: &str = "2001:db8:b::/96";

#[test]
fn a_discovered_prefix_is_refreshed_kept_after_failures_and_replaced() {
    let mut f = follower("[[dns64]]\nfollow = \"upstream\"");
    assert_eq!((known(&f, s(0)), f.discovery_at()), (vec![], Some(s(0))));
    f.discovering();
    assert_eq!(f.next(), Nanos(u64::MAX), "one query at a time");
    let of = |text| Discovery::Prefixes(vec![prefix(text)], s(100));
    assert!(f.discovered(&of(A), s(1)));
    assert_eq!(known(&f, s(1)), [(A.to_owned(), 100, true)]);
    assert_eq!(f.discovery_at(), Some(s(51)), "before the end of the TTL");
    // The same again extends the lifetime, also for those who have it already.
    let before = f.nat64s();
    assert!(!f.discovered(&of(A), s(51)));
    assert_eq!(before.iter().next().expect("one").lifetime.seconds_left(s(51)), 100);
    for n in 0..100 {
        let now = s(150 + 30 * n);
        assert!(!f.discovered(&Discovery::Failed, now) && !f.expire(now), "the last one is kept");
        assert!(f.discovery_at().is_some_and(|at| at <= now + RETRY));
        assert_eq!(known(&f, now), [(A.to_owned(), 60, true)], "for a short time at once");
    }
    assert!(f.discovered(&of(B), s(5_000)));
    assert_eq!(known(&f, s(5_000)), [(B.to_owned(), 100, true)]);
    assert!(f.discovered(&Discovery::Nothing, s(5_001)), "there is no NAT64 any more");
    assert_eq!(known(&f, s(5_001)), []);
}

#[test]
fn a_configured_prefix_serves_until_others_are_known() {
    let mut f = follower(&format!("[[dns64]]\nfollow = \"upstream\"\nprefix = \"{A}\""));
    assert_eq!(known(&f, s(0)), [(A.to_owned(), u32::MAX, true)]);
    let both = Discovery::Prefixes(vec![prefix(B), prefix("2001:db8::/32")], s(10));
    assert!(f.discovered(&both, s(0)));
    let seen: Vec<String> = known(&f, s(0)).into_iter().map(|known| known.0).collect();
    assert_eq!(seen, [B, "2001:db8::/32"]);
    assert!(f.expire(s(10)));
    assert_eq!(known(&f, s(10)), [(A.to_owned(), u32::MAX, true)]);
}

#[test]
fn routers_extend_and_withdraw_their_prefixes() {
    let mut f = follower("[[dns64]]\nfollow = \"router\"\ninterface = \"lan0\"");
    let router = |n| SocketAddrV6::new(Ipv6Addr::from(n), 0, 0, 2);
    let mut advertise = |n, interface, text, seconds, now| {
        let advertised = AdvertisedPrefix { prefix: prefix(text), lifetime: s(seconds) };
        let changed = f.advertised(router(n), interface, &[advertised], now);
        (changed, known(&f, now))
    };
    assert_eq!(advertise(1, "wan0", A, 100, s(0)), (false, vec![]), "another interface");
    let one = |seconds| vec![(A.to_owned(), seconds, true)];
    assert_eq!(advertise(1, "lan0", A, 96, s(0)), (true, one(96)));
    assert_eq!(advertise(1, "lan0", A, 96, s(40)), (false, one(96)));
    assert_eq!(advertise(2, "lan0", A, 48, s(40)), (false, one(96)), "the longest counts");
    assert_eq!(advertise(1, "lan0", A, 0, s(50)), (false, one(38)), "one router withdraws it");
    assert_eq!(advertise(2, "lan0", A, 0, s(50)), (true, vec![]), "the other one too");
    assert_eq!(advertise(2, "lan0", A, 0, s(51)), (false, vec![]));
    assert_eq!(advertise(1, "lan0", A, 8, s(60)), (true, one(8)));
    assert_eq!(f.next(), s(68));
    assert!(f.expire(s(68)) && known(&f, s(68)).is_empty() && f.lacks_routers());
    // Many routers cannot fill the memory.
    for n in 0..1_000 {
        let advertised = AdvertisedPrefix { prefix: prefix(A), lifetime: s(100) };
        f.advertised(router(n), "lan0", &[advertised], s(70));
    }
    assert_eq!(f.blocks[0].learned.len(), MAX_LEARNED);
}

#[test]
fn a_nat64_fails_after_three_probes_and_works_after_two() {
    let block = format!("[[dns64]]\nprefix = \"{A}\"\npool = \"p\"\nprobe = \"192.0.2.1:80\"");
    let mut f = follower(&block);
    let mut results = Vec::new();
    for (n, answered) in
        [false, false, true, false, false, false, true, true].into_iter().enumerate()
    {
        let now = s(5 * n as u64);
        assert_eq!(f.next(), now);
        let due = f.due_probes(now);
        let [probe] = &due[..] else { panic!("one probe") };
        assert_eq!(probe.to, "2001:db8:a::c000:201".parse::<Ipv6Addr>().expect("an address"));
        assert!(f.due_probes(now).is_empty());
        results.push((f.probed(probe, answered, now), known(&f, now)[0].2));
    }
    let same = (false, true);
    let failed = (false, false);
    assert_eq!(results, [same, same, same, same, same, (true, false), failed, (true, true)]);
}
