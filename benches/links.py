"""Prints the table of benches/links from the records of its rounds: links.py DIRECTORY ROUNDS."""

import json
import statistics
import sys


def spread(values, scale=1000, digits=0):
    """The median of `values` with the lowest and the highest, in thousands."""
    if not values:
        return "-"
    median, low, high = (x / scale for x in (statistics.median(values), min(values), max(values)))
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def mean_of(trial, name):
    """The mean of a series of a whole trial; 0 if it has none."""
    probes = trial.get("probes", {})
    columns = dict(zip(probes.get("names", []), probes.get("values", [])))
    samples = [value for value in columns.get(name, []) if value is not None]
    return statistics.mean(samples) if samples else 0.0


def whole(cell):
    """The trials of a cell, each with what they share (docs/store.md)."""
    shared = cell.get("shared", {})
    return [{**trial, **{part: {**shared[part], **trial.get(part, {})} for part in shared}} for trial in cell["trials"]]


def mean(trials, of, unit, digits=0):
    """The mean of a figure of trials, with its unit; a dash if there is no trial."""
    return f"{statistics.mean(of(t) for t in trials):.{digits}f} {unit}" if trials else "-"


def process(trial, role):
    """Share of a core that the processes of a role used, in percent."""
    return mean_of(trial, f"{role}.user") + mean_of(trial, f"{role}.system")


def cpu(trials, role):
    """What a role's processes used of a core, and the software interrupts on its core."""
    interrupts = mean(trials, lambda t: mean_of(t, f"{role}.softirq"), "%")
    return f"{mean(trials, lambda t: process(t, role), '%')}, {interrupts}"


directory, rounds = sys.argv[1], int(sys.argv[2])
cells = {}
for loop in ("open", "closed"):
    for number in range(1, rounds + 1):
        try:
            run = json.load(open(f"{directory}/{loop}-{number}.json"))
        except (OSError, ValueError) as error:
            print(f"round {number}, {loop} loop: no record ({error})", file=sys.stderr)
            continue
        for result in run["results"]:
            key = (f"{result['server']} {result['server_version']}", result["settings"]["link"])
            cell = cells.setdefault(key, {"open": [], "closed": [], "bound": 0, "void": 0, "trials": []})
            valid = [t for t in whole(result) if t["void"] is False]
            cell["void"] += len(result["trials"]) - len(valid)
            if loop == "closed":
                cell["closed"] += [t["valid"] / t["duration_s"] for t in valid if t["duration_s"] > 0]
                cell["trials"] += valid
            elif result["median_qps"] is not None:
                cell["open"].append(result["median_qps"])
                cell["bound"] += bool(result["at_least"])

print(
    "Thousand queries a second: median of the rounds, lowest and highest. CPU, latency and interrupts: of the closed "
    "loops. A process's share contains the software interrupts that ran in the midst of it.\n"
)
print("| server | link | open loop | closed loop | Tester: process, softirq | server: process, softirq | latency p50 | interrupts between cores | void trials |")
print("|---|---|---|---|---|---|---|---|---|")
for (server, link), cell in cells.items():
    trials = cell["trials"]
    bound = ">= " if cell["bound"] else ""
    print(
        f"| {server} | `{link}` | {bound}{spread(cell['open'])} | {spread(cell['closed'])} "
        f"| {cpu(trials, 'tester')} | {cpu(trials, 'dut')} "
        f"| {mean(trials, lambda t: t['latency_us']['p50'] / 1000, 'ms', 2)} "
        f"| {mean(trials, lambda t: mean_of(t, 'system.between-cores'), '/s')} | {cell['void']} |"
    )
