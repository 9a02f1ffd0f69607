use super::*;
use proptest::prelude::*;

fn policy(file: &str) -> Policy {
    let config = Config::parse(file).expect(file);
    Policy::new(&config, &Nat64s::of(&config))
}

fn mapped(policy: &Policy, address: &str) -> Vec<String> {
    let address = address.parse().expect("an address");
    policy.map(View(u32::MAX), address).map(|a| a.to_string()).collect()
}

/// Returns the IPv4 address for which the reverse name of an address stands.
fn inner(policy: &Policy, address: &str) -> Option<Ipv4Addr> {
    let address: Ipv6Addr = address.parse().expect("an address");
    policy.reverse(address.into(), 128)?.inner
}

#[test]
fn the_vectors_of_rfc_6052() {
    for (prefix, address) in [
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100:0"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
    ] {
        let policy = policy(&format!("[[dns64]]\nprefix = \"{prefix}\""));
        assert_eq!(mapped(&policy, "192.0.2.33"), [address], "{prefix}");
        assert_eq!(inner(&policy, address), Some([192, 0, 2, 33].into()));
    }
}

#[test]
fn the_well_known_prefix_maps_global_addresses_only() {
    let default = policy("");
    assert_eq!(mapped(&default, "8.8.8.8"), ["64:ff9b::808:808"]);
    for address in
        ["10.1.2.3", "192.168.0.1", "100.64.0.1", "224.0.0.1", "192.0.0.170", "192.88.99.1"]
    {
        assert!(mapped(&default, address).is_empty(), "{address}");
    }
    let asked = policy("[[dns64]]\nprefix = \"64:ff9b::/96\"\nmap-non-global = true");
    assert_eq!(mapped(&asked, "10.1.2.3"), ["64:ff9b::a01:203"]);
    let known = default.map_always(View(1), [192, 0, 0, 170].into());
    assert_eq!(known.map(|a| a.to_string()).collect::<Vec<_>>(), ["64:ff9b::c000:aa"]);
    assert_eq!(inner(&default, "64:ff9b::a01:203"), Some([10, 1, 2, 3].into()));
}

#[test]
fn addresses_that_no_nat64_reaches_are_mapped_only_by_name() {
    let own = "[[dns64]]\nprefix = \"2001:db8:64::/96\"\nmapped = ";
    for (networks, ones) in [
        ("[\"any\"]", [false; 4]),
        ("[\"0.0.0.0/1\", \"128.0.0.0/1\"]", [false; 4]),
        ("[\"any\", \"127.0.0.0/8\", \"239.1.0.0/16\"]", [false, true, false, true]),
        ("[\"0.0.0.0/8\", \"169.254.169.254\"]", [true, false, true, false]),
    ] {
        let policy = policy(&format!("{own}{networks}"));
        let addresses = ["0.0.0.0", "127.0.0.53", "169.254.169.254", "239.1.2.3"];
        assert_eq!(addresses.map(|a| !mapped(&policy, a).is_empty()), ones, "{networks}");
    }
}

#[test]
fn blocks_have_clients_and_networks() {
    let policy = policy(
        "[[dns64]]\nprefix = \"2001:db8:1::/96\"\nclients = [\"10.0.0.0/8\", \"2001:db8::/32\"]\nmapped = [\"192.0.2.0/24\"]\n\
         [[dns64]]\nprefix = \"2001:db8:2::/64\"\nsuffix = \"::1\"\nnot-mapped = [\"192.0.2.128/25\"]",
    );
    let view = |client: &str| policy.view(client.parse().expect("an address"));
    assert_eq!(view("10.1.1.1"), View(3));
    assert_eq!(view("2001:db8::1"), View(3));
    assert_eq!(view("192.0.2.1"), View(2));
    assert_eq!(mapped(&policy, "192.0.2.1"), ["2001:db8:1::c000:201", "2001:db8:2:0:c0:2:100:1"]);
    assert_eq!(mapped(&policy, "192.0.2.129"), ["2001:db8:1::c000:281"]);
    assert_eq!(mapped(&policy, "198.51.100.1"), ["2001:db8:2:0:c6:3364:100:1"]);
    assert_eq!(inner(&policy, "2001:db8:2:0:c0:2:100:1"), Some([192, 0, 2, 1].into()));
    assert_eq!(
        inner(&policy, "2001:db8:2:0:c0:2:100:2"),
        Some([192, 0, 2, 1].into()),
        "any suffix"
    );
    assert_eq!(inner(&policy, "2001:db8:2:0:1c0:2:100:1"), None, "a u octet");
    assert_eq!(inner(&policy, "64:ff9b::c000:201"), Some([192, 0, 2, 1].into()));
}

#[test]
fn the_longest_domain_decides() {
    let policy = policy(
        "[synthesis]\nnever = [\"example\", \"a.b.test\"]\nalways = [\".\", \"b.test\", \"Example\"]",
    );
    let rule =
        |name: &str| policy.rule(Group::ALL, name.parse::<Name>().expect("a name").as_wire());
    assert_eq!(rule("www.example"), NameRule::Never);
    assert_eq!(rule("example"), NameRule::Never);
    assert_eq!(rule("anexample"), NameRule::Always);
    assert_eq!(rule("b.test"), NameRule::Always);
    assert_eq!(rule("x.a.b.test"), NameRule::Never);
    assert_eq!(super::tests::policy("").rule(Group::ALL, b"\x01a\0"), NameRule::Usual);
}

#[test]
fn the_zone_whose_servers_are_queried_decides() {
    let block = |key: &str, zone: &str, more: &str| {
        format!("[[{key}]]\nzones = [\"{zone}\"]\nservers = [\"192.0.2.1\"]\n{more}\n")
    };
    const OWN: &str = "dns64 = false\nignore-nxdomain = true";
    let policy = policy(&format!(
        "[synthesis]\nalways = [\"always.test\"]\nignore-nxdomain = [\"Broken.test\"]\n{}{}{}\
         [[view]]\nclients = [\"::1\"]\nalways = [\"b.test\"]\n{}{}",
        block("forward", "a.test", OWN),
        block("forward", "b.test", OWN),
        block("forward", "Sub.a.test", ""),
        block("view.forward", "a.test", ""),
        block("view.forward", "always.test", "dns64 = false"),
    ));
    use NameRule::{Always, Never, Usual};
    for (name, others, own) in [
        ("www.a.test", (Never, true), (Usual, false)),
        ("www.b.test", (Never, true), (Always, true)),
        ("www.sub.a.test", (Usual, false), (Usual, false)),
        ("www.always.test", (Always, false), (Never, false)),
        ("broken.test", (Usual, true), (Usual, true)),
    ] {
        let name: Name = name.parse().expect("a name");
        for (group, expected) in [(Group::OTHERS, others), (Group::of_view(0), own)] {
            let doubts = policy.ignores_nxdomain(group, name.as_wire());
            assert_eq!((policy.rule(group, name.as_wire()), doubts), expected, "{name}");
        }
    }
}

#[test]
fn excluded_addresses_count_as_absent() {
    let ip = |text: &str| text.parse().expect("an address");
    let default = policy("");
    for (address, excluded) in
        [("::ffff:1.2.3.4", true), ("::1.2.3.4", false), ("2001:db8::1", false)]
    {
        assert_eq!(default.is_excluded(View(1), ip(address)), excluded, "{address}");
    }
    assert!(!default.is_excluded(View(0), ip("::ffff:1.2.3.4")), "no block, no exclusion");
    assert!(!policy("synthesis.exclude = []").is_excluded(View(1), ip("::ffff:1.2.3.4")));
    let two = policy(
        "[[dns64]]\nprefix = \"2001:db8:1::/96\"\nexclude = [\"2001:db8::/32\"]\n\
         [[dns64]]\nprefix = \"2001:db8:2::/96\"\nexclude = [\"2001:db8:5::/48\"]",
    );
    let excluded = |view| two.is_excluded(View(view), ip("2001:db8:6::1"));
    assert_eq!([excluded(1), excluded(2), excluded(3)], [true, false, false]);
    assert!(two.is_excluded(View(3), ip("2001:db8:5::1")));
}

#[test]
fn blocks_may_except_some_queries() {
    let policy = policy(
        "[[dns64]]\nprefix = \"2001:db8:1::/96\"\nrecursive-only = true\n\
         [[dns64]]\nprefix = \"2001:db8:2::/96\"\nbreak-dnssec = true\n[[dns64]]\nprefix = \"2001:db8:3::/96\"",
    );
    let flags = |rd, dnssec| KeyFlags { rd, cd: dnssec, dnssec };
    let permitted = |rd, dnssec| policy.permitted(View(7), flags(rd, dnssec)).0;
    assert_eq!(
        [permitted(true, false), permitted(false, false), permitted(true, true)],
        [0b111, 0b110, 0b010]
    );
    assert_eq!(policy.permitted(View(1), flags(false, false)), View(0));
    assert_eq!(policy.changing(View(7), flags(true, true), true), View(7));
}

#[test]
fn signed_data_may_be_left_alone() {
    let policy = policy(
        "synthesis.leave-alone = \"signed\"\n[[dns64]]\nprefix = \"2001:db8:1::/96\"\n\
         [[dns64]]\nprefix = \"2001:db8:2::/96\"\nbreak-dnssec = true",
    );
    let flags = |dnssec, cd| KeyFlags { rd: true, cd, dnssec };
    for cd in [true, false] {
        assert_eq!(policy.permitted(View(3), flags(true, cd)), View(3));
        let changing = |dnssec, signed| policy.changing(View(3), flags(dnssec, cd), signed).0;
        let all = [changing(true, true), changing(true, false), changing(false, true)];
        assert_eq!(all, [0b10, 0b11, 0b11]);
    }
}

proptest! {
    #[test]
    fn mapped_addresses_are_extracted_again(bits: u128, len in prop::sample::select(&wire::pref64::LENGTHS[..]), suffix: u128, inner: u32) {
        let u_octet = 0xff_u128 << 56;
        let prefix = Ipv6Addr::from(bits & (u128::MAX << (128 - len)) & !u_octet);
        let pref64 = Pref64::new(prefix, len).expect("no bits too many");
        let used = u128::from(Pref64::new(Ipv6Addr::UNSPECIFIED, len).expect("zero").embed([255; 4].into()));
        let free = !(used | u_octet | !(u128::MAX >> len));
        let block = Embedding { prefix: pref64, suffix: suffix & free };
        let inner = Ipv4Addr::from(inner);
        let outer = block.embed(inner);
        prop_assert_eq!(block.extract(outer), Some(inner));
        prop_assert!(outer.octets()[8] == 0 || len == 96);
        // Any changed bit gives another address, or none, except in the suffix.
        for bit in 0..128 {
            let other = Ipv6Addr::from(u128::from(outer) ^ 1 << bit);
            prop_assert_eq!(block.extract(other) == Some(inner), free >> bit & 1 == 1);
        }
    }
}
