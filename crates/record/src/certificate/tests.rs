use proptest::prelude::*;
use proptest::{collection, option, sample};

use super::*;
use crate::check::{Bound, CheckVerdict, Known, TruthSource};

const FILE: &str = "c.json";

fn parse(json: &[u8]) -> Result<CertificateFile, CertificateError> {
    CertificateFile::parse(&String::from_utf8_lossy(json), FilePath::new(FILE))
}

fn tested() -> Tested {
    Tested {
        network: Some(Network::Namespaces),
        link: Some(Link::Plain),
        path: Path::Wire,
        engine: EngineKind::Sockets,
        transport: "udp".into(),
    }
}

fn host(model: &str, release: &str) -> HostFacts {
    let mut host = HostFacts::default();
    host.cpu.model = Some(model.into());
    host.kernel.release = Some(release.into());
    host
}

fn file() -> CertificateFile {
    CertificateFile {
        version: CERTIFICATE_VERSION,
        certified_qps: 20_000.0,
        tested: tested(),
        coverage: Vec::new(),
        made_unix_s: 1.5e9,
        made_by: "0.1.0".into(),
        command: "dnsdyno verify --quick".into(),
        host: host("a processor", "6.1"),
        self_test: None,
        checks: Vec::new(),
    }
}

fn checks() -> impl Strategy<Value = Check> {
    let numbers = (0.0..1e9f64, 0.0..1e9f64, any::<bool>(), 0.0..100f64);
    let verdicts = sample::select(vec![CheckVerdict::TesterLimited, CheckVerdict::NotMade]);
    let why = option::of("[ -~]{0,20}");
    ("[a-z0-9 ]{1,20}", numbers, verdicts, why).prop_map(|(name, numbers, verdict, why)| {
        let (value, found, relative, bound) = numbers;
        let bound = if relative { Bound::Percent(bound) } else { Bound::Absolute(bound) };
        let known = Known { truth: TruthSource::Capture, value, unit: "qps", bound };
        let check = match why.is_some() {
            true => Check::compare(name, known, found),
            false => Check::without(name, known, verdict),
        };
        Check { why, ..check }
    })
}

fn files() -> impl Strategy<Value = CertificateFile> {
    let tested = (
        sample::select(vec![None, Some(Network::Namespaces), Some(Network::Loopback)]),
        option::of(sample::select(Link::ALL.to_vec())),
        sample::select(Path::ALL.to_vec()),
        sample::select(vec![EngineKind::Sockets, EngineKind::Streams, EngineKind::Kernel]),
        sample::select(vec!["udp", "tcp,tls"]),
    )
        .prop_map(|(network, link, path, engine, transport)| Tested {
            network,
            link,
            path,
            engine,
            transport: transport.into(),
        });
    let self_test =
        (any::<bool>(), option::of(0.01..60f64)).prop_map(|(passed, shortened_s)| Certificate {
            engine: passed.then_some(EngineKind::Kernel),
            certified_qps: 1e3,
            self_test_qps: 2.2e3,
            timeout_s: 0.25,
            duration_s: 60.0,
            passed,
            shortened_s,
            ..Certificate::default()
        });
    let rest = (0.0..1e9f64, "[ -~]{0,30}", option::of(self_test));
    (tested, rest, collection::vec(checks(), 0..4)).prop_map(|(tested, rest, checks)| {
        let (certified_qps, command, self_test) = rest;
        CertificateFile { certified_qps, tested, command, self_test, checks, ..file() }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(wanted in files()) {
        let json = serde_json::to_vec_pretty(&wanted).expect("serialises");
        prop_assert_eq!(parse(&json).expect("reads"), wanted);
    }

    #[test]
    fn damaged_files_are_read_or_refused_with_their_place(
        wanted in files(), at in any::<sample::Index>(), octet in any::<u8>(), cut in any::<bool>()
    ) {
        let mut json = serde_json::to_vec_pretty(&wanted).expect("serialises");
        let at = at.index(json.len());
        json[at] = octet;
        if cut {
            json.truncate(at);
        }
        if let Err(error) = parse(&json) {
            let text = error.to_string();
            prop_assert!(text.starts_with("c.json:") && text.contains("not a certificate"), "{}", text);
        }
    }

    #[test]
    fn other_octets_are_no_certificate(json in collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&json).is_err());
    }
}

#[test]
fn errors_name_the_place_and_the_value() {
    let good = serde_json::to_value(file()).expect("serialises");
    let with = |key: &str, value: serde_json::Value| {
        let mut json = good.clone();
        json[key] = value;
        json.to_string()
    };
    let table = [
        ("{\n \"schema\": 2 }".to_owned(), "c.json:2:14: not a certificate: missing field"),
        (with("dnsdyno_certificate", 9.into()), "version 9, this program reads version 1"),
        (with("certified_qps", (-1.0).into()), "`certified_qps`: -1 is not a rate"),
        (with("tested", serde_json::json!({"path": "air"})), "unknown variant `air`, expected"),
        (format!("{good} x"), "trailing characters"),
        (String::new(), "c.json:1:0: not a certificate: EOF"),
    ];
    for (json, part) in table {
        let error = parse(json.as_bytes()).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let missing = CertificateFile::read(FilePath::new("no/such/file")).expect_err("absent");
    assert!(missing.to_string().starts_with("cannot read the certificate no/such/file"));
}

#[test]
fn a_certificate_is_for_its_machine_path_engine_and_transport() {
    let here = host("a processor", "6.1");
    let outside = Tested { network: None, link: None, ..tested() };
    assert_eq!(file().covers(&tested(), &here), Ok(()));
    assert_eq!(file().covers(&outside, &here), Ok(()), "the trials may go to another machine");
    assert_eq!(file().covers(&tested(), &HostFacts::default()), Ok(()), "nothing is known of it");
    let table = [
        (
            Tested { path: Path::HostOffload, ..tested() },
            &here,
            20e3,
            "path wire, but the trials have",
        ),
        (Tested { engine: EngineKind::Streams, ..tested() }, &here, 20e3, "engine sockets"),
        (Tested { transport: "tcp".into(), ..tested() }, &here, 20e3, "transport udp"),
        (tested(), &host("another", "6.1"), 20e3, "the processor a processor, not another"),
        (tested(), &host("a processor", "6.2"), 20e3, "the kernel 6.1, not 6.2"),
        (tested(), &here, 0.0, "certifies no rate"),
    ];
    for (trials, host, certified_qps, part) in table {
        let file = CertificateFile { certified_qps, ..file() };
        let why = file.covers(&trials, host).expect_err(part);
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn what_is_not_covered_is_said() {
    let pacing = |text: &str| text.parse::<Pacing>().expect(text);
    let rate = |qps| Qps::new(qps).expect("a rate");
    let mut coverage = Vec::new();
    for (transport, text) in [
        (Transport::Tcp, "constant 2k"),
        (Transport::Tcp, "window 8"),
        (Transport::Tls, "constant 2k"),
    ] {
        Coverage::add(&mut coverage, EngineKind::Streams, transport, pacing(text), rate(5e3));
    }
    let file = CertificateFile { coverage, ..file() };
    let over = |transport: &str| {
        let (engine, transport) = (EngineKind::Streams, transport.to_owned());
        Tested { engine, transport, ..tested() }
    };
    let table = [
        ("tcp", "window 100", None),
        ("tcp", "constant 5k", None),
        ("tcp", "constant 6k", Some("it covers rates up to 5000 qps, not 6000 qps")),
        ("tcp", "poisson 2k", Some("it covers the pacings constant, window over tcp, not poisson")),
        ("tcp,tls", "window 8", Some("it covers the pacings constant over tls, not window")),
    ];
    for (transport, text, outside) in table {
        let trials = over(transport);
        assert_eq!(file.covers(&trials, &file.host), Ok(()), "{transport}");
        assert_eq!(file.outside(&trials, pacing(text)).as_deref(), outside, "{transport} {text}");
        assert_eq!(file.certified(&trials), rate(5e3));
    }
    assert!(file.covers(&over("quic"), &file.host).is_err());
    // The conditions of its own trials have its own rate.
    assert_eq!(file.certified(&tested()), rate(20e3));
    let outside = file.outside(&tested(), pacing("window 8"));
    assert_eq!(outside.as_deref(), Some("it covers the pacing constant, not window"));
}
