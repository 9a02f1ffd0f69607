use super::sockets::tests::open;
use super::*;
use chacha20::rand_core::SeedableRng;

/// Makes servers, each with so many open sockets.
pub(super) fn upstreams(servers: &[&str], ports: usize) -> (Upstreams, ChaCha12Rng) {
    let servers = servers.iter().map(|s| s.parse().expect("an address")).collect();
    let upstream = UpstreamConfig { servers, source_ports: ports, ..UpstreamConfig::default() };
    let config = Config { upstream, ..Config::default() };
    let mut upstreams = Upstreams::new(&config, [7; 16], &Some);
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut next = 2;
    open(&mut upstreams, &mut rng, &mut next);
    (upstreams, rng)
}

#[test]
fn queries_go_to_the_fastest_server_alive() {
    let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"], 2);
    for (server, ms) in [(0, 30), (1, 10), (2, 20)] {
        assert!(up.answered(server, Nanos::ZERO, Nanos::from_millis(ms)));
    }
    let chosen = |up: &mut Upstreams, rng: &mut ChaCha12Rng, not| {
        let mut counts = [0; 3];
        (0..1_000).for_each(|_| counts[usize::from(up.choose(0, not, rng))] += 1);
        counts
    };
    let counts = chosen(&mut up, &mut rng, None);
    assert!(counts[1] > 950 && counts[0] > 0 && counts[2] > 0, "{counts:?}");
    assert_eq!(chosen(&mut up, &mut rng, Some(1))[1], 0);
    let late = Nanos::from_secs(1);
    let timeout = |up: &mut Upstreams, is_probe: bool, now: Nanos| up.timed_out(1, is_probe, now);
    assert!((0..99).all(|_| !timeout(&mut up, false, Nanos::from_millis(400))));
    assert_eq!(up.probe(late), None, "it has just replied");
    // Timeouts in a row make it suspected, probes without a reply dead.
    assert!((0..9).all(|_| !timeout(&mut up, false, late)));
    assert_eq!(up.probe(late), Some(1));
    assert!(chosen(&mut up, &mut rng, None)[2] > 950);
    assert_eq!(
        [true, false, true].map(|probe| timeout(&mut up, probe, late)),
        [false, false, true]
    );
    let counts = chosen(&mut up, &mut rng, None);
    assert!(counts[1] == 0 && counts[2] > 950, "{counts:?}");
    assert!(!up.answered(1, late, late + Nanos::from_millis(10)));
    assert!(chosen(&mut up, &mut rng, None)[1] > 950);
}

#[test]
fn a_server_that_comes_back_with_a_reload_is_not_suspected_any_more() {
    let (mut up, _) = upstreams(&["192.0.2.1:53"], 2);
    let late = Nanos::from_secs(1);
    assert!((0..9).all(|_| !up.timed_out(0, false, late)));
    assert!(up.servers[0].suspected.is_some());
    for server in ["192.0.2.2:53", "192.0.2.1:53"] {
        let servers = vec![server.parse().expect("an address")];
        let upstream = UpstreamConfig { servers, ..up.config.clone() };
        up.reload(&Config { upstream, ..Config::default() }, &Some);
    }
    assert_eq!(up.servers[0].share, ALL);
    assert!(!up.timed_out(0, false, Nanos::from_secs(9)), "one timeout makes no server dead");
}

#[test]
fn each_zone_has_its_pool_and_weights_share_the_queries() {
    let file = "upstream.servers = [\"192.0.2.1\", \"192.0.2.2\"]\nupstream.weights = [3, 1]\n\
        upstream.source-ports = 1\n\
        [[forward]]\nzones = [\"Corp.example\", \"test\"]\nservers = [\"192.0.2.3\"]\n\
        [[forward]]\nzones = [\"eu.corp.example\"]\nservers = [\"192.0.2.4\", \"192.0.2.1\"]\ncache = false";
    let config = Config::parse(file).expect(file);
    let mut up = Upstreams::new(&config, [7; 16], &Some);
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    open(&mut up, &mut rng, &mut 2);
    let pool = |up: &Upstreams, name: &str| up.pool_for(Group::ALL, &name.parse().expect("a name"));
    for (name, expected) in [
        (".", 0),
        ("example", 0),
        ("xcorp.example", 0),
        ("corp.example", 1),
        ("www.test", 1),
        ("a.eu.corp.example", 2),
    ] {
        assert_eq!(pool(&up, name), expected, "{name}");
    }
    assert!(up.caches(1) && !up.caches(2));
    let chosen = |up: &mut Upstreams, rng: &mut ChaCha12Rng, pool| {
        let mut counts = [0usize; 5];
        (0..4_000).for_each(|_| counts[usize::from(up.choose(pool, None, rng))] += 1);
        counts
    };
    let counts = chosen(&mut up, &mut rng, 0);
    assert!(counts[0].abs_diff(3_000) < 140 && counts[0] + counts[1] == 4_000, "{counts:?}");
    assert_eq!(chosen(&mut up, &mut rng, 1)[2], 4_000);
    let counts = chosen(&mut up, &mut rng, 2);
    assert_eq!(counts[3] + counts[4], 4_000, "never that of another pool");
    // A dead server gets nothing, but no server of another pool is used instead.
    (up.servers[0].dead, up.servers[2].dead) = (true, true);
    assert_eq!(chosen(&mut up, &mut rng, 0)[1], 4_000);
    assert_eq!(chosen(&mut up, &mut rng, 1)[2], 4_000);
    // Without the first block the second one keeps its servers and what is known of them.
    up.answered(3, Nanos::ZERO, Nanos::from_millis(5));
    let second = config.forward[1].clone();
    up.reload(&Config { forward: vec![second], ..config }, &Some);
    assert_eq!((pool(&up, "corp.example"), pool(&up, "eu.corp.example")), (0, 1));
    assert_eq!((up.server(3).pool, up.server(3).rtt), (1, Nanos::from_millis(5)));
    assert_eq!(up.servers().count(), 4);
}

#[test]
fn dead_servers_are_probed_at_growing_intervals() {
    let (mut up, mut rng) = upstreams(&["192.0.2.1:53"], 1);
    let start = Nanos::from_secs(1);
    (0..5).for_each(|_| assert!(!up.timed_out(0, false, start)));
    assert_eq!(up.probe(start), Some(0));
    // No probe can be sent, but nothing else gets a reply either.
    assert!(!up.timed_out(0, false, start));
    let start = start + MAX_SUSPICION;
    assert!(up.timed_out(0, false, start) && up.server(0).dead);
    let mut probes = Vec::new();
    for ms in 0..20_000 {
        if up.probe(start + Nanos::from_millis(ms)).is_some() {
            probes.push(ms);
        }
    }
    assert_eq!(probes, [0, 500, 1_500, 3_500, 7_500, 15_500]);
    assert_eq!(up.choose(0, None, &mut rng), 0);
}

#[test]
fn a_server_that_answers_few_queries_is_avoided() {
    let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 1);
    let now = Nanos::from_secs(1);
    for n in 0..200 {
        // The first is faster, but answers one query in five.
        if n % 5 == 0 {
            up.answered(0, now, now + Nanos::from_millis(1));
        } else {
            up.timed_out(0, false, now);
        }
        up.answered(1, now, now + Nanos::from_millis(30));
    }
    let first = (0..1_000).filter(|_| up.choose(0, None, &mut rng) == 0).count();
    assert!(first < 50 && !up.server(0).dead, "{first}");
    for _ in 0..100 {
        up.answered(0, now, now + Nanos::from_millis(1));
    }
    assert!((0..1_000).filter(|_| up.choose(0, None, &mut rng) == 0).count() > 950);
}

#[test]
fn a_server_that_refuses_most_queries_is_avoided() {
    let now = Nanos::from_secs(1);
    for (every, is_avoided) in [(1, true), (2, true), (4, false)] {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 1);
        for n in 0..200 {
            // The first is faster, but some of its replies are errors, the last one too.
            up.answered(0, now, now + Nanos::from_millis(1));
            if (n + 1) % every == 0 {
                up.failed(0);
            }
            up.answered(1, now, now + Nanos::from_millis(30));
        }
        let first = (0..1_000).filter(|_| up.choose(0, None, &mut rng) == 0).count();
        assert_eq!(first < 50, is_avoided, "every {every}: {first}");
        assert!(!up.server(0).dead);
    }
}

#[test]
fn timeouts_follow_the_round_trip_times() {
    let (mut up, _) = upstreams(&["192.0.2.1:53"], 1);
    let ms = Nanos::from_millis;
    let timeouts = |up: &Upstreams| [1, 2, 3].map(|attempt| up.timeout(0, attempt));
    assert_eq!(timeouts(&up), [ms(400), ms(600), ms(900)], "no reply yet");
    // One round trip time and four deviations of half of it.
    up.answered(0, Nanos::ZERO, ms(60));
    assert_eq!(timeouts(&up), [ms(180), ms(270), ms(405)]);
    // One slow reply: twice the round trip time at most.
    up.answered(0, Nanos::ZERO, ms(2_060));
    assert_eq!((up.server(0).rtt, up.timeout(0, 1)), (ms(310), ms(620)));
    // A fast server: the minimum above the round trip time.
    for _ in 0..100 {
        up.answered(0, Nanos::ZERO, Nanos::from_micros(100));
    }
    let fast = ms(30) + Nanos::from_micros(100);
    assert!(up.timeout(0, 1).0.abs_diff(fast.0) < 100_000, "{}", up.timeout(0, 1));
    assert_eq!([1, 2, 3].map(|attempt| up.patient_timeout(attempt)), [ms(400), ms(800), ms(1_600)]);
}

#[test]
fn a_server_without_replies_gets_few_queries_again() {
    let (mut up, _) = upstreams(&["192.0.2.1:53"], 1);
    let repeats = |up: &mut Upstreams| (0..10_000).filter(|_| up.may_repeat(0)).count();
    let answer = |up: &mut Upstreams| up.answered(0, Nanos::ZERO, Nanos::from_millis(1));
    assert_eq!(repeats(&mut up), 100);
    assert!((0..7).all(|_| answer(&mut up)));
    assert_eq!(repeats(&mut up), 7);
    assert!((0..9_000).all(|_| answer(&mut up)));
    assert_eq!(repeats(&mut up), 1_000);
}

#[test]
fn mixed_case_is_used_until_a_server_changes_it() {
    let (mut up, _) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 1);
    let now = Nanos::from_secs(9);
    up.note_case_kept(0);
    (0..9).for_each(|_| up.note_case_changed(0, now));
    assert!(up.mixes_case(0, now));
    (0..3).for_each(|_| up.note_case_changed(1, now));
    assert!(up.mixes_case(1, now));
    up.note_case_changed(1, now);
    assert!(!up.mixes_case(1, now));
    // Later it is tried again; one more such reply is enough.
    let later = now + CASE_DISTRUST;
    assert!(up.mixes_case(1, later));
    up.note_case_changed(1, later);
    assert!(!up.mixes_case(1, later));
    up.note_case_kept(1);
    assert!(up.mixes_case(1, later));
}
