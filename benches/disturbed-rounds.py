#!/usr/bin/env python3
"""Which estimator of a capacity holds on a machine that others use?

    benches/disturbed-rounds.py run DIRECTORY [--seconds N] [--servers LIST] [KIND...]
    benches/disturbed-rounds.py score DIRECTORY...

`run` measures DNS64 servers in rounds, once for each kind of disturbance, and disturbs core 1, the server's, and core 0, the Tester's, in every other block of 12 s (A B B A). `score` holds each
visit of a disturbed block against the quiet visits of the same cell before and after it, and prints bias, spread and
coverage of each estimator.

Kinds: quiet; hogs (SCHED_FIFO, period 10 ms, a share of 0 to 40 % of core 1 and 0 to 20 % of core 0, drawn anew each
1 to 4 s); busy (four ordinary processes on both cores); stops (SIGSTOP of 8 ms of the Tester each 0.7 s); slow (a
stream through 64 MiB on core 0). Needs root, and the program in DNSDYNO or target/release.
"""

import argparse
import bisect
import collections
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

BLOCK = 12.0
KINDS = ["quiet", "hogs", "busy", "stops", "slow"]
PERIOD = 0.010
T = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
EXPERIMENT = """
name = "disturbed-rounds"
title = "DNS64 servers on a machine that others use"
role = "dns64"
servers = [{servers}]
method = "capacity"
repeats = 100
budget = "{seconds}s"
capacity = {{ precision = 0.001, loads = false }}
cpus = {{ tester = [0], auth = [0], dut = [1] }}

[workload]
namespace = "0.0.0.0/2"
type = "AAAA"
pref64 = "2001:db8:64::/96"
"""
ROOT = pathlib.Path(__file__).resolve().parent.parent


def is_disturbed(at):
    """Whether the time is in a disturbed block: A B B A from the first second of the clock on."""
    return int(at / BLOCK) % 4 in (1, 2)


def while_disturbed(act):
    """Calls `act`, which lasts some milliseconds, as long as blocks are disturbed, and waits in the others."""
    measuring = os.getppid()
    while os.getppid() == measuring:
        act() if is_disturbed(time.time()) else time.sleep(0.05)
    os._exit(0)


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def hog(core, most):
    """Takes a share of a core by a real-time process."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    drawn = [0.0, 0.0]

    def period():
        if time.monotonic() > drawn[0]:
            drawn[:] = [time.monotonic() + random.uniform(1, 4), random.uniform(0, most)]
        spin(drawn[1] * PERIOD)
        time.sleep((1 - drawn[1]) * PERIOD)

    while_disturbed(period)


def stream():
    """Moves memory through the cache that the cores share."""
    block, other = bytearray(64 << 20), bytearray(64 << 20)

    def once():
        other[:] = block
        time.sleep(0.002)

    while_disturbed(once)


def stop(run):
    """Stops each process of the Tester for 8 ms."""
    pids = subprocess.run(["pgrep", "-f", "dnsdyno.*__"], capture_output=True, text=True).stdout.split()
    for sign in (signal.SIGSTOP, signal.SIGCONT):
        for pid in map(int, pids):
            if pid != run:
                try:
                    os.kill(pid, sign)
                except ProcessLookupError:
                    pass
        time.sleep(0.008 if sign == signal.SIGSTOP else 0.692)


def forked(work, core=None):
    pid = os.fork()
    if pid == 0:
        if core is not None:
            os.sched_setaffinity(0, {core})
        work()
    return pid


def disturbing(kind, run):
    """Starts what disturbs; returns the processes."""
    if kind == "hogs":
        return [forked(lambda: hog(1, 0.4), 1), forked(lambda: hog(0, 0.2), 0)]
    if kind == "busy":
        return [forked(lambda: while_disturbed(lambda: spin(0.01))) for _ in range(4)]
    if kind == "stops":
        return [forked(lambda: while_disturbed(lambda: stop(run)))]
    if kind == "slow":
        return [forked(stream, 0)]
    return []


def measure(args):
    program = os.environ.get("DNSDYNO", str(ROOT / "target/release/dnsdyno"))
    args.directory.mkdir(parents=True, exist_ok=True)
    servers = ", ".join(f'"{name}"' for name in args.servers.split(","))
    file = args.directory / "disturbed-rounds.toml"
    file.write_text(EXPERIMENT.format(servers=servers, seconds=args.seconds))
    for kind in args.kinds or KINDS:
        out = args.directory / f"{kind}.json"
        command = [program, "run", str(file), "--no-store", "--json", str(out)]
        with open(args.directory / f"{kind}.log", "w") as log:
            run = subprocess.Popen(command, stdout=log, stderr=log)
            others = disturbing(kind, run.pid)
            code = run.wait()
            for pid in others:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        print(f"{kind}: exit code {code}, {out}")


def visits(path):
    """Each visit of a record whose CPU time is known: (server, cell, start, estimators)."""
    for cell in json.load(open(path))["results"]:
        loops = {}
        for trial in cell["trials"]:
            if "window" in trial["conditions"].get("options", ""):
                loops.setdefault(trial["repeat"], trial)
        for found in cell["rounds"]:
            loop = loops.get(found["round"])
            if loop is None or not found.get("cpu_us_per_answer") or not found.get("work_ns"):
                continue
            dut, demand = loop["cpu"]["dut"], found["cpu_us_per_answer"]
            speed = min(1.0, found["full_speed_work_ns"] / found["work_ns"])
            others = found.get("foreign", 0.0)
            estimators = {
                "answers a second": found["qps"],
                "answers / what others left": found["qps"] / max(0.1, 1 - others),
                "cores / demand": found["cores"] * 1e6 / demand,
                "cores / demand, full speed": found["cores"] * 1e6 / demand / speed,
                "the same, others below 10 %": found["cores"] * 1e6 / demand / speed if others < 0.1 else None,
            }
            start = loop["conditions"]["started_unix_s"]
            name = cell["server"], json.dumps(cell["settings"], sort_keys=True)
            yield name, start, start + dut.get("duration_s", loop["duration_s"]), estimators


def score(args):
    errors = collections.defaultdict(lambda: collections.defaultdict(list))
    count = collections.Counter()
    for path in sorted(p for d in args.directories for p in d.glob("*.json")):
        cells = collections.defaultdict(list)
        for name, start, end, estimators in visits(path):
            if is_disturbed(start) == is_disturbed(end) and int(start / BLOCK) == int(end / BLOCK):
                cells[name].append((start, is_disturbed(start), estimators))
        for found in cells.values():
            found.sort(key=lambda visit: visit[0])
            quiet = [visit for visit in found if not visit[1]]
            times = [visit[0] for visit in quiet]
            group = collections.defaultdict(list)
            for start, disturbed, estimators in found:
                at = bisect.bisect(times, start)
                if not disturbed or not 0 < at < len(quiet):
                    continue
                count[path.stem] += 1
                for name, value in estimators.items():
                    around = [quiet[i][2][name] for i in (at - 1, at)]
                    if value is not None and None not in around:
                        truth = statistics.mean(map(math.log, around))
                        group[name].append(math.log(value) - truth)
            for name, values in group.items():
                errors[path.stem][name].append(values)
    for kind, by_name in errors.items():
        print(f"\n{kind}: {count[kind]} disturbed visits\n{'estimator':<30} {'bias':>7} {'spread':>7} {'coverage':>9}")
        for name, groups in by_name.items():
            flat = [value for group in groups for value in group]
            held = [covers(group[i : i + 8]) for group in groups for i in range(0, len(group) - 4, 8)]
            share = f"{sum(held)} of {len(held)}" if held else "-"
            print(f"{name:<30} {statistics.mean(flat):>+7.1%} {statistics.pstdev(flat):>7.1%} {share:>9}")


def covers(errors):
    """Whether the 95 % interval of the mean of some visits holds the truth."""
    half = T.get(len(errors) - 1, 2.262) * statistics.stdev(errors) / math.sqrt(len(errors))
    return abs(statistics.mean(errors)) <= half


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run")
    run.add_argument("directory", type=pathlib.Path)
    run.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    run.add_argument("--servers", default="dns64d,unbound,bind9,pdns-recursor,knot-resolver")
    run.add_argument("--seconds", type=int, default=240)
    run.set_defaults(act=measure)
    scored = commands.add_parser("score")
    scored.add_argument("directories", nargs="+", type=pathlib.Path)
    scored.set_defaults(act=score)
    args = parser.parse_args()
    args.act(args)


if __name__ == "__main__":
    sys.exit(main())
