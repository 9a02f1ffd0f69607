//! `dns64d --check`: certificates, keys, users, rules and folders.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use streams::tls::Authority;

fn check(dir: &Path, config: &str) -> Output {
    let file = dir.join("config.toml");
    fs::write(&file, config).expect("writes");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    command.args(["--check", "--config"]).arg(file).output().expect("it runs")
}

/// Writes a certificate and its key.
fn certify(dir: &Path) {
    let authority = Authority::new().expect("an authority");
    authority.write(dir, &["localhost"]).expect("writes");
}

#[test]
fn what_the_configuration_names_is_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    certify(dir.path());
    fs::write(path("text"), "no PEM").expect("writes");
    fs::write(path("rules"), "a.example nxdomain\nb.example").expect("writes");
    let tls = |certificate: &str, key: &str| {
        let (certificate, key) = (path(certificate), path(key));
        format!(
            "tls.dot = [\"127.0.0.1:853\"]\ntls.certificate = {certificate:?}\ntls.key = {key:?}"
        )
    };
    let upstream =
        format!("upstream.transport = \"tls\"\nupstream.tls-authorities = {:?}", path("text"));
    for (config, says) in [
        (tls("none.pem", "server.key"), vec!["tls.certificate", "none.pem"]),
        (tls("text", "server.key"), vec!["tls.certificate", "no certificate", "PEM"]),
        (tls("server.pem", "text"), vec!["tls.key", "expected a private key"]),
        (upstream, vec!["tls-authorities", "text"]),
        (format!("rules.lists = [{:?}]", path("rules")), vec!["rules.lists", "line 2", "write"]),
        (format!("rules.zones = [{:?}]", path("none")), vec!["rules.zones", "no such file"]),
        ("server.route.device = \"none0\"".into(), vec!["server.route.device", "no network"]),
        ("upstream.route.device = \"none0\"".into(), vec!["upstream.route.device", "no network"]),
        (format!("control.socket = \"/{}\"", "x".repeat(108)), vec!["control.socket", "shorter"]),
        ("server.user = \"nobody-has-this\"".into(), vec!["server.user", "does not exist"]),
        ("server.cpus = [0, 1023]".into(), vec!["server.cpus: write CPUs", "1023"]),
        ("server.listen = [\"192.0.2.9\"]".into(), vec!["server.listen: 192.0.2.9 is not"]),
        ("metrics.listen = \"192.0.2.9:1\"".into(), vec!["metrics.listen: 192.0.2.9 is not"]),
        ("upstream.servers = [\"192.0.2.9:0\"]".into(), vec!["upstream.servers", "a port from 1"]),
    ] {
        let output = check(dir.path(), &config);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{config}: {said}");
        let all = ["config.toml"].into_iter().chain(says);
        all.for_each(|word| assert!(said.contains(word), "{config}: no `{word}` in {said}"));
    }
}

#[test]
fn what_the_user_of_the_server_cannot_use_leads_to_a_warning() {
    let dir = tempfile::tempdir().expect("a folder");
    certify(dir.path());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("our own");
    let key = dir.path().join("server.key");
    let config = |snapshot: &str, user: &str| {
        format!(
            "server.user = \"{user}\"\ncache.snapshot = {:?}\ntls.dot = [\"127.0.0.1:853\"]\n\
             tls.certificate = {:?}\ntls.key = {key:?}",
            dir.path().join(snapshot),
            dir.path().join("server.pem"),
        )
    };
    let warns = |config: &str| {
        let output = check(dir.path(), config);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("no errors found"), "{output:?}");
        said.lines().filter(|line| line.contains("warning")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(warns(&config("cache", "root")), "");
    let warning = warns(&config("none/cache", "root"));
    assert!(warning.contains("cache.snapshot") && warning.contains("does not exist"), "{warning}");
    assert_eq!(warns("server = { listen = [\"192.0.2.9\"], route.freebind = true }"), "");
    let warning = warns("[[dns64]]\nfollow = \"router\"\ninterface = \"none0\"");
    assert!(warning.contains("dns64[0].interface") && warning.contains("none0"), "{warning}");
    let warning = warns(&format!("control.socket = {:?}", dir.path().join("none/control")));
    assert!(warning.contains("control.socket") && warning.contains("does not exist"), "{warning}");
    if !nix::unistd::geteuid().is_root() {
        return skip::because("it is not started as root");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("our own");
    let warning = warns(&config("cache", "nobody"));
    for word in ["tls.key", "the user nobody cannot read", "cache.snapshot", "be written by"] {
        assert!(warning.contains(word), "no `{word}` in {warning}");
    }
    assert!(!warning.contains("tls.certificate"), "{warning}");
}

#[test]
fn the_page_lists_every_setting_that_needs_a_restart() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dns64d.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, list) = page.split_once("Some need a restart").expect("the list");
    let (list, _) = list.split_once(".\n").expect("its end");
    let listed: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, dns64::config::NEED_RESTART);
}

#[test]
fn an_address_is_listened_on_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let (one, other) = ("127.0.0.1:5301", "127.0.0.1:5302");
    for (config, key) in [
        (format!("server.listen = [\"{one}\", \"{one}\"]"), "server.listen"),
        (format!("server.listen = [\"{one}\"]\nmetrics.listen = \"{one}\""), "metrics.listen"),
        (format!("server.listen = [\"{one}\"]\ntls.dot = [\"{one}\"]"), "tls.dot"),
        (format!("tls.doh = [\"{other}\"]\ntls.doq = [\"{other}\"]"), "tls.doq"),
        (format!("server.listen = [\"0.0.0.0:5301\"]\ntls.dot = [\"{one}\"]"), "tls.dot"),
    ] {
        let output = check(dir.path(), &config);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("{key}: 127.0.0.1:530");
        assert!(output.status.code() == Some(2) && said.contains(&expected), "{config}: {said}");
        assert!(said.contains("is taken twice"), "{said}");
    }
    // Sockets for IPv6 are not for IPv4.
    let both = check(dir.path(), "server.listen = [\"0.0.0.0\", \"::\"]");
    assert!(both.status.success(), "{}", String::from_utf8_lossy(&both.stderr));
}

#[test]
fn prefixes_are_usable_and_overlapping_ones_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let block = |prefix: &str| format!("[[dns64]]\nprefix = \"{prefix}\"\n");
    for prefix in ["::/96", "::ffff:0:0/96", "fe80::/96", "ff00::/96"] {
        let output = check(dir.path(), &block(prefix));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("no host can use"), "{said}");
    }
    let both = [block("2001:db8:64::/96"), block("2001:db8::/32")].concat();
    let output = check(dir.path(), &both);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("warning: dns64.prefix: 2001:db8::/32 contains"),
        "{said}"
    );
}
