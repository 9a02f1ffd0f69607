//! Tests of the configuration file.

use super::*;

#[test]
fn defaults_toml_equals_the_defaults_in_the_code() {
    assert_eq!(Config::parse(DEFAULTS), Ok(Config::default()));
    assert_eq!(Config::parse(""), Ok(Config::default()));
    // Every key is in the file, also the commented ones of a block.
    let block = DEFAULTS.split("# [[dns64]]").nth(1).expect("the block");
    let block = block.split("\n\n").next().expect("its end");
    let block: String =
        block.lines().map(|l| l.trim_start_matches("# ").to_owned() + "\n").collect();
    let config = Config::parse(&format!("[[dns64]]{block}")).expect("a block");
    let [block] = &config.dns64[..] else { panic!("one block") };
    let defaults = Config::default();
    assert_eq!(block.exclude.as_ref(), Some(&defaults.synthesis.exclude));
    assert_eq!((block.recursive_only, block.break_dnssec), (Some(false), Some(false)));
    let block =
        BlockConfig { exclude: None, recursive_only: None, break_dnssec: None, ..block.clone() };
    assert_eq!([block], defaults.blocks()[..]);
}

#[test]
fn errors_name_the_place_and_a_solution() {
    for (file, parts) in [
        ("[server]\nlisten = \"1.2.3\"", &["line 2", "column 10", "1.2.3"][..]),
        (
            "[server]\nlisten = [\"1.2.3\"]",
            &["line 2", "`1.2.3` is not an address", "127.0.0.1:53"],
        ),
        ("[server]\nlisen = []", &["line 2", "lisen", "listen"]),
        ("[servr]", &["line 1", "servr", "server"]),
        ("[server]\nallow = [\"10.0.0.1/8\"]", &["line 2", "10.0.0.0/8"]),
        ("[server]\nallow = [\"ten\"]", &["line 2", "ten", "network"]),
        ("[server]\nmax-udp-size = 100", &["line 2", "512"]),
        ("[server]\nmax-udp-size = 70000", &["line 2", "70000"]),
        ("[[dns64]]\nprefix = \"64:ff9b::/95\"", &["line 2", "/96"]),
        ("[[dns64]]\n", &["prefix", "follow"]),
        (
            "[[dns64]]\nprefix = \"64:ff9b::/96\"\nmapped = [\"10.0.0.1/8\"]",
            &["line 3", "10.0.0.0/8"],
        ),
        ("[[dns64]]\nprefix = \"64:ff9b::/96\"\nmapped = [\"::1\"]", &["line 3", "not IPv4"]),
        (
            "[[dns64]]\nprefix = \"2001:db8::/32\"\nsuffix = \"::100:0:0:0\"",
            &["dns64[0].suffix", "bits 64 to 71"],
        ),
        ("[[dns64]]\nprefix = \"64:ff9b::/96\"\nsuffix = \"::1\"", &["dns64[0].suffix"]),
        (
            "hosts.leases = [{ file = \"x\", format = \"kea\", domain = \".\" }]",
            &["hosts.leases[0].domain", "\"lan\""],
        ),
        ("[synthesis]\nnever = [\"a..b\"]", &["line 2", "empty label"]),
        ("[synthesis]\nnever = [\"*.a.test\"]", &["line 2", "`*.a.test`: write a.test"]),
        (
            "[[forward]]\nzones = [\"10.0.0.0/8\"]",
            &["line 2", "`10.0.0.0/8` is a network", "10.in-addr.arpa"],
        ),
        ("[synthesis]\nnever = [\"192.0.2.1\"]", &["line 2", "`192.0.2.1` is a network"]),
        ("[synthesis]\nexclude = [\"10.0.0.0/8\"]", &["line 2", "not IPv6"]),
        ("[synthesis]\nexclude = [\"0.0.0.0/0\"]", &["line 2", "not IPv6", "::ffff:0:0/96"]),
        (
            "[[dns64]]\nprefix = \"64:ff9b::/96\"\nexclude = [\"0.0.0.0/0\"]",
            &["line 3", "not IPv6"],
        ),
        ("[synthesis]\nleave-alone = \"do\"", &["line 2", "cd", "signed"]),
        ("[synthesis]\non-error = \"x\"", &["line 2", "ask-a", "pass"]),
        ("[upstream]\nservers = []", &["upstream.servers", "1 to 16"]),
        ("[upstream]\nservers = [\"127.0.0.1:53\"]", &["upstream.servers", "itself"]),
        ("[upstream]\nattempts = 0", &["upstream.attempts"]),
        ("[upstream]\nfirst-timeout = \"1h\"", &["upstream.first-timeout", "10ms"]),
        ("[upstream]\nmin-timeout = \"1ms\"", &["upstream.min-timeout", "10ms"]),
        ("[upstream]\nfirst-timeout = 5", &["line 2"]),
        ("[upstream]\nsource-ports = 5000", &["upstream.source-ports", "2048"]),
        ("[upstream]\navoid-ports = [\"x\"]", &["line 2", "`x`", "5060-5061"]),
        ("[upstream]\navoid-ports = [\"1-60000\"]", &["upstream.avoid-ports", "16384"]),
        ("[upstream]\nport-share = 0.9", &["upstream.port-share", "0.5"]),
        ("[upstream]\nclient-subnet = \"yes\"", &["line 2", "pass", "add"]),
        ("[upstream]\nclient-subnet-ipv4-bits = 33", &["upstream.client-subnet", "32"]),
        ("[cache]\nsize = \"64 MB\"", &["line 2", "64MiB"]),
        ("[cache]\nmax-ttl = \"1x\"", &["line 2", "1x"]),
        ("[limits]\nclient-share = 0", &["limits.client-share"]),
        ("server.socket-buffer = 100", &["server.socket-buffer", "4KiB"]),
        ("[limits]\noutstanding = 0", &["limits.outstanding"]),
        ("[metrics]\nlisten = \"x\"", &["line 2", "`x`"]),
        ("[tls]\ndot = [\"::1\"]", &["tls.certificate", "PEM"]),
        ("[tls]\ndoh = [\"::1\"]\ncertificate = \"x\"", &["tls.key"]),
        ("[upstream]\ntransport = \"sctp\"", &["line 2", "http3"]),
    ] {
        let error = Config::parse(file).expect_err(file).to_string();
        for part in parts {
            assert!(error.contains(part), "{file:?}: {error}");
        }
    }
}

#[test]
fn values_of_all_kinds_are_read() {
    let config = Config::parse(
        "server.listen = [\"::1\", \"127.0.0.1:5300\", \"::ffff:127.0.0.2\"]\n\
         server.allow = [\"any\", \"10.1.2.3\", \"::ffff:10.2.0.0/112\"]\n\
         cache.size = 0\nmetrics.listen = \"\"\nupstream.first-timeout = \"1s\"\nsynthesis.never = [\".\"]",
    )
    .expect("it is right");
    let listen: Vec<String> = config.server.listen.iter().map(|a| a.to_string()).collect();
    assert_eq!(listen, ["[::1]:53", "127.0.0.1:5300", "127.0.0.2:53"]);
    let allow: Vec<String> = config.server.allow.iter().map(|a| a.to_string()).collect();
    assert_eq!(allow, ["0.0.0.0/0", "::/0", "10.1.2.3/32", "10.2.0.0/16"]);
    assert_eq!((config.cache.size, config.metrics.listen), (Bytes(0), None));
    assert_eq!(config.upstream.first_timeout, Nanos::from_secs(1));
    assert_eq!(config.synthesis.never, [Name::ROOT]);
    let block =
        "[[dns64]]\nprefix = \"64:ff9b::/96\"\nmapped = [\"any\"]\nnot-mapped = [\"10.1.2.3\"]";
    let block = Config::parse(block).expect("it is right").dns64.remove(0);
    assert_eq!(block.mapped, [ipnet::Ipv4Net::default()]);
    assert_eq!(block.not_mapped[0].to_string(), "10.1.2.3/32");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text: String) {
        let _ = Config::parse(&text);
    }

    #[test]
    fn changed_defaults_are_read_or_refused(at: proptest::sample::Index, with in "[ -~]{0,3}") {
        let mut text = DEFAULTS.to_owned();
        let at = at.index(text.len());
        text.replace_range(at..(at + 1), &with);
        if let Err(error) = Config::parse(&text) {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
    }
}
