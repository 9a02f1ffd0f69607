use super::*;

#[test]
fn warnings_that_differ_in_their_number_are_one() {
    let share = |share: f64| Warning::ForeignOnServer { share };
    let listens = |times: u64, port: u16| Warning::NobodyListens {
        times,
        target: format!("192.0.2.1:{port}"),
    };
    let said = [share(0.11), listens(3, 53), share(0.062), listens(3, 54), share(0.70)];
    let wanted = [
        ("processes that are not of the testbed used 6.2 to 70.0 % of the server's cores", 3),
        ("3 times no program listened at 192.0.2.1:53 (ICMP): is the server up?", 1),
        ("3 times no program listened at 192.0.2.1:54 (ICMP): is the server up?", 1),
    ];
    let found = summarise(&said);
    let found: Vec<(&str, usize)> = found.iter().map(|s| (s.text.as_str(), s.count)).collect();
    assert_eq!(found, wanted);
}

/// A process other than the server on the Tester's cores.
fn taken(command: &str, pid: u32, share: f64, cpus: &[usize], free: Option<usize>) -> Warning {
    let by = CoreUser { command: command.to_owned(), pid };
    Warning::CoreTaken { by, share, cpus: cpus.to_vec(), free, is_server: false }
}

#[test]
fn processes_on_the_testers_cores_are_one_warning_and_the_server_another() {
    let server = |share| Warning::CoreTaken {
        by: CoreUser { command: "unbound".to_owned(), pid: 9 },
        share,
        cpus: vec![0, 1],
        free: None,
        is_server: true,
    };
    let names = ["rustc", "ld", "rustc", "cc1", "nsd", "sh"];
    let others =
        names.iter().zip(1..).map(|(name, n)| taken(name, n, f64::from(n) / 10.0, &[0, 1], None));
    let all: Vec<Warning> = others.chain([server(0.17), server(0.2)]).collect();
    let found = summarise(&all);
    let found: Vec<(&str, usize)> = found.iter().map(|s| (s.text.as_str(), s.count)).collect();
    let wanted = [
        (
            "other processes (rustc, ld, cc1, nsd, and 1 more) used 10 to 60 % of the Tester's cores 0, 1: keep them away, or stop them",
            6,
        ),
        (
            "unbound (process 9), the measured server, used 17 to 20 % of the Tester's cores 0, 1: give each a core of its own: \
             `taskset -acp 1 9` for the server, --cpus 0 for the Tester",
            2,
        ),
    ];
    assert_eq!(found, wanted);
    let one = summarise(&all[..1]);
    assert!(one[0].text.starts_with("rustc (process 1) used 10 % of"), "{one:?}");
}

#[test]
fn sentences_contain_numbers_and_advice() {
    let slow = Warning::SlowClock {
        read_ns: 900.4,
        source: "hpet".to_owned(),
        sources: vec!["hpet".to_owned(), "tsc".to_owned()],
    };
    let by = CoreUser { command: "cc1".to_owned(), pid: 7 };
    let table = [
        (
            Warning::SmallReceiveBuffers { bytes: 212_992, wanted: 33_554_432 },
            "receive buffers of 212992 instead of 33554432 bytes: raise net.core.rmem_max, or run as root",
        ),
        (
            slow,
            "a read of the clock takes 900 ns (clock source hpet): choose tsc, if it is one of hpet, tsc",
        ),
        (
            Warning::CoreAway { cpu: 1, max_us: 2_500.0 },
            "core 1 interrupted a busy program for up to 2.5 ms: look for another program that runs on this core",
        ),
        (
            Warning::NotOffered { queries: 9_000 },
            "9000 planned queries were not sent in time: lower the rate, or give the Tester more cores",
        ),
        (Warning::NotSent { datagrams: 2 }, "the kernel did not take 2 datagrams for sending"),
        (Warning::NotSent { datagrams: 1 }, "the kernel did not take 1 datagram for sending"),
        (
            Warning::QueriesFailed { queries: 1, reason: "no-port".to_owned() },
            "1 query failed: this host has no free port left",
        ),
        (Warning::UnexpectedReplies { replies: 1 }, "1 reply belongs to no query"),
        (
            taken("cc1", 7, 0.81, &[0], Some(1)),
            "cc1 (process 7) used 81 % of the Tester's core 0: keep it away, or give the Tester a core that others do not use: --cpus 1",
        ),
        (
            Warning::CoreAvoided { by, cpu: 0, instead: 1 },
            "cc1 (process 7) is bound to core 0: the Tester ran on core 1",
        ),
    ];
    for (warning, text) in table {
        assert_eq!(warning.with_advice(), text);
        assert!(text.starts_with(&warning.to_string()), "{warning}");
    }
}

#[test]
fn names_in_the_json_are_stable() {
    let table = [
        (Warning::ForeignOnServer { share: 0.5 }, r#"{"kind":"foreign-on-server","share":0.5}"#),
        (Warning::SlowCore { share: 0.5 }, r#"{"kind":"slow-core","share":0.5}"#),
        (Warning::ClockRateHidden, r#"{"kind":"clock-rate-hidden"}"#),
    ];
    for (warning, json) in table {
        assert_eq!(serde_json::to_string(&warning).expect("serialises"), json);
        assert_eq!(serde_json::from_str::<Warning>(json).expect("reads"), warning);
    }
}
