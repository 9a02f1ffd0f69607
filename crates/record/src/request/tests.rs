use measure::{Qps, TlsVersion, WaitMode};
use proptest::prelude::*;
use proptest::{option, sample};

use super::*;

fn pacings() -> impl Strategy<Value = Pacing> {
    let rate = || (1e-3..1e9f64).prop_map(|qps| Qps::new(qps).expect("a rate"));
    prop_oneof![
        rate().prop_map(|rate| Pacing::Constant { rate }),
        rate().prop_map(|rate| Pacing::Poisson { rate }),
        (rate(), rate()).prop_map(|(from, to)| Pacing::Ramp { from, to }),
        (rate(), 1..u64::MAX / 2).prop_map(|(to, hold)| {
            Pacing::RampHold { from: Qps::default(), to, hold: Nanos(hold) }
        }),
        (1..u32::MAX).prop_map(|outstanding| Pacing::Window { outstanding }),
        (1..u32::MAX, rate())
            .prop_map(|(outstanding, rate)| Pacing::CappedWindow { outstanding, rate }),
        (1..256u32, 1..9_999u32, any::<bool>()).prop_map(|(threads, experiments, anew)| {
            Pacing::LockStep { threads, experiments, anew }
        }),
    ]
}

fn queries() -> impl Strategy<Value = Query> {
    let edns =
        (option::of(any::<u16>()), any::<bool>(), sample::select(vec![vec![], vec!["10:aa"]]));
    let edns = edns.prop_map(|(udp_size, dnssec, options)| Edns {
        udp_size,
        dnssec,
        options: options.into_iter().map(str::to_owned).collect(),
    });
    let class = sample::select(vec![None, Some("CH".to_owned())]);
    (any::<bool>(), class, option::of(edns)).prop_map(|(recursion, class, edns)| Query {
        recursion,
        class,
        edns,
    })
}

fn workloads() -> impl Strategy<Value = Workload> {
    let text = || "[a-z0-9.\"\\\\]{1,20}";
    let expects = || {
        let (one, other) = (Expect::Answered, Expect::Rcodes("nxdomain,refused".to_owned()));
        sample::select(vec![
            one,
            Expect::NoError,
            Expect::AnyAaaa,
            Expect::NoData,
            Expect::EachLine,
            other,
        ])
    };
    let embedded = "2001:db8:64::/96".parse().expect("a prefix");
    let of_names = prop_oneof![
        Just(NamespaceExpect::Address),
        Just(NamespaceExpect::AnyPrefix),
        Just(NamespaceExpect::Embedded(embedded)),
        expects().prop_map(NamespaceExpect::Same),
    ];
    let repeats = (0.0..=1.0f64, 1..99u64).prop_map(|(share, names)| Repeats { share, names });
    let flags = (any::<bool>(), any::<bool>());
    let numbers = (any::<u64>(), option::of(any::<u64>()), flags, option::of(repeats));
    prop_oneof![
        (text(), of_names, numbers, queries()).prop_map(|(zone, expect, numbers, query)| {
            let (first, names, (reuse, unpadded), repeats) = numbers;
            let (prefix, qtype) = ("10.0.0.0/8".parse().expect("a prefix"), "AAAA".to_owned());
            Workload::Namespace(Names {
                prefix,
                zone,
                unpadded,
                qtype,
                expect,
                first,
                names,
                reuse,
                repeats,
                query,
            })
        }),
        (text(), expects(), queries(), option::of(1..99u64)).prop_map(
            |(path, expect, query, runs)| Workload::QueryFile {
                path: path.into(),
                expect,
                query,
                runs,
                probability: runs.map(|n| 1.0 / n as f64),
                skip_bad: runs == Some(1),
            }
        ),
        (text(), expects(), option::of(1..99u64)).prop_map(|(path, expect, runs)| {
            Workload::Messages { path: path.into(), expect, runs }
        }),
        (text(), text(), expects(), queries())
            .prop_map(|(name, qtype, expect, query)| Workload::Name { name, qtype, expect, query }),
        (text(), text(), expects(), queries()).prop_map(|(zone, qtype, expect, query)| {
            Workload::RandomSubdomain { zone, qtype, expect, query }
        }),
        (text(), any::<u32>(), 0.0..9.0f64, 0.0..=1.0f64, expects(), queries()).prop_map(
            |(zone, names, exponent, share, expect, query)| {
                let (repeats, missing, qtype) = (share, 1.0 - share, "A".to_owned());
                Workload::Mix { zone, names, exponent, repeats, missing, qtype, expect, query }
            }
        ),
        (text(), 1e-3..1e3f64, proptest::collection::vec(any::<u16>(), 0..3), any::<u32>())
            .prop_map(|(capture, speed, ports, loops)| {
                let capture = capture.into();
                Workload::Replay { capture, speed, ports, loops }
            }),
    ]
}

fn engines() -> impl Strategy<Value = Engine> {
    let proxy = Proxy { clients: "10.9.0.1/24".parse().expect("a prefix"), within_tls: true };
    let transports = sample::select(Transport::ALL.to_vec());
    let numbers = (1..999u32, option::of(1..99u64), option::of(1..99u32), option::of(1..99u64));
    let streams = (transports, numbers, any::<bool>(), option::of("[a-z]{1,9}")).prop_map(
        move |(transport, (clients, queries_per_connection, outstanding, idle), flag, text)| {
            let mut connecting = Connecting::over(transport);
            connecting.transports[0].port = flag.then_some(5_300);
            connecting.tls = connecting.tls.map(|tls| Tls {
                name: text.clone(),
                version: flag.then_some(TlsVersion::V13),
                alpn: flag.then(Vec::new),
                resume: flag,
                ..tls
            });
            connecting.http = connecting.http.map(|http| Http { path: text.clone(), ..http });
            Engine::Streams(Box::new(Connecting {
                clients,
                queries_per_connection,
                outstanding,
                close_idle: idle.map(Nanos),
                connection_rate: idle.and_then(|n| Qps::new(n as f64 / 7.0)),
                pick: if flag { Pick::Chance } else { Pick::Turn },
                proxy: flag.then_some(proxy),
                ..connecting
            }))
        },
    );
    let kernel =
        (option::of("[a-z]{1,9}"), option::of(any::<[u8; 6]>())).prop_map(|(device, neighbour)| {
            Engine::Kernel(InKernel { device, neighbour: neighbour.map(HardwareAddress) })
        });
    prop_oneof![Just(Engine::Udp), streams, kernel]
}

fn requests() -> impl Strategy<Value = TrialRequest> {
    let goals = sample::select(vec!["zero-loss", "p99 < 5ms, loss < 0.1%"]);
    let goals = option::of(goals.prop_map(|text| text.parse().expect(text)));
    let sockets =
        (proptest::collection::vec(0..64usize, 0..4), option::of(any::<u16>()), any::<bool>());
    let sockets = sockets.prop_map(|(cpus, count, flag)| Sockets {
        cpus,
        count,
        per_worker: count,
        first_port: count,
        source: flag.then(|| "fd00::5/64".parse().expect("a prefix")),
        wait: if flag { WaitMode::Yield } else { WaitMode::Auto },
        gso: if flag { Gso::Off } else { Gso::On },
        ..Sockets::default()
    });
    let times = (1..u64::MAX / 2, 1..u64::MAX / 2, any::<u64>());
    (engines(), workloads(), pacings(), goals, sockets, times).prop_map(
        |(engine, workload, pacing, goal, sockets, (duration, timeout, seed))| TrialRequest {
            version: VERSION,
            target: "[fd00::1]:53".parse().expect("an address"),
            also: vec!["[fd00::2]:53".parse().expect("an address"); (seed % 3) as usize],
            engine,
            workload,
            pacing,
            duration: Nanos(duration),
            timeout: Nanos(timeout),
            goal,
            early_stop: seed % 2 == 0,
            most_outstanding: Some(seed).filter(|_| seed % 2 == 0),
            keep_places: seed % 2 == 0,
            step: Some(Nanos(timeout)).filter(|_| seed % 2 == 0),
            slice: Slice::new((seed % 3) as u32 + 1, 3).expect("a slice"),
            start_at: (seed % 2 == 0)
                .then(|| format!("@{}", seed % 1_000_000_000).parse().expect("an instant")),
            clock_bound: if seed % 3 == 0 {
                ClockBound::Unchecked
            } else {
                ClockBound::Within(Nanos(timeout))
            },
            sockets,
            seed,
            live: Some("live.json".into()).filter(|_| seed % 2 == 0),
            dut_cpus: (0..(seed % 3) as usize).collect(),
            auth_cpus: (0..(seed % 2) as usize).collect(),
        },
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read(request in requests()) {
        let json = serde_json::to_string(&request).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<TrialRequest>(&json).expect("a request"), request);
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let target = "127.0.0.1:53".parse().expect("an address");
    let workload =
        Workload::Replay { capture: "x.pcap".into(), speed: 1.0, ports: vec![53], loops: 1 };
    let request = TrialRequest {
        engine: Engine::Streams(Box::new(Connecting::over(Transport::Tls))),
        ..TrialRequest::new(target, workload, Pacing::Window { outstanding: 64 })
    };
    let json = serde_json::to_string(&request).expect("JSON");
    for (good, bad, why) in [
        ("\"version\":1", "\"version\":2", "reads version 1"),
        ("window 64", "windows 64", "no pacing `windows`"),
        ("\"tls\",", "\"sctp\",", "sctp"),
        ("\"timeout\":\"1s\"", "\"timeout\":\"1\"", "duration"),
        ("\"seed\":1", "\"seed\":1,\"sead\":2", "unknown field `sead`"),
        ("\"speed\":1.0", "\"speed\":1.0,\"spede\":2", "unknown field `spede`"),
        ("\"gro\":true", "\"gro\":\"yes\"", "boolean"),
    ] {
        assert!(json.contains(good), "{good} in {json}");
        let read = serde_json::from_str::<TrialRequest>(&json.replacen(good, bad, 1));
        let error = read.expect_err(bad).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn lost_replies_take_their_timeouts_of_the_time() {
    let times =
        LockStepTimes { times_ms: vec![100.0, 100.0, 500.0, 1_300.0], ..Default::default() };
    // Two experiments lasted for a timeout or longer, for 1.8 s of all 2 s.
    for (lost, share) in [(0, 0.0), (1, 0.25), (2, 0.5), (9, 0.9)] {
        assert_eq!(times.share_lost(lost, 0.5), share, "{lost} lost");
    }
}
