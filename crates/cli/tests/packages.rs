//! Debian packages of both programs: built, installed in a clean root, run, upgraded and removed.
//!
//! They are built of the programs that the tests run, without optimisation and without compression, for speed; all else is as in
//! `make deb`. The clean root has Debian's essential packages, what ours depend on, and man-db; it is made of files of this host.

#[path = "packages/clean_root.rs"]
mod clean_root;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use clean_root::CleanRoot;

use crate::kit::command::text;
use crate::kit::host;

/// Longest time until the service must be ready.
const READY_WITHIN: Duration = Duration::from_secs(120);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the packages into a folder; returns their paths, that of dnsdyno first.
fn build(out: &Path) -> Result<Vec<PathBuf>, String> {
    let programs = cargo_bin("dnsdyno").parent().expect("a folder").to_owned();
    if !programs.join("dns64d").exists() {
        return Err("dns64d is not built: cargo build".to_owned());
    }
    for tool in ["dpkg-deb", "dpkg-shlibdeps", "strip"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("{tool} is not installed (packages dpkg-dev, binutils)"));
        }
    }
    let mut command = Command::new(workspace().join("scripts/build-deb"));
    let built = command.arg(programs).arg(out).env("DEB_COMPRESSION", "none").output();
    let built = built.expect("bash");
    assert!(built.status.success(), "{}", text(&built));
    Ok(String::from_utf8_lossy(&built.stdout).lines().map(PathBuf::from).collect())
}

/// Returns a field of a package.
fn field(package: &Path, name: &str) -> String {
    let output = Command::new("dpkg-deb").arg("--field").arg(package).arg(name).output();
    String::from_utf8_lossy(&output.expect("dpkg").stdout).trim().to_owned()
}

/// A clean root with the packages in its folder `packages`, but not installed.
fn clean_root(packages: &[PathBuf]) -> Result<CleanRoot, String> {
    // Names of what they depend on, without versions.
    let depends: Vec<String> = packages.iter().map(|package| field(package, "Depends")).collect();
    let depends: Vec<&str> = depends
        .iter()
        .flat_map(|all| all.split(','))
        .filter_map(|one| one.split_whitespace().next())
        .collect();
    assert!(depends.contains(&"libc6"), "{depends:?}");
    let root = CleanRoot::new(&[&depends[..], &["man-db", "passwd"]].concat())?;
    fs::create_dir(root.path("packages")).expect("our own folder");
    for package in packages {
        let name = package.file_name().expect("a file").to_string_lossy().into_owned();
        fs::copy(package, root.path("packages").join(name)).expect("copies");
    }
    match root.script("true").output() {
        Ok(output) if output.status.success() => Ok(root),
        Ok(output) => Err(format!("no right to use a root of one's own: {}", text(&output))),
        Err(error) => Err(format!("unshare (util-linux): {error}")),
    }
}

/// Runs a script in the root, which must succeed; returns what it prints.
fn run(root: &CleanRoot, script: &str) -> String {
    let output = root.script(script).output().expect("util-linux");
    assert!(output.status.success(), "{script}: {}", text(&output));
    text(&output)
}

#[test]
fn packages_install_run_upgrade_and_go() {
    let out = tempfile::tempdir().expect("a folder");
    let packages = match build(out.path()) {
        Ok(packages) => packages,
        Err(why) => return skip::because(why),
    };
    let root = match clean_root(&packages) {
        Ok(root) => root,
        Err(why) => return skip::because(why),
    };
    run(&root, "dpkg --install /packages/dnsdyno_*.deb");
    the_demo_needs_nothing_else(&root);
    run(
        &root,
        "dpkg --install /packages/dns64d_*.deb && dpkg --audit && dpkg --verify dnsdyno dns64d",
    );
    documents_are_there(&root);
    load_and_service_run(&root);
    // An upgrade keeps a configuration that was changed.
    let kept = run(
        &root,
        "echo '# mine' >>/etc/dns64d.toml; dpkg --install /packages/dns64d_*.deb >&2; tail -n 1 /etc/dns64d.toml",
    );
    assert!(kept.contains("# mine"), "{kept}");
    run(&root, "dpkg --remove dns64d && test -e /etc/dns64d.toml && dpkg --purge dnsdyno dns64d");
    let left = run(
        &root,
        "find / -xdev -path /packages -prune -o -name '*dns64d*' -print -o -name '*dnsdyno*' -print",
    );
    assert_eq!(left, "", "removed packages leave nothing");
}

/// Ends a demo in its first visit: the AuthDNS is the program itself, also where that is not on PATH, and the page is written nevertheless.
fn the_demo_needs_nothing_else(root: &CleanRoot) {
    let shown = run(
        root,
        "PATH=/nowhere /usr/bin/dnsdyno demo --output /demo >/tmp/demo.log 2>&1 & demo=$!
         until grep -q ' repeat 1' /tmp/demo.log; do kill -0 $demo || { cat /tmp/demo.log; exit 1; }; sleep 0.1; done
         kill -TERM $demo; wait $demo || true
         test -s /demo/demo.json; grep -q '<html' /demo/demo.html; cat /tmp/demo.log; rm -r /demo /tmp/demo.log /root/.local",
    );
    assert!(shown.contains("the AuthDNS of this program is measured"), "{shown}");
}

/// Checks man pages, completions, licences, and the unit.
fn documents_are_there(root: &CleanRoot) {
    for (page, part) in
        [("dnsdyno", "SUBCOMMANDS"), ("dnsdyno-load", "--rate"), ("dns64d", "--config")]
    {
        let shown = run(root, &format!("MANWIDTH=100 man -P cat {page}"));
        assert!(shown.contains("NAME") && shown.contains(part), "{page}: {shown}");
    }
    for (program, word, wanted) in [("dnsdyno", "sea", "search"), ("dns64d", "--ch", "--check")] {
        let complete = format!(
            ". /usr/share/bash-completion/completions/{program}; COMP_WORDS=({program} {word}); COMP_CWORD=1; \
             \"_{program}\" {program} {word} {program}; echo \"${{COMPREPLY[@]}}\""
        );
        let found = run(root, &format!("bash -c '{complete}'"));
        assert!(found.split_whitespace().any(|word| word == wanted), "{program}: {found}");
        let share = "/usr/share";
        run(
            root,
            &format!(
                "grep -q '#compdef {program}' {share}/zsh/vendor-completions/_{program}; \
                 grep -q 'complete -c {program}' {share}/fish/vendor_completions.d/{program}.fish; \
                 grep -q BSD-3-Clause {share}/doc/{program}/copyright; \
                 zcat {share}/doc/{program}/changelog.gz | grep -q Unreleased; \
                 zcat {share}/doc/{program}/libraries.gz | grep '^serde v[0-9.]*: .*MIT'"
            ),
        );
    }
    run(
        root,
        "test -s /usr/share/doc/dnsdyno/schema/run.json; dpkg-query --showformat='${Conffiles}' --show dns64d | grep /etc/dns64d.toml",
    );
    let unit = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(format!("--root={}", root.path("").display()))
        .arg("dns64d.service")
        .output();
    let place = root.path("usr/lib/systemd/system/dns64d.service");
    let security = ["security", "--offline=true", "--no-pager"];
    // One before 250 has no --offline.
    let told = Command::new("systemd-analyze").args(security).arg(place).output();
    if let Ok(told) = told
        && told.status.success()
    {
        let told = text(&told);
        let level =
            told.split_once("dns64d.service: ").and_then(|(_, rest)| rest.split(' ').next());
        let level: f64 =
            level.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{told}"));
        assert!(level < 2.0, "{told}");
    }
    // Without systemd nobody starts the unit either. The root has neither its targets nor kill.
    if let Ok(checked) = unit {
        let told = text(&checked);
        let wrong = |line: &&str| {
            let after = line.split_once("dns64d.service:").map_or("", |(_, after)| after);
            after.starts_with(|c: char| c.is_ascii_digit()) || after.contains("/usr/sbin/dns64d")
        };
        assert_eq!(told.lines().find(wrong), None, "{told}");
    }
}

/// Loads our AuthDNS, then dns64d, which runs as its unit says: the command line, an ordinary user that may bind low ports, and a
/// manager that waits until it is ready.
fn load_and_service_run(root: &CleanRoot) {
    let folder = root.path("manager");
    fs::create_dir(&folder).expect("our own folder");
    let manager = UnixDatagram::bind(folder.join("notify")).expect("a socket");
    fs::set_permissions(folder.join("notify"), PermissionsExt::from_mode(0o777)).expect("our own");
    manager.set_read_timeout(Some(READY_WITHIN)).expect("a socket");
    let script = "
        dnsdyno auth --listen 127.0.0.1:5353 --namespace 193.0.0.0/16 --duration 10m >/tmp/auth &
        auth=$!
        until grep -q 127.0.0.1 /tmp/auth; do kill -0 $auth; sleep 0.1; done
        load() { dnsdyno load \"$@\" --namespace 193.0.0.0/16 --rate 200 --duration 1s || [ $? = 1 ]; }
        load 127.0.0.1:5353 --type A
        unit=/usr/lib/systemd/system/dns64d.service
        grep -qx DynamicUser=yes $unit; grep -qx Type=notify $unit
        capabilities=$(sed -n 's/^AmbientCapabilities=CAP_//p' $unit | tr A-Z a-z)
        install -d -o nobody /run/dns64d /var/lib/dns64d
        export NOTIFY_SOCKET=/manager/notify RUNTIME_DIRECTORY=/run/dns64d STATE_DIRECTORY=/var/lib/dns64d
        setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs --inh-caps=-all,+$capabilities \\
            --ambient-caps=-all,+$capabilities --bounding-set=-all,+$capabilities $(sed -n 's/^ExecStart=//p' $unit) &
        service=$!
        until [ -e /manager/ready ]; do kill -0 $service; sleep 0.1; done
        echo now the service
        load 127.0.0.1:53 --expect-pref64 64:ff9b::/96
        kill -TERM $service
        wait $service
        rm -r /manager /var/lib/dns64d /tmp/auth
        echo it has ended";
    let child = root.script(script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("util-linux");
    let mut message = [0; 4_096];
    let ready = loop {
        match manager.recv(&mut message) {
            Ok(n) if String::from_utf8_lossy(&message[..n]).contains("READY=1") => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    if ready {
        fs::write(folder.join("ready"), "").expect("our own folder");
    } else {
        // It waits for the file; what runs in its namespaces ends with it.
        child.kill().expect("our own child");
    }
    let output = child.wait_with_output().expect("ends");
    let told = text(&output);
    assert!(ready && output.status.success() && told.contains("it has ended"), "{told}");
    let (load, service) = told.split_once("now the service").expect("both");
    for shown in [load, service] {
        let valid = shown.lines().find(|line| line.trim_start().starts_with("valid"));
        let words: Vec<&str> = valid.unwrap_or_default().split_whitespace().collect();
        assert!(words.get(1).is_some_and(|n| *n != "0"), "{told}");
    }
}

#[test]
fn deployments_are_accepted() {
    let folder = workspace().join("packaging/dns64d");
    // The configuration of the manifest for Kubernetes.
    let manifest = fs::read_to_string(folder.join("kubernetes.yaml")).expect("the manifest");
    let (_, rest) = manifest.split_once("  dns64d.toml: |\n").expect("a configuration");
    let lines =
        rest.lines().map_while(|line| line.strip_prefix("    ").or(line.is_empty().then_some("")));
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("dns64d.toml");
    fs::write(&file, lines.map(|line| format!("{line}\n")).collect::<String>()).expect("our own");
    let dns64d = cargo_bin("dnsdyno").with_file_name("dns64d");
    match Command::new(&dns64d).arg("--check").arg("--config").arg(file).output() {
        Ok(checked) => assert!(checked.status.success(), "{}", text(&checked)),
        Err(error) => return skip::because(format!("{}: {error}", dns64d.display())),
    }
    let parser = host::find("apparmor_parser").unwrap_or_else(|| "apparmor_parser".into());
    let mut parser = Command::new(parser);
    parser.args(["--skip-kernel-load", "--skip-cache"]).arg(folder.join("apparmor"));
    match parser.output() {
        Ok(checked) => assert!(checked.status.success(), "{}", text(&checked)),
        Err(error) => skip::because(format!("apparmor_parser (package apparmor): {error}")),
    }
}

/// The lines of the container file, with continued ones joined: instruction and words.
fn instructions() -> Vec<Vec<String>> {
    let text = fs::read_to_string(workspace().join("Containerfile")).expect("the container file");
    let text = text.replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// No builder of images is at hand: what the container file copies, builds and starts is compared with the workspace.
#[test]
fn the_container_file_fits_the_workspace() {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("the workspace");
    let value = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.split('"').next())
            .unwrap_or_else(|| panic!("no {key}"))
            .to_owned()
    };
    let ignored = fs::read_to_string(workspace().join(".containerignore")).expect("a list");
    let (mut stages, mut releases, mut built, mut here) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for words in instructions() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["FROM", image, "AS", stage] => {
                if let Some(tag) = image.strip_prefix("docker.io/library/rust:") {
                    assert!(tag.starts_with(&value("rust-version")), "{image}");
                }
                releases
                    .push(image.rsplit(['-', ':']).find(|part| *part != "slim").map(str::to_owned));
                stages.push(stage.to_owned());
                here.clear();
            }
            ["RUN", "cargo", "build", "--release", "--locked", ref packages @ ..] => {
                built.extend(
                    packages.iter().filter(|word| **word != "-p").map(|word| (*word).to_owned()),
                );
            }
            ["COPY", from, ref paths @ .., to] if from.starts_with("--from=") => {
                assert!(stages.iter().any(|stage| from.ends_with(stage.as_str())), "{from}");
                for path in paths {
                    let program = path.strip_prefix("/src/target/release/").expect("what is built");
                    let package = if program == "dnsdyno" { "cli" } else { program };
                    assert!(built.iter().any(|name| name == package), "{program} of {built:?}");
                    here.push(if to.ends_with('/') {
                        format!("{to}{program}")
                    } else {
                        to.to_owned()
                    });
                }
            }
            ["COPY", ref paths @ .., _] => {
                for path in paths {
                    assert!(workspace().join(path).exists(), "{path} is not there");
                    let is_left_out = |line: &str| path.starts_with(line.trim_start_matches('/'));
                    assert!(
                        *path == "." || !ignored.lines().any(is_left_out),
                        "{path} is left out"
                    );
                }
            }
            ["ENTRYPOINT", program] => {
                let program = program.trim_matches(['[', ']', '"']);
                assert!(
                    here.iter().any(|path| path == program),
                    "{program} is not copied: {here:?}"
                );
            }
            _ => {}
        }
    }
    assert_eq!(stages, ["build", "dns64d", "dnsdyno"]);
    assert_eq!(built, ["cli", "dns64d"]);
    // Programs run with the C library of the release that they were built with.
    assert!(
        releases.iter().all(|release| *release == releases[0] && release.is_some()),
        "{releases:?}"
    );
}
