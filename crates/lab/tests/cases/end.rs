//! How a lab ends: by itself, asked to, or killed.

#[path = "../../../cli/tests/kit/held.rs"]
mod held;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::{Host, Lab, Launch, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::held::Held;
use super::hosts;
use crate::{is_skipped, skipped};

/// Starts a helper case; its first line of output tells that it is up (or skipped). No signal is ignored there, even if
/// the tests run under nohup, which a lab respects.
fn helper(name: &str, mark: &str) -> (Held, String) {
    let mut child = Command::new("env")
        .arg("--default-signal=INT,TERM,HUP")
        .arg(std::env::current_exe().unwrap())
        .args(["case", name])
        .env("LAB_TEST_MARK", mark)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (Held(child), line)
}

/// How many processes of this machine have `mark` in their environment.
fn marked(mark: &str) -> usize {
    let environs = fs::read_dir("/proc").unwrap().flatten().map(|e| e.path().join("environ"));
    environs
        .filter_map(|path| fs::read(path).ok())
        .filter(|bytes| bytes.windows(mark.len()).any(|window| window == mark.as_bytes()))
        .count()
}

/// Inside: a testbed with processes in every host, one of which has a child in a session of its own.
pub(crate) fn hang(lab: &Lab) {
    let (testbed, dir) = hosts::testbed(lab);
    let start = |host: Host, script: &str| {
        let launch = Launch {
            name: host.name(),
            namespace: testbed.namespace(host),
            cpus: testbed.cpus(host),
            dir: dir.path(),
            daemon: false,
            command: ["/bin/sh", "-c", script].iter().map(Into::into).collect(),
            environment: vec![],
        };
        Process::start(&launch).unwrap()
    };
    let mut processes = [
        start(Host::Tester, "trap '' TERM INT HUP; while :; do sleep 1; done"),
        start(Host::Auth, "exec sleep 600"),
        start(Host::Dut, "setsid sh -c 'sleep 600' & wait"),
    ];
    println!("up {}", dir.path().display());
    for _ in 0..600 {
        processes.iter_mut().for_each(|p| p.check().unwrap());
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub(crate) fn sigkill_leaves_nothing() -> u8 {
    let mark = format!("mark-{}", std::process::id());
    let (mut child, line) = helper("helper_hang", &mark);
    if let Some(why) = line.strip_prefix("skipped: ") {
        return skipped(why.trim_end());
    }
    // The outer and the inner process, and the hosts' (the tester's shell starts one now and then).
    until(|| marked(&mark) >= 6, "not all processes are up");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    until(|| marked(&mark) == 0, "processes live on");
    // A killed process cannot clean up its directory.
    let dir = line.trim().strip_prefix("up ").unwrap();
    fs::remove_dir_all(dir).unwrap();
    0
}

/// Waits for what happens soon.
fn until(happened: impl Fn() -> bool, otherwise: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < deadline, "{otherwise}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Inside: waits to be asked to end.
pub(crate) fn wait_for_interrupt(lab: &Lab) {
    println!("up");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !lab.interrupted().load(Ordering::Relaxed) {
        assert!(Instant::now() < deadline, "no signal came");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("asked to end");
}

pub(crate) fn interrupts_reach_the_inside() -> u8 {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut child, line) = helper("helper_wait_for_interrupt", "none");
        if let Some(why) = line.strip_prefix("skipped: ") {
            return skipped(why.trim_end());
        }
        kill(Pid::from_raw(child.0.id() as i32), signal).unwrap();
        let mut rest = String::new();
        child.0.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(0));
        assert_eq!(rest, "asked to end\n");
    }
    0
}

pub(crate) fn exit_codes_come_out() -> u8 {
    let status = Command::new("/proc/self/exe").args(["case", "helper_exit_42"]).status().unwrap();
    match status.code() {
        Some(42) => 0,
        code if is_skipped(code) => skipped("the lab is not entered here"),
        other => panic!("exit code {other:?}"),
    }
}
