//! The CPU time of a server on the Tester's host, against what the kernel counts for the server's process.

use record::{Basis, CellRecord, Cpu, Run, Seen};
use wire::Qtype;

use crate::kit::AuthDns;
use crate::kit::command::{load, run};
use crate::kit::host::{free_port, installed};
use crate::kit::serve::{Server, serve};

/// Seconds that a process ran so far in user mode and in the kernel (proc(5), fields 14 and 15).
fn ran_s(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = text.rsplit_once(')').expect("a name");
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

/// Unbound with a name of its own and two threads; `None` where it is not installed.
fn unbound() -> Option<Server> {
    let program = installed("unbound")?;
    let (dir, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let text = format!(
        "server:\n directory: \"{}\"\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         interface: 127.0.0.1\n port: {port}\n num-threads: 2\n do-daemonize: no\n \
         local-zone: \"example.\" redirect\n local-data: \"example. A 192.0.2.1\"\n",
        dir.path().display()
    );
    std::fs::write(dir.path().join("u.conf"), text).expect("writes");
    let command = [&program, "-d", "-c", "u.conf"].map(str::to_owned);
    Some(serve(dir, &command, port, "x.example", Qtype::A))
}

/// Loads a server with a window for a second: what the trial has of its CPU time is the truth.
fn counts_the_truth(pid: u32, target: &str, queries: &str) {
    let before_s = ran_s(pid);
    let trial = load(target, &format!("{queries} --pacing window --window 64 --duration 1s"));
    let truth_s = ran_s(pid) - before_s;
    let dut: Cpu = serde_json::from_value(trial["cpu"]["dut"].clone()).expect("it was counted");
    let found_s = dut.user_s + dut.system_s;
    // Two ticks of the kernel, and the server's last answers.
    assert!((found_s - truth_s).abs() <= 0.02 + 0.05 * truth_s, "{found_s} s, not {truth_s}");
    // The sum of the parts may be a rounding above what they are parts of.
    assert!(dut.spent_s >= Some(found_s - 1e-9) && !dut.cpus.is_empty(), "{dut:?}");
}

#[test]
fn the_time_of_a_local_server_is_what_the_kernel_counts_for_it() {
    let auth = AuthDns::start(&[]);
    counts_the_truth(auth.pid(), auth.plain(), "--type A");
    let Some(server) = unbound() else { return };
    counts_the_truth(server.child.0.id(), &server.address, "--name x.example --type A");
}

/// Searches the capacities of servers by four short rounds.
fn searched(line: &str) -> (Vec<CellRecord>, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("run.json").display().to_string();
    let rounds = "--namespace 10.0.0.0/8 --type A --rounds 4 --duration 200ms";
    let (code, table, told) = run(&format!("search {line} {rounds} --json {json}"));
    let run: Run = record::read(json.as_ref()).expect("a run");
    assert!(code == 0 || code == 1 && !run.complete, "{table}{told}");
    (run.results, table + &told)
}

#[test]
fn a_search_has_the_cpu_time_of_each_local_server_for_an_answer() {
    let servers = [AuthDns::start(&[]), AuthDns::start(&["--delay", "1ms"])];
    let [a, b] = servers.each_ref().map(AuthDns::plain);
    let before_s = servers.each_ref().map(|server| ran_s(server.pid()));
    let (cells, told) = searched(&format!("a={a} b={b}"));
    for ((cell, server), before_s) in cells.iter().zip(servers).zip(before_s) {
        let truth_s = ran_s(server.pid()) - before_s;
        let found = cell.capacity.as_ref().unwrap_or_else(|| panic!("{told}"));
        let of_trials = cell.trials.iter().map(|one| &one.trial.cpu["dut"]);
        let found_s: f64 = of_trials.map(|dut| dut.user_s + dut.system_s).sum();
        assert!(found_s > 0.0 && found_s <= 0.02 + 1.05 * truth_s, "{found_s} s of {truth_s}");
        let answers = server.end();
        let answers = answers.split(" queries").next().and_then(|text| text.rsplit(' ').next());
        let answers: f64 = answers.and_then(|n| n.parse().ok()).expect("a count");
        // Fewer queries at once cost more, so that the mean of all loops is near only.
        let (us, mean_us) = (found.cpu_us_per_answer.expect("known"), truth_s * 1e6 / answers);
        assert!(us < 2.0 * mean_us && us > mean_us / 3.0, "{us} us, {mean_us} in all: {told}");
        // Both may run on any core.
        assert!(found.seen.contains(&Seen::SharedCore) && cell.hidden == [Seen::SharedCore]);
        assert!(!found.seen.contains(&Seen::NoCpu), "{:?}", found.seen);
    }
}

#[test]
fn a_server_on_another_core_has_all_of_its_time() {
    let cores = lab::CpuList::allowed();
    let [first, second, ..] = cores.cpus() else {
        return skip::because("one core only");
    };
    let auth = AuthDns::start(&["--cpus", &second.to_string()]);
    let (cells, told) = searched(&format!("{} --cpus {first}", auth.plain()));
    let [cell] = &cells[..] else { panic!("{told}") };
    assert!(cell.hidden.is_empty(), "{:?}", cell.hidden);
    let found = cell.capacity.as_ref().unwrap_or_else(|| panic!("{told}"));
    assert!(found.cpu_us_per_answer > Some(0.0), "{found:?}");
    for round in &cell.rounds {
        assert!(round.foreign.is_some() && round.cores == Some(1.0), "{round:?}");
    }
    // On a busy machine others may have been the limit.
    let left = |seen: &Seen| matches!(seen, Seen::CpuLeft(_));
    assert!(found.basis != Basis::Plateau || found.seen.iter().any(left), "{found:?}");
}
