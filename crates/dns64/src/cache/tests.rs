use super::*;
use proptest::prelude::*;

fn key(name: &str) -> Key {
    let name: Name = name.parse().expect("a name");
    hashed(Key { name, qtype: Qtype::AAAA, view: View(1), ..Key::default() })
}

/// Returns a key with its hash.
fn hashed(key: Key) -> Key {
    use std::hash::BuildHasher;
    let hasher = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default();
    Key { hash: hasher.hash_one(key), ..key }
}

fn answer(name: &Name) -> Answer {
    let mut question = Vec::new();
    Key::question(name, Qtype::AAAA, &mut question);
    let mut answer = Answer::new();
    answer.question_only(&question, Rcode::NOERROR);
    answer
}

fn put(cache: &mut Cache, key: &Key, now: Nanos, life: Nanos) {
    cache.put(key, &answer(&key.name), now, life);
}

#[test]
fn answers_get_older_expire_and_may_be_served_stale() {
    let mut cache = Cache::new(100_000);
    let (k, s) = (key("a.test"), Nanos::from_secs);
    put(&mut cache, &k, s(10), s(100));
    let mut get = |now, stale| cache.get(&k, now, stale).map(|hit| (hit.age, hit.refresh));
    assert_eq!(get(s(10), None), Some((Age::Seconds(0), false)));
    assert_eq!(get(s(99), None), Some((Age::Seconds(89), false)));
    // A refresh is requested only once.
    assert_eq!(get(s(101), None), Some((Age::Seconds(91), true)));
    assert_eq!(get(s(102), None), Some((Age::Seconds(92), false)));
    assert_eq!(get(s(110), None), None);
    assert_eq!(get(s(115), Some((s(5), 30))), Some((Age::Stale(30), false)));
    assert_eq!(get(s(116), Some((s(5), 30))), None);
    let hit = cache.get(&k, s(20), None).expect("it is there");
    assert_eq!(hit.answer.bytes, answer(&k.name).bytes());
    // A newer one that is not stored.
    put(&mut cache, &k, s(111), Nanos::ZERO);
    assert_eq!(cache.get(&k, s(112), Some((s(5), 30))).map(|hit| hit.age), None);
    assert_eq!(cache.used(), (0, 0));
}

#[test]
fn an_operator_sees_answers_in_parts_and_removes_some() {
    let mut cache = Cache::new(100_000);
    let name = |text: &str| text.parse::<Name>().expect("a name");
    for (second, text) in (1..).zip(["a.test", "www.a.test", "ba.test", "test"]) {
        put(&mut cache, &key(text), Nanos::ZERO, Nanos::from_secs(second));
    }
    let Dump { answers, next } = cache.dump(0, 3, Nanos::from_secs(2));
    let seen: Vec<_> = answers.iter().map(|a| (a.name.to_string(), a.seconds)).collect();
    let expected = [("a.test", 0), ("www.a.test", 0), ("ba.test", 1)];
    assert_eq!(seen, expected.map(|(name, seconds)| (name.to_owned(), seconds)));
    let rest = cache.dump(next.expect("one more"), 3, Nanos::ZERO);
    assert_eq!((rest.answers.len(), rest.next), (1, None));
    assert_eq!(cache.flush(&Domain::Name(name("A.test"))), 1);
    // With it goes an alias of the name.
    let (k, mut alias) = (key("alias.test"), Answer::new());
    let mut question = Vec::new();
    Key::question(&k.name, Qtype::AAAA, &mut question);
    alias.compose(&question, |c| c.at_question(Qtype::CNAME, 60, name("www.A.test").as_wire()));
    cache.put(&k, &alias, Nanos::ZERO, Nanos::from_secs(1));
    assert_eq!(cache.flush(&Domain::Zone(name("A.test"))), 2);
    assert_eq!((cache.flush(&Domain::Zone(name("a.test"))), cache.used().1), (0, 2));
    assert!(cache.get(&key("ba.test"), Nanos::ZERO, None).is_some());
    assert_eq!((cache.flush(&Domain::Zone(Name::ROOT)), cache.used()), (2, (0, 0)));
    put(&mut cache, &key("new.test"), Nanos::ZERO, Nanos::from_secs(9));
    assert_eq!(cache.dump(0, 9, Nanos::ZERO).answers.len(), 1);
}

#[test]
fn answers_with_another_prefix_are_forgotten() {
    let mut cache = Cache::new(100_000);
    let reverse = key("2.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa");
    let reverse = hashed(Key { qtype: Qtype::PTR, view: View(0), ..reverse });
    let (one, both) = (key("a.test"), hashed(Key { view: View(3), ..key("a.test") }));
    let plain = hashed(Key { qtype: Qtype::A, view: View(0), ..one });
    for k in [&one, &both, &reverse, &plain] {
        put(&mut cache, k, Nanos::ZERO, Nanos::from_secs(9));
    }
    let mut left = |view, prefixes: &[Pref64]| {
        cache.forget(View(view), prefixes);
        [&one, &both, &reverse, &plain].map(|k| cache.get(k, Nanos::ZERO, None).is_some())
    };
    assert_eq!(left(4, &[]), [true; 4]);
    assert_eq!(left(2, &[]), [true, false, true, true]);
    assert_eq!(left(0, &[Pref64::WELL_KNOWN]), [true, false, false, true]);
}

#[test]
fn every_part_of_the_key_is_compared() {
    let mut cache = Cache::new(100_000);
    let k = key("a.test");
    put(&mut cache, &k, Nanos::ZERO, Nanos::from_secs(9));
    let flags = KeyFlags { rd: true, ..k.flags };
    for other in [
        key("b.test"),
        Key { qtype: Qtype::A, ..k },
        Key { view: View(2), ..k },
        Key { flags, ..k },
        Key { subnet: 1, ..k },
        Key { group: Group(1), ..k },
    ] {
        assert!(cache.get(&hashed(other), Nanos::ZERO, None).is_none());
        // Also with the same hash.
        assert!(cache.get(&Key { hash: k.hash, ..other }, Nanos::ZERO, None).is_none());
    }
}

proptest! {
    #[test]
    fn the_cache_keeps_its_size_limit_and_used_answers(names in prop::collection::vec(0u32..300, 1..600)) {
        let limit = 60_000;
        let mut cache = Cache::new(limit);
        let popular = key("popular.test");
        put(&mut cache, &popular, Nanos::ZERO, Nanos::from_secs(1_000));
        for (second, name) in (0u64..).zip(names) {
            let now = Nanos::from_secs(1) + Nanos::from_millis(second);
            let k = key(&format!("{name}.test"));
            put(&mut cache, &k, now, Nanos::from_secs(500));
            prop_assert!(cache.get(&k, now, None).is_some());
            prop_assert!(cache.get(&popular, now, None).is_some());
            let (used, entries) = cache.used();
            prop_assert!(used <= limit);
            prop_assert_eq!(entries, cache.index.len());
        }
    }
}
