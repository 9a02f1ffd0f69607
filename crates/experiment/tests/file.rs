//! Experiment files: settings, matrix, and the places of mistakes.

use std::path::{Path, PathBuf};

use experiment::settings::{Method, Order, Scalar};
use experiment::{Experiment, RuleName, estimate, self_test_estimate};
use measure::{Nanos, Qps, Rng};
use record::Form;

const GOOD: &str = r#"
name = "x"
title = "an experiment"
role = "dns64"
servers = ["unbound"]
repeats = 20

[search]
goal = "zero-loss"
start = "10k"
max = "1M"
resolution = 0.01
duration = "60s"
timeout = "1s"

[quick]
repeats = 3
search.duration = "2s"
"#;

fn parse(text: &str) -> Experiment {
    Experiment::parse(text, Path::new("x.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn error(text: &str) -> String {
    Experiment::parse(text, Path::new("x.toml")).expect_err(text).to_string()
}

#[test]
fn a_good_file_and_its_quick_form() {
    let experiment = parse(GOOD);
    let search = experiment.common().search().expect("a search");
    assert_eq!((search.duration, experiment.common().repeats), (Nanos::from_secs(60), 20));
    assert_eq!(experiment.common().workload.pref64, "2001:db8:64::/96");
    assert_eq!(experiment.common().order, Order::Interleaved);
    assert!(experiment.points.len() == 1 && experiment.points[0].varied.is_empty());
    let quick = experiment.clone().in_form(Form::Quick).expect("a form");
    let search = quick.common().search().expect("a search");
    assert_eq!((search.duration, quick.common().repeats), (Nanos::from_secs(2), 3));
    assert_eq!(search.start, Qps::new(10_000.0).expect("a rate"), "the rest stays");
    let repeated = quick.clone().repeated(7).expect("so many");
    assert_eq!((repeated.common().repeats, repeated.form), (7, Form::Quick));
    let why = quick.repeated(0).expect_err("too few").to_string();
    assert!(why.contains("`repeats` is a number from 1 to"), "{why}");
}

#[test]
fn an_internet_in_a_box_is_for_cold_resolvers() {
    const BOX: &str = "name = \"x\"\ntitle = \"X\"\nrole = \"resolver\"\nservers = [\"unbound\"]\nmethod = \"closed\"\n\
                       [workload.internet]\nhit-rate = 0.25\ndelays = [\"0s\", \"5ms\"]\n";
    let settings = parse(BOX).common().workload.internet.clone().expect("an Internet in a box");
    assert_eq!((settings.hit_rate, settings.tlds), (0.25, 20));
    assert_eq!(settings.delays, [Nanos::ZERO, Nanos::from_millis(5)]);
    for (from, to, why) in [
        ("\"resolver\"", "\"dns64\"", "for the role `resolver` and the method `closed`"),
        ("\"closed\"", "\"lockstep\"", "for the role `resolver` and the method `closed`"),
        ("[workload", "warm-up = \"1s\"\n[workload", "leave out `warm-up`"),
        ("[workload", "[workload]\nhosts = 5\n[workload", "has its own zones and queries"),
        ("0.25", "1.25", "`hit-rate` is a number from 0 to 1"),
        ("hit-rate = 0.25", "hosts = 1000000", "times `hosts` are 2000000000 names"),
        ("hit-rate = 0.25", "servers = 1", "`servers` is a number from 2 to 48000"),
        ("hit-rate = 0.25", "loss = 0.6\ntruncated = 0.6", "sum to more than 1"),
        ("hit-rate", "hit-ratio", "unknown field `hit-ratio`"),
    ] {
        let got = error(&BOX.replace(from, to));
        assert!(got.starts_with("x.toml:") && got.contains(why), "{got}");
    }
}

#[test]
fn keys_of_a_method_stand_in_its_table_and_repeats_outside() {
    let repeats = GOOD
        .replace("repeats = 20\n", "")
        .replace("timeout = \"1s\"", "timeout = \"1s\"\nrepeats = 20");
    let got = error(&repeats);
    assert!(got.starts_with("x.toml:14:1: unknown field `repeats`"), "{got}");
    let got = error(&GOOD.replace("search.duration", "duration"));
    assert!(got.starts_with("x.toml:18:1: ") && got.contains("`duration`"), "{got}");
}

#[test]
fn a_matrix_varies_anything_and_named_groups() {
    let text = format!(
        "{GOOD}
[matrix]
dut.cores = [1, 2]
workload.aaaa-share = [0.0, 0.5, 1.0]
variables.cache = [\"0\", 64]
[[matrix.way]]
name = \"plain\"
tester.gso = true
[[matrix.way]]
name = \"poisson\"
tester.pacing = \"poisson\"
repeats = 3
search.goal = \"loss < 1%\"
"
    );
    let experiment = parse(&text);
    assert_eq!(experiment.points.len(), 2 * 3 * 2 * 2);
    let last = experiment.points.last().expect("points");
    let varied: Vec<(&str, &str)> =
        last.varied.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let wanted = [("aaaa-share", "1.0"), ("cache", "64"), ("cores", "2"), ("way", "poisson")];
    assert_eq!(varied, wanted);
    assert_eq!(last.settings.dut.cores, Some(2));
    assert_eq!((experiment.points[0].settings.repeats, last.settings.repeats), (20, 3));
    assert_eq!(last.settings.variables["cache"], Scalar("64".into()));
    assert_eq!(last.settings.search.as_ref().map(|s| s.goal.to_string()), Some("loss < 1%".into()));
    assert!(experiment.points[0].settings.tester.gso && !last.settings.tester.gso);
    // The first dimension changes slowest.
    assert_eq!(experiment.points[0].settings.dut.cores, Some(1));
    assert_eq!(experiment.points[11].settings.dut.cores, Some(1));
    assert_eq!(experiment.points[12].settings.dut.cores, Some(2));
}

#[test]
fn quick_replaces_dimensions_and_their_names_are_unique() {
    let text = format!(
        "{GOOD}\nmatrix.dut.cores = [1]\n[matrix]\ndut.cores = [1, 2]\nlockstep.experiments = [1]\n\
         generators.experiments = [2]\n"
    );
    let experiment = parse(&text);
    assert_eq!(experiment.points.len(), 2);
    let keys: Vec<&str> = experiment.points[0].varied.keys().map(String::as_str).collect();
    assert_eq!(keys, ["cores", "generators.experiments", "lockstep.experiments"]);
    assert_eq!(experiment.clone().in_form(Form::Quick).expect("a form").points.len(), 1);
}

#[test]
fn errors_have_their_place() {
    let with = |more: &str| format!("{GOOD}\n{more}\n");
    let table = [
        (GOOD.replace("start = \"10k\"", "start = \"10x\""), "x.toml:10:9: `10x` is not a rate"),
        (GOOD.replace("goal =", "gaol ="), "x.toml:9:1: unknown field `gaol`"),
        (GOOD.replace("\"dns64\"", "\"dns63\""), "x.toml:4:8: unknown variant `dns63`"),
        (GOOD.replace("[quick]", "[quick"), "x.toml:16:7: "),
        (GOOD.replace("[\"unbound\"]", "[\"a\", \"a\"]"), "x.toml:5:11: `servers` lists a twice"),
        (GOOD.replace("resolution = 0.01", "resolution = 7"), "x.toml:12:14: `resolution` is"),
        (GOOD.replace("max = \"1M\"", "max = \"5k\""), "x.toml:11:7: `max` is below"),
        (GOOD.replace("repeats = 20", "repeats = 0"), "x.toml:6:11: `repeats` is a number"),
        // A mistake of the quick form is reported at its own place.
        (GOOD.replace("repeats = 3", "repeats = 0"), "x.toml:17:11: `repeats` is a number"),
        (GOOD.replace("\"2s\"", "\"2\""), "x.toml:18:19: `2` is not a duration"),
        (with("search.max = 1"), "x.toml:20:14: invalid type: integer `1`"),
        (
            with("[cpus]\ndut = [0]\nauth = [0]"),
            "x.toml:21:7: the server's cores 0 overlap the cores of `auth`, 0",
        ),
        (with("[matrix]\ndut.cores = []"), "x.toml:21:13: `cores` has no value"),
        (with("[matrix]\ndut.cores = 3"), "x.toml:21:13: `cores` is a list"),
        (with("[matrix]\ndut.cores = [1, 1]"), "x.toml:21:17: `1` is listed twice"),
        (with("[matrix]\ndut.cores = [1, 0]"), "x.toml:21:17: `cores` is a number"),
        (with("[matrix]\ndut.kores = [1]"), "x.toml:21:5: unknown field `kores`"),
        (with("[matrix]\nrepeats = [1, 2]"), "x.toml:21:1: `repeats` holds for the whole"),
        (with("[[matrix.a]]\ndut.cores = 1"), "x.toml:20:1: each needs a `name`"),
        (with("[[matrix.a]]\nname = \"b\"\ntitle = \"c\""), "x.toml:22:1: `title` holds for"),
        (GOOD.replace("[search]", "method = \"load\"\n[search]"), "x.toml:8:10: the method `load`"),
        (GOOD.replace("[search]", "[serach]"), "x.toml:8:2: unknown field `serach`"),
        (with("[quick.quick]\nrepeats = 1"), "x.toml:20:8: `[quick]` has no `[quick]`"),
        (with("[medium]\nquick = 1"), "x.toml:21:1: `[medium]` has no `[quick]`"),
        (with("[medium]\nrepeats = 0"), "x.toml:21:11: `repeats` is a number"),
        (with("[tester]\ntransport = \"sctp\""), "x.toml:21:13: `sctp` is none of udp"),
        (with("[dut]\ncpu-limit = 0.0"), "x.toml:21:13: `cpu-limit` is a number from 0.01 to 4096"),
        (
            with("[host]\nsysctl.\"kernel.core_pattern\" = \"x\""),
            "x.toml:21:1: only settings of a host's own network can be set",
        ),
        (
            with("[tester]\nports-per-thread = 5000"),
            "x.toml:21:20: `ports-per-thread` is a number from 1 to 4096",
        ),
        (
            with("[tester]\nports = 1\nports-per-thread = 2"),
            "x.toml:22:20: `ports` is for all cores",
        ),
        (
            with("[tester]\ntransport = \"tls\"\nfamily = \"ipv4\""),
            "x.toml:22:10: servers listen on IPv6 only",
        ),
        (
            with("[tester]\nfast-open = true"),
            "x.toml:21:13: TCP Fast Open needs a transport over TCP",
        ),
        (
            with("[tester]\ntransport = \"quic\"\ntls-version = \"1.2\""),
            "x.toml:22:15: the version of TLS",
        ),
        (with("[lockstep]\nlanes = 257"), "x.toml:21:9: `lanes` is from 1 to 256"),
        (with("[generators]\nprocesses = 0"), "x.toml:21:13: `processes` is a number from 1 to 64"),
        (
            with("[generators]\ngenerator = \"window\"\nprocesses = 2"),
            "x.toml:22:13: the generators `script` and `dnsperf` have several processes",
        ),
    ];
    for (text, start) in table {
        let error = error(&text);
        assert!(error.starts_with(start), "{error}\nwanted {start}");
    }
}

#[test]
fn the_method_clients_refuses_what_is_not_about_clients() {
    let text = GOOD.replace("[search]", "method = \"clients\"\n[search]");
    let experiment = parse(&text);
    let settings = experiment.common();
    assert_eq!((settings.method.recorded(), settings.most_clients()), ("search", 1_000_000));
    let rule = |text: &str| parse(text).common().search().expect("a search").rule.name();
    assert_eq!((rule(&text), rule(GOOD)), (RuleName::Rfc8219, RuleName::Rfc8219));
    let table = [
        ("search.rule = \"mlrsearch\"", "over clients use `rfc8219`"),
        ("[tester]\nclients = 5", "`clients` chooses their number"),
        ("[tester]\npacing = \"poisson\"", "at the times of its clients"),
        ("[workload]\nqueries = \"x\"", "a capture or a population"),
        ("[workload]\nhosts = 10", "a capture or a population"),
        ("[workload]\nclient-rate = 0.0", "`client-rate` is a number from 0.001 to 1000"),
    ];
    for (more, part) in table {
        let error = error(&format!("{text}\n{more}\n"));
        assert!(error.contains(part), "{more}: {error}");
    }
    let many = error(&text.replace("max = \"1M\"", "max = \"2M\""));
    assert!(many.contains("`max` is a number of clients, 1048576 at most"), "{many}");
}

#[test]
fn a_matrix_with_too_many_points_is_refused() {
    let many = (1..=20).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        "{GOOD}\n[matrix]\ndut.cores = [{many}]\ndut.threads = [{many}]\ntester.ports = [{many}]\n"
    );
    assert!(error(&text).contains("the matrix has 8000 points; at most 4096 are allowed"));
}

#[test]
fn estimates_grow_with_the_work_and_stop_at_the_budget() {
    let experiment = parse(GOOD);
    let (one, two) = (estimate(&experiment, |_| 1, true), estimate(&experiment, |_| 2, true));
    assert!(one > Nanos::from_secs(20 * 60 * 5) && two > one, "{one} {two}");
    assert!(
        estimate(&experiment.clone().in_form(Form::Quick).expect("a form"), |_| 1, true)
            < Nanos::from_secs(120)
    );
    let budget = parse(&GOOD.replace("repeats = 20", "repeats = 20\nbudget = \"1m\""));
    assert_eq!(estimate(&budget, |_| 1, true), Nanos::from_secs(60));
    // A search has a self-test unless the file says otherwise.
    let bare = parse(&GOOD.replace("timeout = \"1s\"", "timeout = \"1s\"\nself-test = false"));
    let [test, none] = [&experiment, &bare].map(|e| self_test_estimate(e).as_secs_f64());
    let longer = one.as_secs_f64() - estimate(&bare, |_| 1, true).as_secs_f64();
    assert!(test > 60.0 && none == 0.0 && (longer - test).abs() < 1e-6, "{test} {longer}");
    // Eight rounds of a capacity are made in any case.
    let text = include_str!("../../../experiments/dns64-rfc8219.toml");
    let quick = parse(text).in_form(Form::Quick).expect("a form");
    assert!(
        estimate(&quick, |point| experiment::servers_at(&quick, point), true)
            > Nanos::from_secs(200)
    );
}

/// Returns every built-in experiment, as its file stands.
fn built_in() -> Vec<(PathBuf, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let entries = std::fs::read_dir(dir).expect("the experiments");
    let mut files: Vec<(PathBuf, String)> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| (path.clone(), std::fs::read_to_string(path).expect("a text")))
        .collect();
    files.sort();
    files
}

#[test]
fn the_built_in_ones_are_good() {
    let files = built_in();
    assert!(files.len() >= 11, "{}", files.len());
    for (path, text) in files {
        let experiment = Experiment::parse(&text, &path).unwrap_or_else(|e| panic!("{e}"));
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert_eq!(experiment.common().name, stem);
        assert!(
            experiment.common().method != Method::Search || experiment.common().search.is_some()
        );
    }
}

/// Damages `text` in one of several ways that are surely wrong; returns a description of the change.
fn spoil(text: &str, rng: &mut Rng) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    // Lines with a known key.
    let keyed: Vec<usize> = (0..lines.len())
        .filter(|&i| lines[i].contains(" = ") && !lines[i].trim_start().starts_with('#'))
        .collect();
    let at = keyed[rng.below(keyed.len() as u64) as usize];
    let (key, value) = lines[at].split_once(" = ").expect("a key and a value");
    let replaced = match rng.below(7) {
        0 => format!("{key}x = {value}"),
        1 => format!("{key} = "),
        2 => format!("{key} = {{ no = \"table\" }}"),
        3 => format!("{key} = 1979-05-27"),
        4 => format!("{key} = \"{key}"),
        5 => format!("{key} {value}"),
        _ => format!("{key} = {value}\n{key} = {value}"),
    };
    let mut out: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let did = format!("line {}: `{}` became `{replaced}`", at + 1, lines[at]);
    out[at] = replaced;
    (out.join("\n") + "\n", did)
}

#[test]
fn a_hundred_damaged_files_are_refused_with_their_places() {
    let files = built_in();
    let mut rng = Rng::new(8219);
    for i in 0..110 {
        let (path, text) = &files[i % files.len()];
        let (spoiled, did) = spoil(text, &mut rng);
        // Names of variables and of groups are free: a changed one is another experiment, not a wrong one.
        let free = ["`cache", "`variables.", "`name", "`title"].iter().any(|key| did.contains(key));
        let refused = match Experiment::parse(&spoiled, path) {
            Err(e) => e.to_string(),
            Ok(_) if free => continue,
            Ok(_) => panic!("{}: {did} was taken", path.display()),
        };
        let rest = refused
            .strip_prefix(&format!("{}:", path.display()))
            .unwrap_or_else(|| panic!("no file: {refused}\n{did}"));
        let mut parts = rest.splitn(3, ':');
        let mut number = || parts.next().and_then(|n| n.parse::<usize>().ok()).expect("a number");
        let (line, column) = (number(), number());
        let lines = spoiled.lines().count();
        assert!((1..=lines + 1).contains(&line) && column >= 1, "{refused}\n{did}");
        let why = parts.next().expect("a reason").trim();
        assert!(why.len() > 8 && !why.contains('\n'), "no reason: {refused}\n{did}");
    }
}

proptest::proptest! {
    #[test]
    fn a_damaged_byte_is_accepted_or_refused_with_its_place(
        file in 0usize..11, at in 0usize..4_000, byte: u8, cut: bool
    ) {
        let files = built_in();
        let (path, text) = &files[file % files.len()];
        let mut bytes = text.as_bytes().to_vec();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(text) = String::from_utf8(bytes)
            && let Err(e) = Experiment::parse(&text, path)
        {
            let place = format!("{}:", path.display());
            proptest::prop_assert!(e.to_string().starts_with(&place), "{}", e);
        }
    }
}
