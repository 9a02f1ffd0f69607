//! The recipe for CI systems (`action.yml`, `packaging/ci/gitlab.yml`, and `docs/examples/regression` in both): a server that takes longer fails,
//! the same one does not. Each file is run as its runner does: variables from its inputs, then its commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::kit::host;

/// What a runner reads in a file: variables and commands of the shell.
struct Job {
    variables: Vec<(String, String)>,
    commands: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Returns the value of a line `KEY: VALUE` without its quotes.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = line.trim().strip_prefix(key)?.strip_prefix(": ")?;
    Some(value.trim_matches(['\'', '"']))
}

/// Reads the first step of the action; an input that is not given has its default.
fn action(given: &[(&str, &str)]) -> Job {
    let text = fs::read_to_string(root().join("action.yml")).expect("the action");
    let (inputs, steps) = text.split_once("\nruns:").expect("steps");
    let input = |name: &str| {
        let line = inputs.lines().find(|line| line.starts_with(&format!("  {name}: {{")));
        let line = line.unwrap_or_else(|| panic!("no input {name}"));
        let given = given.iter().find(|(of, _)| *of == name).map(|(_, value)| *value);
        let default =
            line.split_once("default: ").map(|(_, rest)| rest.trim_end_matches('}').trim());
        given
            .or(default.map(|text| text.trim_matches('"')))
            .unwrap_or_else(|| panic!("{name} is required"))
            .to_owned()
    };
    let step = steps.split("- shell: ").nth(1).expect("a step");
    let variables = step.lines().filter_map(|line| {
        let (name, of) = line.trim().split_once(": ${{ inputs.")?;
        Some((name.to_owned(), input(of.trim_end_matches(" }}"))))
    });
    let mut variables: Vec<(String, String)> = variables.collect();
    variables.push(("GITHUB_ACTION_PATH".to_owned(), root().display().to_string()));
    let run = step.lines().find_map(|line| value(line, "run")).expect("a command");
    Job { variables, commands: vec![run.to_owned()] }
}

/// Reads the job of GitLab's file; variables of the job that extends it come last.
fn gitlab(given: &[(&str, &str)]) -> Job {
    let text = fs::read_to_string(root().join("packaging/ci/gitlab.yml")).expect("the file");
    let (_, job) = text.split_once("  variables:\n").expect("variables");
    let (variables, rest) = job.split_once("  script:\n").expect("commands");
    let (script, _) = rest.split_once("  after_script:").expect("an end");
    let variables = variables.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("    ")?.split_once(": ")?;
        (!name.starts_with('#')).then(|| (name.to_owned(), value.trim_matches('"').to_owned()))
    });
    let own = given
        .iter()
        .map(|(name, value)| (name.to_uppercase().replace('-', "_"), (*value).to_owned()));
    let commands = script.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let commands = commands.map(|line| line.trim_matches('\'').to_owned()).collect();
    Job { variables: variables.chain(own).collect(), commands }
}

/// Runs a job at a port with AuthDNSs that answer after these times in milliseconds; returns its exit code, what it printed, and its folder.
fn gate(
    job: fn(&[(&str, &str)]) -> Job,
    old: u32,
    new: u32,
    sum: Option<&str>,
) -> (Option<i32>, String, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let program = cargo_bin("dnsdyno").display().to_string();
    // The release file: its program is the one that is tested.
    let script = "mkdir -p r/dnsdyno-0-linux && printf '#!/bin/sh\\nexec %s \"$@\"\\n' \"$0\" >r/dnsdyno-0-linux/dnsdyno && \
        chmod +x r/dnsdyno-0-linux/dnsdyno && tar -C r -cJf dnsdyno.tar.xz dnsdyno-0-linux && sha256sum dnsdyno.tar.xz";
    let made = Command::new("sh").args(["-c", script, &program]).current_dir(dir.path()).output();
    let made = made.expect("sh");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let printed = String::from_utf8_lossy(&made.stdout).into_owned();
    let right = printed.split(' ').next().expect("a sum");
    let server = |delay: u32| {
        format!(
            "{program} auth --listen 127.0.0.1:$PORT --namespace 10.0.0.0/16 --aaaa always --delay {delay}ms"
        )
    };
    let (old, new) = (server(old), server(new));
    let given = [
        ("old", &*old),
        ("new", &new),
        ("fail-if", "answered < -30%"),
        ("duration", "1s"),
        ("archive", "dnsdyno.tar.xz"),
        ("sha256", sum.unwrap_or(right)),
    ];
    let job = job(&given);
    std::os::unix::fs::symlink(root(), dir.path().join("dnsdyno")).expect("our own folder");
    let output = Command::new("bash")
        .args(["-e", "-c", &job.commands.join("\n")])
        .envs(job.variables)
        .env("PORT", host::free_port().to_string())
        .current_dir(dir.path())
        .output()
        .expect("starts");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned(), dir)
}

#[test]
fn the_recipe_fails_on_a_regression_and_on_nothing_else() {
    // The AuthDNSs wait most of the time, so that both run at once. A busy machine makes more rounds, and no other code.
    let cases = [
        (action as fn(&[(&str, &str)]) -> Job, 120, 3, "FAILED (exit 3): ", "**slower**"),
        (gitlab, 40, 0, "PASSED (exit 0): ", "not slower"),
    ];
    std::thread::scope(|scope| {
        for (job, new, wanted, says, verdict) in cases {
            scope.spawn(move || {
                let (code, printed, dir) = gate(job, 40, new, None);
                assert_eq!(code, Some(wanted), "{printed}");
                assert!(printed.contains(says), "{printed}");
                for file in ["old-5.json", "new-5.json", "junit.xml", "comparison.txt"] {
                    assert!(dir.path().join(file).exists(), "{file}: {printed}");
                }
                let summary = fs::read_to_string(dir.path().join("dnsdyno-summary.md"));
                let summary = summary.expect("a summary");
                assert!(summary.contains(verdict) && summary.contains(says), "{summary}");
            });
        }
    });
}

#[test]
fn a_release_file_with_another_sum_is_not_installed() {
    let (code, printed, _dir) = gate(action, 1, 1, Some(&"0".repeat(64)));
    assert!(code == Some(2) && printed.contains("does not have the sum"), "{printed}");
}

/// A folder with `dnsdyno` in `bin`, and files of an earlier job.
fn job_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("bin")).expect("a folder");
    let link = |to: PathBuf, name: &str| {
        std::os::unix::fs::symlink(to, dir.path().join(name)).expect("a link");
    };
    link(cargo_bin("dnsdyno"), "bin/dnsdyno");
    link(root(), "dnsdyno");
    for name in ["comparison.txt", "comparison.json", "junit.xml", "old-9.json", "new-9.json"] {
        fs::write(dir.path().join(name), "earlier").expect("a file");
    }
    dir
}

/// Returns a shell in a folder of a job, whose `dnsdyno` is the tested one.
fn shell(dir: &Path, script: &str) -> Command {
    let mut shell = Command::new("bash");
    let path = std::env::var("PATH").expect("a path");
    shell.args(["-c", script]).current_dir(dir);
    shell.env("PATH", format!("{}:{path}", dir.join("bin").display()));
    shell.env("PORT", host::free_port().to_string());
    shell
        .env("AUTH", "dnsdyno auth --listen 127.0.0.1:$PORT --namespace 10.0.0.0/16 --aaaa always");
    shell
}

#[test]
fn bad_input_and_wrong_answers_end_the_gate_at_once() {
    let run = "dnsdyno/docs/examples/regression";
    let cases = [
        ("RUN", 2, "OLD and NEW are command lines"),
        ("RUN \"$AUTH\"", 2, "OLD and NEW are command lines"),
        ("ROUNDS=x RUN a b", 2, "ROUNDS=x is no number"),
        ("FAIL_IF='new < -3%' RUN a b", 2, "here a figure is answered, valid"),
        ("RUN \"$AUTH\" b --queries none.txt", 2, "cannot read the query file none.txt"),
        ("RUN \"$AUTH\" b --no-such-option", 2, "unexpected argument '--no-such-option'"),
        ("DURATION=soon RUN \"$AUTH\" b", 2, "invalid value 'soon'"),
        ("RUN \"$AUTH\" 'echo no such zone; exit 9'", 1, "NEW (echo no such zone; exit 9): no"),
        (
            "RUN \"$AUTH\" \"$AUTH\" --namespace 10.0.0.0/16 --expect-pref64 2001:db8:9::/96",
            1,
            "OLD (",
        ),
        ("dnsdyno/packaging/ci/gate", 2, "gate: ARCHIVE is not set"),
    ];
    for (line, wanted, says) in cases {
        let dir = job_folder();
        let script = line.replace("RUN", run);
        let output = shell(dir.path(), &script).env("DURATION", "100ms").output();
        let output = output.expect("bash");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(wanted), "{line}: {told}");
        assert!(told.lines().last().is_some_and(|last| last.contains(says)), "{line}: {told}");
        assert!(!told.contains("line "), "an error of the shell: {line}: {told}");
        for earlier in ["comparison.txt", "comparison.json"] {
            assert!(!dir.path().join(earlier).exists(), "{line}: {earlier}");
        }
        if line.contains("RUN") {
            let junit = fs::read_to_string(dir.path().join("junit.xml")).expect("a report");
            let is_an_error = junit.contains("failures=\"0\" errors=\"1\"");
            assert!(is_an_error && junit.contains("<error") && junit.ends_with(">\n"), "{junit}");
        }
    }
    let dir = job_folder();
    let output = shell(dir.path(), &format!("{run} --help")).output().expect("bash");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && help.contains("FAIL_IF") && help.contains("Exit codes"));
}

#[test]
fn a_terminated_gate_leaves_no_process_behind() {
    let dir = job_folder();
    let script = "mkdir b && printf '#!/bin/sh\\nexec %s \"$@\"\\n' $(readlink bin/dnsdyno) >b/dnsdyno && chmod +x b/dnsdyno && \
        tar -cJf a.tar.xz b && ARCHIVE=a.tar.xz SHA256=$(sha256sum a.tar.xz | cut -d' ' -f1) OLD=$AUTH NEW=$AUTH DURATION=60s \
        exec dnsdyno/packaging/ci/gate 2>told";
    let mut gate = shell(dir.path(), script).spawn().expect("bash");
    host::soon("the server", || {
        let told = fs::read_to_string(dir.path().join("server.log")).ok()?;
        told.contains("ready").then_some(())
    });
    host::signal(gate.id(), "TERM");
    assert_eq!(gate.wait().expect("an end").code(), Some(143));
    let own = dir.path().to_path_buf();
    let is_in_folder = |pid: &Path| fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == own);
    host::soon("the end of all processes", || {
        let mut all = fs::read_dir("/proc").expect("proc").flatten().map(|entry| entry.path());
        (!all.any(|pid| is_in_folder(&pid))).then_some(())
    });
    let summary = fs::read_to_string(dir.path().join("dnsdyno-summary.md")).expect("a summary");
    assert!(summary.contains("not measured"), "{summary}");
}

#[test]
fn the_recipe_for_git_bisect_finds_the_commit() {
    let page = fs::read_to_string(root().join("docs/ci.md")).expect("the page");
    let recipe = page.lines().find(|line| line.starts_with("git bisect run ")).expect("the recipe");
    let dir = job_folder();
    fs::write(dir.path().join("q.txt"), "010-000-000-001.dns64perf.test A\n").expect("a file");
    // A build copies the source, a script.
    let script = "exec >told 2>&1; set -e; printf '#!/bin/sh\\ncp source server; chmod +x server\\n' >bin/make; chmod +x bin/make
        mkdir repository && cd repository && git init -q && git config user.email a@b && git config user.name a
        commit() { printf '#!/bin/sh\\nexec dnsdyno auth --listen 127.0.0.1:$2 --namespace 10.0.0.0/16 --delay %sms # %s\\n' $1 $2 >source
            git add source && git commit -qm \"commit $2\"; }
        for n in 1 2; do commit 40 $n; done; for n in 3 4 5; do commit 120 $n; done
        git checkout -q HEAD~4 && make && cp server ../fast-server && git checkout -q -
        git bisect start HEAD HEAD~4
        RECIPE";
    let script = script.replace("RECIPE", recipe);
    let output = shell(dir.path(), &script)
        .env("FAIL_IF", "answered < -40%")
        .env("DURATION", "300ms")
        .output();
    let told = fs::read_to_string(dir.path().join("told")).expect("what it printed");
    assert!(output.expect("bash").status.success(), "{told}");
    let found = told.split_once(" is the first bad commit").expect(&told).1;
    assert!(found.contains("    commit 3"), "{told}");
}
