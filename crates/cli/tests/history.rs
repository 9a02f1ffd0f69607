//! Builds of revisions, histories and bisections, on a throw-away repository of a small server in C whose work for each answer is known.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::command::{run_in, text, trials};

/// A repository, a recipe, and an experiment, in a folder that is removed.
struct Ground {
    dir: tempfile::TempDir,
}

const EXPERIMENT: &str = r#"
name = "small"
title = "a small server"
role = "dns64"
servers = []

[workload]
namespace = "10.0.0.0/16"
pref64 = "2001:db8:64::/96"
"#;

/// A method with its tables.
const CAPACITY: [&str; 2] =
    ["method = \"capacity\"\nrepeats = 8\n", "[capacity]\nduration = \"300ms\"\nloads = false\n"];
const LOAD: [&str; 2] = [
    "method = \"load\"\nrepeats = 1\n",
    "[load]\nrates = [\"500\"]\nduration = \"300ms\"\ntimeout = \"200ms\"\n",
];

impl Ground {
    /// Makes commits 0 to `last`; each runs its line of the shell before it. `None` without a C compiler.
    fn new(method: [&str; 2], last: usize, changes: &[(usize, &str)]) -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            return skip::none("no C compiler");
        }
        let dir = tempfile::tempdir().expect("a folder");
        let ground = Ground { dir };
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/truth-server.c");
        std::fs::create_dir(ground.path("repository")).expect("a folder");
        std::fs::copy(server, ground.path("repository/server.c")).expect("the server");
        ground.shell("git init -q . && git config user.name x && git config user.email x@example.com && echo 'cc -O2 -o server server.c' >build");
        for commit in 0..=last {
            let change = changes.iter().find(|(at, _)| *at == commit).map_or("true", |(_, c)| c);
            ground.shell(&format!(
                "{change}; echo '/* {commit} */' >>server.c; git add .; git commit -q -m 'commit {commit}'; git tag v{commit}"
            ));
        }
        let recipe = format!(
            "[build.small]\nsource = \"{}\"\ncommands = [\". ./build\", \"install -D server $PREFIX/server\"]\nprogram = \"server\"\n\
             timeout = \"20s\"\ntags = \"v*\"\n[build.small.custom]\ncommand = \"$PROGRAM {{{{ listen.port }}}} work 20000\"\n",
            ground.path("repository").display()
        );
        std::fs::write(ground.path("builds.toml"), recipe).expect("writes");
        let [method, tables] = method;
        let name = "title = \"a small server\"\n";
        let text = EXPERIMENT.replace(name, &format!("{name}{method}")) + tables;
        std::fs::write(ground.path("small.toml"), text).expect("writes");
        Some(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn shell(&self, line: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(self.path("repository"));
        let done = shell.output().expect("a shell");
        assert!(done.status.success(), "{line}: {}", text(&done));
    }

    /// Returns the command with the recipe and a store and a cache of its own.
    fn dnsdyno(&self, command: &str, words: &[&str]) -> Command {
        let mut dnsdyno = Command::new(cargo_bin("dnsdyno"));
        dnsdyno.arg(command).arg(self.path("small.toml")).args(["--build", "small", "--builds"]);
        dnsdyno.arg(self.path("builds.toml")).arg("--cache").arg(self.path("cache"));
        dnsdyno.args(["--wait", "--plain", "--trust"]).args(words);
        dnsdyno.arg("--json").arg(self.path("out.json"));
        dnsdyno.env("DNSDYNO_STORE", self.path("runs.db"));
        dnsdyno.env("DNSDYNO_TEST_TRIAL", "300ms");
        dnsdyno
    }

    /// Returns the history of some revisions beside the first one, as a server of its own in the folder.
    fn history(&self, revisions: &str) -> Command {
        let fixed = self.path("fixed");
        if !fixed.exists() {
            self.shell("git show v0:server.c >../fixed.c; cc -O2 -o ../fixed ../fixed.c");
        }
        let anchor = format!("fixed={} {{{{ listen.port }}}} work 20000", fixed.display());
        let words = ["--custom", &anchor, "--baseline", "fixed", "--revisions", revisions];
        self.dnsdyno("history", &words)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("out.json")).expect("written"))
            .expect("JSON")
    }

    fn logs(&self) -> String {
        let folders = std::fs::read_dir(self.path("cache")).into_iter().flatten().flatten();
        let logs = folders.filter_map(|one| std::fs::read_to_string(one.path().join("log")).ok());
        logs.collect()
    }
}

/// A small file system at a folder, in a mount namespace that ends with this.
struct SmallDisk {
    holder: Child,
}

impl SmallDisk {
    /// `None` if this user may not mount one.
    fn new(at: &Path, size: &str) -> Option<Self> {
        let script =
            "mount -t tmpfs -o size=$1 tmpfs \"$0\" && echo mounted && exec sleep infinity";
        let mut holder = Command::new("unshare");
        holder.args(["--mount", "sh", "-c", script]).arg(at).arg(size);
        holder.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = holder.spawn().expect("unshare (package util-linux)");
        let (mut line, mut why) = (String::new(), String::new());
        let out = holder.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("reads");
        if line.is_empty() {
            let mut errors = holder.stderr.take().expect("piped");
            errors.read_to_string(&mut why).expect("reads");
            holder.wait().expect("ends");
            return skip::none(why);
        }
        Some(SmallDisk { holder })
    }

    /// Runs a command where the file system is.
    fn run(&self, command: &Command) -> Output {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        inside.arg(command.get_program()).args(command.get_args());
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside.stdin(Stdio::null()).output().expect("nsenter (package util-linux)")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill().and_then(|()| self.holder.wait());
    }
}

/// Returns the servers that a run has measured.
fn measured(run: &Value) -> Vec<String> {
    let cells = run["results"].as_array().expect("cells").iter();
    cells.map(|cell| cell["server"].as_str().expect("a name").to_owned()).collect()
}

/// Returns why a run has not measured a server.
fn gap(run: &Value, server: &str) -> String {
    let skipped = run["skipped"].as_array().expect("gaps").iter();
    let gap = { skipped }.find(|gap| gap["server"] == server).expect(server);
    gap["why"].as_str().expect("words").to_owned()
}

/// Returns whether the test cannot run here, and says why.
fn is_refused(output: &Output) -> bool {
    let told = text(output);
    let refused = told.contains("cannot get its namespaces");
    if refused {
        skip::because(told);
    }
    refused
}

#[test]
fn a_bisection_finds_the_planted_commit() {
    let slower = "sed -i 's/run(n);/run(n * 3);/' server.c";
    let broken = [(2, "echo 'int main(' >>server.c"), (3, "sed -i '/int main($/d' server.c")];
    // The commit in the middle, which is looked at first, cannot be built.
    let Some(ground) = Ground::new(CAPACITY, 4, &[broken[0], broken[1], (4, slower)]) else {
        return;
    };
    let words = ["--good", "v0", "--bad", "v4", "--metric", "cpu"];
    let output = ground.dnsdyno("bisect", &words).output().expect("starts");
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}\n{}", text(&output), ground.logs());
    let found = ground.json();
    assert_eq!(found["verdict"], "found", "{found}");
    assert!(text(&output).contains("commit 4 changed: CPU time"), "{}", text(&output));
    let [low, high] = ["low", "high"].map(|end| found["ratio"][end].as_f64().expect("a ratio"));
    // Three times the steps; the rest of an answer takes time too.
    assert!(low > 1.0 && low < 3.0 && high > 1.1, "{found}");
    assert!(found["repeat"].as_str().is_some_and(|line| line.contains("history")), "{found}");
}

#[test]
fn what_cannot_be_bisected_is_refused() {
    let Some(ground) = Ground::new(CAPACITY, 2, &[]) else { return };
    for (words, why) in [
        (["--good", "v2", "--bad", "v0"].as_slice(), "does not come before"),
        (&["--good", "v0", "--bad", "v2", "--repeats", "3"], "--repeats changes nothing"),
        (&["--good", "v0", "--bad", "v2", "--no-store"], "--no-store changes nothing"),
    ] {
        let output = ground.dnsdyno("bisect", words).output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(why), "{}", text(&output));
    }
}

#[test]
fn a_history_has_gaps_goes_on_and_grows() {
    let outside = tempfile::tempdir().expect("a folder");
    let write = format!("echo 'touch {}/it' >build", outside.path().display());
    let changes = [
        (1, "echo 'sleep 1000' >build"),
        (2, "echo 'echo it is broken; false' >build"),
        (3, &*write),
        (
            4,
            "echo 'cat /proc/net/dev; test $(grep -c : /proc/net/dev) = 1; cc -O2 -o server server.c' >build",
        ),
        (5, "echo 'head -c 30000000 /dev/zero >large; sleep 10; cp large large2' >build"),
        (6, "echo 'cc -O2 -o server server.c' >build"),
    ];
    let Some(ground) = Ground::new(LOAD, 7, &changes) else { return };
    let recipe = std::fs::read_to_string(ground.path("builds.toml")).expect("the recipe");
    let recipe = recipe.replace("timeout = \"20s\"", "timeout = \"15s\"\nmost-mb = 20");
    std::fs::write(ground.path("builds.toml"), recipe).expect("writes");
    let output = ground.history("v0..v6").output().expect("starts");
    if is_refused(&output) {
        return;
    }
    let run = ground.json();
    assert_eq!(
        measured(&run),
        ["fixed", "small@v0", "small@v4", "small@v6"],
        "{}\n{}",
        text(&output),
        ground.logs()
    );
    let why = |server: &str| gap(&run, server);
    assert!(why("small@v1").contains("longer than 15s"), "{}", why("small@v1"));
    assert!(why("small@v2").contains("exit code 1; its output: "), "{}", why("small@v2"));
    assert!(why("small@v3").contains("the build failed"), "{}", why("small@v3"));
    assert!(
        why("small@v5").contains("failed") || why("small@v5").contains("20 MB"),
        "{}",
        why("small@v5")
    );
    assert!(
        ground.logs().contains("it is broken") && ground.logs().contains("Read-only file system")
    );
    assert!(!outside.path().join("it").exists(), "the sandbox wrote outside");
    if run["complete"] != true {
        // On a busy machine repeats are void, and are measured again first.
        return;
    }
    // Nothing is left to do, and a new revision is measured alone.
    let again = ground.history("v0..v6").output().expect("starts");
    assert!(text(&again).contains("every revision is measured"), "{}", text(&again));
    let grown = ground.history("v0..v7").output().expect("starts");
    assert_eq!(measured(&ground.json()), ["fixed", "small@v7"], "{}", text(&grown));
    assert!(gap(&ground.json(), "small@v1").contains("longer than 15s"), "gaps are named again");
}

#[test]
fn a_killed_history_goes_on() {
    // It is killed while it builds, and then while it measures.
    let waits =
        "echo '[ -e $PREFIX/../../../free ] || sleep 1000; cc -O2 -o server server.c' >build";
    let Some(ground) = Ground::new(LOAD, 1, &[(1, waits)]) else { return };
    let first = std::fs::read_to_string(ground.path("small.toml")).expect("the experiment");
    let many = first.replace("repeats = 1", "repeats = 2");
    std::fs::write(ground.path("small.toml"), many).expect("writes");
    let killed_once = |done: &dyn Fn() -> bool| {
        let mut child = ground.history("v0..v1");
        child.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("starts");
        while !done() && child.try_wait().expect("waits").is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        child.kill().expect("kills");
        child.wait_with_output().expect("ends")
    };
    let killed = killed_once(&|| ground.logs().contains("sleep 1000"));
    if is_refused(&killed) {
        return;
    }
    assert_eq!(trials(ground.dir.path()), 0, "{}", text(&killed));
    std::fs::write(ground.path("free"), "").expect("our own folder");
    let killed = killed_once(&|| trials(ground.dir.path()) > 0);
    let before = trials(ground.dir.path());
    assert!((1..6).contains(&before), "{before} trials: {}", text(&killed));
    let mut resumed = ground.history("v0..v1").output().expect("starts");
    // The one that was killed holds its lock until the kernel is done with it.
    while text(&resumed).contains("is in use by another process") {
        std::thread::sleep(Duration::from_millis(50));
        resumed = ground.history("v0..v1").output().expect("starts");
    }
    let run = ground.json();
    assert!(text(&resumed).contains("it is continued first"), "{}", text(&resumed));
    assert_eq!(run["results"].as_array().map(Vec::len), Some(3), "{}", text(&resumed));
    assert!(run["seams"][0]["trials_before"].as_u64() >= Some(before), "{}", run["seams"]);
    let (code, _, told) = run_in(ground.dir.path(), "run --resume 1");
    assert_eq!(code, 2, "{told}");
}

#[test]
fn a_full_disk_loses_nothing() {
    let fill = "head -c 200000000 /dev/zero";
    // The other revision is built by then.
    let once = format!(
        "echo '[ -e $PREFIX/../../../free ] || {{ until [ -e $PREFIX/../../small@v0-*/result ]; do sleep 0.1; done; {fill} >large; }}; \
         cc -O2 -o server server.c' >build"
    );
    let Some(ground) = Ground::new(LOAD, 1, &[(1, &once)]) else { return };
    let recipe = std::fs::read_to_string(ground.path("builds.toml")).expect("the recipe");
    // A server that fills the disk of the store when it starts.
    let command = format!(
        "cd {}; if [ -e fill ]; then {fill} >cache/large; fi; exec $PROGRAM",
        ground.dir.path().display()
    );
    let recipe = recipe.replace("command = \"$PROGRAM", &format!("command = \"{command}"));
    std::fs::write(ground.path("builds.toml"), recipe).expect("writes");
    std::fs::create_dir(ground.path("cache")).expect("a folder");
    let Some(disk) = SmallDisk::new(&ground.path("cache"), "100m") else { return };
    let history = || {
        let mut command = ground.history("v0..v1");
        disk.run(command.env("DNSDYNO_STORE", ground.path("cache/runs.db")))
    };
    // The build of one revision fills the disk: it is a gap, and the other one is measured.
    let output = history();
    if is_refused(&output) {
        return;
    }
    let run = ground.json();
    assert_eq!(measured(&run), ["fixed", "small@v0"], "{}", text(&output));
    assert!(gap(&run, "small@v1").contains("the disk was full"), "{}", text(&output));
    assert!(text(&output).contains("small@v1: not built: the disk is full"), "{}", text(&output));
    if run["complete"] != true {
        // On a busy machine repeats are void, and are measured again first.
        return;
    }
    // It is built once there is space, and what the store has no place for is measured again.
    std::fs::write(ground.path("free"), "").expect("our own folder");
    std::fs::create_dir(ground.path("fill")).expect("our own folder");
    let output = history();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("the disk is full: free some space"), "{}", text(&output));
    std::fs::remove_dir_all(ground.path("fill")).expect("our own folder");
    disk.run(Command::new("rm").arg(ground.path("cache/large")));
    // The run is continued, or made anew where the disk was full before its first trial was kept.
    let output = history();
    let run = ground.json();
    assert_eq!(measured(&run), ["fixed", "small@v1"], "{}", text(&output));
    if run["complete"] == true {
        let output = history();
        assert!(text(&output).contains("every revision is measured"), "{}", text(&output));
    }
}
