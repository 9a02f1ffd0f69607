#!/usr/bin/env python3
"""Which estimator of a capacity holds on a machine that others use?

    benches/disturbed-rounds.py run DIRECTORY [--seconds N] [--servers LIST] [KIND...]
    benches/disturbed-rounds.py score DIRECTORY...

`run` measures DNS64 servers in rounds, once for each kind of disturbance, and disturbs core 1, the server's, and core 0, the Tester's, in every other block of 12 s (A B B A). `score` holds each
visit of a disturbed block against the quiet visits of the same cell before and after it, draws figures of eight rounds
from them, and prints bias, spread, half-width and coverage of each estimator, of all rounds and of the calmer half.

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
# Figures of eight rounds are drawn from the visits of a cell, if it has as many disturbed ones.
ROUNDS, LEAST, RESAMPLES = 8, 4, 500
ESTIMATORS = ["answers", "answers / what others left", "cores / demand", "cores / demand, full speed"]
# Student's t for 95 %, by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}
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
    """Each visit of a record whose CPU time is known: (cell, start, end, share that others used of a core, estimates)."""
    for cell in json.load(open(path))["results"]:
        loops = {}
        for trial in cell["trials"]:
            if "window" in trial["conditions"].get("options", ""):
                loops.setdefault(trial["repeat"], trial)
        for found in cell["rounds"]:
            loop = loops.get(found["round"])
            if loop is None or not found.get("cpu_us_per_answer") or not found.get("work_ns"):
                continue
            speed = min(1.0, found["full_speed_work_ns"] / found["work_ns"])
            left = max(0.1, 1 - found.get("foreign", 0.0))
            limit = found["cores"] * 1e6 / found["cpu_us_per_answer"]
            estimates = [found["qps"], found["qps"] / left, limit, limit / speed]
            start = loop["conditions"]["started_unix_s"]
            name = cell["server"], json.dumps(cell["settings"], sort_keys=True)
            yield name, start, start + loop["duration_s"], found.get("foreign", 0.0), estimates


def errors_of(path):
    """For each cell the disturbed visits: the share that others used, and the logarithms of estimate / quiet visits beside it."""
    cells = collections.defaultdict(list)
    for name, start, end, others, estimates in visits(path):
        cells[name].append((start, end, others, [math.log(value) for value in estimates]))
    for name, found in cells.items():
        found.sort()
        whole = [visit for visit in found if int(visit[0] / BLOCK) == int(visit[1] / BLOCK)]
        quiet = [visit for visit in whole if not is_disturbed(visit[0])]
        times = [visit[0] for visit in quiet]
        errors = []
        for start, _, others, estimates in whole:
            at = bisect.bisect(times, start)
            if is_disturbed(start) and 0 < at < len(quiet):
                # The truth of an estimator is what it says of the quiet visits.
                truth = map(statistics.mean, zip(quiet[at - 1][3], quiet[at][3]))
                errors.append((others, [value - right for value, right in zip(estimates, truth)]))
        yield name, len(found), errors


def trimmed(values):
    """The mean without a fifth on each side, and half of its 95 % interval (Yuen 1974), as measure::stats::rounds has them."""
    values, cut = sorted(values), int(0.2 * len(values))
    kept = values[cut : len(values) - cut]
    winsorized = [min(max(value, kept[0]), kept[-1]) for value in values]
    squares = statistics.variance(winsorized) * (len(values) - 1)
    return statistics.mean(kept), T[len(kept) - 1] * math.sqrt(squares / (len(kept) * (len(kept) - 1)))


def calmer_half(visits):
    """The visits in which others used no more than in the middle one."""
    middle = max(0.03, statistics.median(others for others, _ in visits))
    return [visit for visit in visits if visit[0] <= middle]


def score(args):
    rng, rows, count = random.Random(1), collections.defaultdict(list), collections.Counter()
    cells = collections.defaultdict(list)
    for path in sorted(p for d in args.directories for p in d.glob("*.json")):
        for _, recorded, errors in errors_of(path):
            count[path.stem, "recorded"] += recorded
            count[path.stem, "disturbed"] += len(errors)
            if len(errors) >= LEAST:
                cells[path.stem].append(errors)
    for kind, found in cells.items():
        for errors in found:
            for _ in range(RESAMPLES):
                drawn = rng.choices(errors, k=ROUNDS)
                for choice, chosen in (("all", drawn), ("calmer half", calmer_half(drawn))):
                    for i, name in enumerate(ESTIMATORS):
                        rows[kind, name, choice].append(trimmed([error[i] for _, error in chosen]))
                other = rng.choices(rng.choice(found), k=ROUNDS)
                ratios = [one[1][-1] - two[1][-1] for one, two in zip(drawn, other)]
                rows[kind, "ratio of two servers by the last", "all"].append(trimmed(ratios))
    for kind in dict.fromkeys(kind for kind, _ in count):
        print(f"\n{kind}: {count[kind, 'recorded']} visits, {count[kind, 'disturbed']} disturbed ones beside quiet ones")
        print(f"{'estimator':<32} {'rounds':<12} {'bias':>7} {'spread':>7} {'interval':>9} {'coverage':>9}")
        for (of, name, choice), found in rows.items():
            if of == kind:
                values = [math.exp(value) - 1 for value, _ in found]
                held = statistics.mean(abs(value) <= half for value, half in found)
                width = statistics.median(half for _, half in found)
                print(
                    f"{name:<32} {choice:<12} {statistics.mean(values):>+7.1%} {statistics.pstdev(values):>7.1%}"
                    f" {width:>9.1%} {held:>9.0%}"
                )


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
