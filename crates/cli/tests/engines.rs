//! The engine of an experiment's queries: sockets, programs in the kernel, or the one that is certified for more.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::shared;

/// An authoritative server at one rate, by both engines, over each kind of link.
const BOTH: &str = r#"
name = "both"
title = "both engines"
role = "authoritative"
servers = ["nsd"]
method = "load"
repeats = 1
warm-up = "100ms"
[workload]
namespace = "10.0.0.0/20"
type = "A"
[load]
rates = ["500"]
duration = "1s"
timeout = "5s"
[matrix]
tester.engine = ["sockets", "kernel"]
host.link = ["plain", "moderated", "steered"]
"#;

/// A DNS64 server, searched after a self-test.
const SEARCH: &str = r#"
name = "searched"
title = "a DNS64 server"
role = "dns64"
servers = ["unbound"]
method = "search"
repeats = 1
[workload]
namespace = "10.0.0.0/8"
[search]
goal = "loss < 50%"
start = "1k"
max = "1k"
resolution = 0.5
duration = "500ms"
timeout = "4s"
"#;

/// dns64d with sockets, and with its programs in the kernel.
const PROGRAMS: &str = r#"
name = "programs"
title = "dns64d in the kernel"
role = "dns64"
servers = ["dns64d", "unbound"]
method = "load"
repeats = 1
[workload]
namespace = "10.0.0.0/16"
[load]
rates = ["500"]
duration = "1s"
timeout = "5s"
[[matrix.mode]]
name = "sockets"
[[matrix.mode]]
name = "cache"
only = ["dns64d"]
variables.kernel = "cache"
host.link = "moderated"
[[matrix.mode]]
name = "all"
only = ["dns64d"]
variables.kernel = "all"
host.link = "moderated"
"#;

/// An authoritative server that is asked the queries of a file.
const LISTED: &str = r#"
name = "listed"
title = "queries of a file"
role = "authoritative"
servers = ["nsd"]
method = "load"
repeats = 1
[workload]
hosts = 100
[load]
rates = ["500"]
duration = "1s"
timeout = "5s"
[matrix]
tester.engine = ["sockets", "kernel"]
"#;

/// What is said where there is no lab, no right to programs in the kernel, or no server.
const REFUSALS: [&str; 4] =
    ["cannot get its namespaces", "need root of this machine", "may not load BPF", "not installed"];

/// Those for an ordinary user, who has no such right.
const NO_LAB: [&str; 2] = ["cannot get its namespaces", "not installed"];

/// Runs dnsdyno in a folder of its own, with an experiment in the file x.toml.
struct Ran {
    output: Output,
    run: Option<Value>,
}

impl Ran {
    /// Runs the experiment by `prefix`, a command that runs another; trials are shortened.
    fn by(prefix: &[&str], text: &str, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).expect("its owner's");
        std::fs::write(dir.path().join("x.toml"), text).expect("writes");
        // A copy, since another user may not get to where it was built.
        let dnsdyno = dir.path().join("dnsdyno");
        std::fs::copy(cargo_bin("dnsdyno"), &dnsdyno).expect("copies");
        let dns64d = cargo_bin("dnsdyno").with_file_name("dns64d");
        if dns64d.exists() {
            std::fs::copy(dns64d, dir.path().join("dns64d")).expect("copies");
        }
        let (program, rest) = match prefix {
            [program, rest @ ..] => (Path::new(program).to_owned(), Some((rest, &dnsdyno))),
            [] => (dnsdyno.clone(), None),
        };
        let mut command = Command::new(program);
        if let Some((rest, dnsdyno)) = rest {
            command.args(rest).arg(dnsdyno);
        }
        command.args(["run", "x.toml", "--wait", "--no-store", "--json", "run.json"]);
        command.args(arguments).current_dir(dir.path()).env("HOME", dir.path());
        if !text.contains("[capacity]") {
            // The loops of a capacity have as many names as they need for their own time.
            command.env("DNSDYNO_TEST_TRIAL", "500ms");
        }
        let output = command.output().expect("starts");
        let json = std::fs::read_to_string(dir.path().join("run.json")).ok();
        Ran {
            output,
            run: json.map(|json| shared::whole(serde_json::from_str(&json).expect("JSON"))),
        }
    }

    /// Runs it as this user; `None`, with a notice, where there is no lab, no right or no server.
    fn measured(text: &str, arguments: &[&str]) -> Option<Self> {
        Self::by(&[], text, arguments).unless_refused(&REFUSALS)
    }

    /// The same, also `None` for an ordinary user.
    fn as_root(text: &str, arguments: &[&str]) -> Option<Self> {
        if !is_root() {
            return skip::none("programs of a server need root");
        }
        Self::measured(text, arguments)
    }

    /// Returns it unless it says one of `refusals`, which is told as a notice.
    fn unless_refused(self, refusals: &[&str]) -> Option<Self> {
        let said = self.said();
        if refusals.iter().any(|why| said.contains(why)) {
            return skip::none(said);
        }
        Some(self)
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn cells(&self) -> &[Value] {
        let run = self.run.as_ref().unwrap_or_else(|| panic!("no run: {}", self.said()));
        run["results"].as_array().expect("cells")
    }
}

/// Runs the rest of a command line as an ordinary user.
const ORDINARY: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
];

/// Returns whether this is root, who can become another user.
fn is_root() -> bool {
    let me = std::fs::metadata("/proc/self").expect("this process");
    std::os::unix::fs::MetadataExt::uid(&me) == 0
}

fn trials(cell: &Value) -> &[Value] {
    cell["trials"].as_array().expect("trials")
}

#[test]
fn both_engines_measure_over_every_kind_of_link() {
    let plan = Ran::by(&[], include_str!("../../../docs/examples/links.toml"), &["--dry-run"]);
    let plan = String::from_utf8_lossy(&plan.output.stdout).into_owned() + &plan.said();
    assert!(plan.contains("cells: 18;") || plan.contains("not installed"), "{plan}");
    let Some(ran) = Ran::measured(BOTH, &[]) else { return };
    assert_eq!(ran.cells().len(), 6, "{}", ran.said());
    for cell in ran.cells() {
        for trial in trials(cell) {
            for varied in ["engine", "link"] {
                assert_eq!(trial["conditions"][varied], cell["settings"][varied], "{}", ran.said());
            }
            assert_eq!((&trial["sent"], &trial["valid"]), (&250.into(), &250.into()), "{trial}");
            // A query has a header, the name and its type; its reply an address more.
            assert_eq!(trial["octets"]["queries"], 250 * 48, "{trial}");
            assert_eq!(trial["octets"]["replies"], 250 * 64, "{trial}");
        }
    }
    let table = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    assert!(table.contains("kernel") && table.contains("sockets"), "{table}");
}

#[test]
fn the_certificate_is_of_the_engine_that_measures() {
    for engine in ["kernel", "auto"] {
        let Some(ran) = Ran::measured(SEARCH, &["--engine", engine]) else { return };
        let [cell] = ran.cells() else { panic!("one cell: {}", ran.said()) };
        let certified = &cell["certificate"]["engine"];
        if engine == "kernel" {
            assert_eq!(certified, "kernel", "{}", ran.said());
            // The AuthDNS behind the server is in the kernel too, and the server's queries reach it.
            let answered = |trial: &&Value| trial["valid"].as_u64() > Some(0);
            assert!(trials(cell).iter().any(|trial| answered(&trial)), "{}", ran.said());
        } else {
            assert!(ran.said().contains(&format!("engine {}: ", certified.as_str().expect("one"))));
        }
        for trial in trials(cell) {
            assert_eq!(&trial["conditions"]["engine"], certified, "{}", ran.said());
        }
        for trial in cell["certificate"]["trials"].as_array().expect("trials") {
            assert_eq!(&trial["conditions"]["engine"], certified, "{}", ran.said());
        }
        let choices = &ran.run.as_ref().expect("a run")["choices"];
        assert_eq!(choices["engine"], engine);
    }
}

#[test]
fn an_ordinary_user_falls_back_to_sockets_and_is_told() {
    if !is_root() {
        return skip::because("only root can become another user");
    }
    let ran = Ran::by(&ORDINARY, SEARCH, &["--engine", "kernel"]).unless_refused(&NO_LAB);
    let Some(ran) = ran else { return };
    assert_eq!(ran.output.status.code(), Some(2), "{}", ran.said());
    assert!(ran.said().contains("use `auto` to fall back to sockets"), "{}", ran.said());
    let ran = Ran::by(&ORDINARY, SEARCH, &["--engine", "auto"]);
    assert!(
        ran.said().contains("engine sockets: programs in the kernel need root"),
        "{}",
        ran.said()
    );
    let [cell] = ran.cells() else { panic!("one cell: {}", ran.said()) };
    assert!(cell["notes"][0].as_str().is_some_and(|note| note.starts_with("engine sockets: ")));
    assert!(trials(cell).iter().all(|trial| trial["conditions"]["engine"] == "sockets"));
}

#[test]
fn a_server_with_programs_has_cells_of_its_own_as_root() {
    for user in [&[][..], &ORDINARY] {
        if !user.is_empty() && !is_root() {
            return skip::because("only root can become another user");
        }
        // That programs need root is what the other user is told.
        let refusals = if user.is_empty() { &REFUSALS[..] } else { &NO_LAB };
        let Some(ran) = Ran::by(user, PROGRAMS, &[]).unless_refused(refusals) else { return };
        let mode = |cell: &Value| {
            let server = cell["server"].as_str().expect("a server").to_owned();
            (server, cell["settings"]["mode"].as_str().expect("a mode").to_owned())
        };
        let modes: Vec<(String, String)> = ran.cells().iter().map(mode).collect();
        let all =
            [("dns64d", "sockets"), ("unbound", "sockets"), ("dns64d", "cache"), ("dns64d", "all")];
        let expected = all.map(|(server, mode)| (server.to_owned(), mode.to_owned()));
        if is_root() && user.is_empty() {
            assert_eq!(modes, expected, "{}", ran.said());
        } else {
            // An ordinary user has those of sockets, and is told why.
            assert_eq!(modes, expected[..2], "{}", ran.said());
            assert_eq!(
                ran.said().matches("not measured: programs in the kernel need root").count(),
                2
            );
        }
        for cell in ran.cells() {
            let programs = cell["settings"]["mode"] != "sockets";
            for trial in trials(cell) {
                // A starved Tester may be late; what it sent is answered all the same.
                assert_eq!((&trial["sent"], &trial["lost"]), (&250.into(), &0.into()), "{cell}");
                let link = if programs { "moderated" } else { "plain" };
                assert_eq!(trial["conditions"]["link"], link);
            }
        }
    }
}

#[test]
fn programs_in_the_kernel_have_cpu_time_for_each_answer() {
    let (head, modes) = PROGRAMS.split_once("[load]").expect("a load");
    let (_, modes) = modes.split_once("[[").expect("modes");
    let head = head.replace("method = \"load\"", "method = \"capacity\"").replace(".0/16", ".0/8");
    let head = head.replace("repeats = 1", "repeats = 2");
    let text = format!("{head}[capacity]\nduration = \"500ms\"\n[[{modes}");
    let Some(ran) = Ran::as_root(&text, &["--servers", "dns64d", "--link", "moderated"]) else {
        return;
    };
    assert_eq!(ran.cells().len(), 3, "{}", ran.said());
    for cell in ran.cells() {
        let has_programs = cell["settings"]["mode"] != "sockets";
        let mut hidden = Vec::new();
        for trial in trials(cell) {
            let (dut, valid) = (&trial["cpu"]["dut"], trial["valid"].as_u64().expect("a count"));
            // A rate would find the server slower than it is.
            let closed =
                trial["conditions"]["pacing"].as_str().is_some_and(|p| p.contains("window"));
            let Some(programs) = dut["programs"].as_object() else {
                assert!(!has_programs || !closed, "{trial}");
                continue;
            };
            assert!(has_programs && closed, "{trial}");
            let (runs, ran_s) = (programs["runs"].as_u64(), programs["ran_s"].as_f64());
            assert!(ran_s > Some(0.0) && runs >= Some(valid / 2), "{trial}");
            assert!(programs["counting_s"].as_f64() < Some(0.5), "{trial}");
            // What the kernel did in the time of others on its core was billed to them.
            let others = dut["foreign"].as_f64() > Some(0.03);
            hidden.push(others);
            assert_eq!(dut["spent_s"].is_null(), others, "{dut}");
            assert!(others || dut["spent_s"].as_f64() >= ran_s, "{dut}");
        }
        let seen = cell["capacity"]["seen"].to_string();
        let told = seen.contains("in-kernel");
        assert!(!told || hidden.contains(&true), "{seen}: {}", ran.said());
        // The calmer rounds decide. On a busy machine a server may seem to poll, which hides its CPU time first.
        let all = has_programs && !hidden.contains(&false);
        assert!(told || !all || seen.contains("polls"), "{seen}: {}", ran.said());
    }
}

#[test]
fn programs_of_a_server_need_links_that_run_them_on_its_core() {
    let Some(ran) = Ran::as_root(PROGRAMS, &["--link", "plain", "--servers", "dns64d"]) else {
        return;
    };
    assert_eq!(ran.cells().len(), 1, "{}", ran.said());
    assert!(ran.said().contains("would run on the core of the Tester"), "{}", ran.said());
}

#[test]
fn one_core_bears_a_server_with_programs_and_what_measures_it() {
    let whole = PROGRAMS.replace("moderated", "plain").replace(
        "[workload]",
        "cpus = { tester = [0], auth = [0], dut = [0] }\nhost = { link = \"plain\" }\n\
         tester = { engine = \"kernel\" }\n[workload]",
    );
    let Some(ran) = Ran::as_root(&whole, &["--servers", "dns64d"]) else { return };
    assert!(ran.said().contains("the server needs a core of its own"), "{}", ran.said());
    let [cache, all] = ran.cells() else { panic!("two cells: {}", ran.said()) };
    for cell in [cache, all] {
        assert!(cell["notes"].to_string().contains("a lower bound of the server's"), "{cell}");
        for trial in trials(cell) {
            assert_eq!((&trial["sent"], &trial["lost"]), (&250.into(), &0.into()), "{cell}");
            assert_eq!(trial["conditions"]["link"], "plain");
        }
    }
    let sockets = whole.replace("engine = \"kernel\"", "engine = \"sockets\"");
    let ran = Ran::by(&[], &sockets, &["--servers", "dns64d"]);
    assert_eq!(ran.output.status.code(), Some(2), "{}", ran.said());
    assert!(ran.said().contains("each would take CPU time from the other"), "{}", ran.said());
}

#[test]
fn both_engines_send_the_queries_of_a_zone() {
    let Some(ran) = Ran::measured(LISTED, &["--link", "plain"]) else { return };
    let [sockets, kernel] = ran.cells() else { panic!("two cells: {}", ran.said()) };
    let (sockets, kernel) = (&trials(sockets)[0], &trials(kernel)[0]);
    assert_eq!(kernel["conditions"]["engine"], "kernel", "{}", ran.said());
    for what in ["sent", "valid", "rcodes", "octets"] {
        assert_eq!(kernel[what], sockets[what], "{what}: {}", ran.said());
    }
    assert_eq!(kernel["valid"], 250, "{kernel}");
}

#[test]
fn what_needs_sockets_is_refused_for_the_kernel() {
    let lockstep = SEARCH.replace("method = \"search\"", "method = \"lockstep\"");
    let search = lockstep.find("[search]").expect("a table");
    let ran = Ran::by(&[], &lockstep[..search], &["--engine", "kernel"]);
    assert_eq!(ran.output.status.code(), Some(2), "{}", ran.said());
    assert!(ran.said().contains("the methods search, load, capacity and closed"), "{}", ran.said());
    let plan = Ran::by(&[], &lockstep[..search], &["--engine", "auto", "--dry-run"]);
    let told = String::from_utf8_lossy(&plan.output.stdout).into_owned();
    assert!(plan.output.status.success() && told.contains("engine: auto"), "{told}");
}
