"""Lines of benches/dns64-kernel.

dns64-kernel.py table RECORD...       the table of some runs
dns64-kernel.py rates RECORD...       a line for each cell with a capacity: server, mode, 80 % of its rate, names
dns64-kernel.py split SOURCES TITLE   `perf script` on the standard input: shares of the time of each core
"""

import collections
import json
import pathlib
import re
import sys


def cells(records):
    """The results with their names and mode, in the order of the table."""
    order = {"sockets": 1, "cache": 2, "all": 3}
    results = [cell for record in records for cell in json.load(open(record))["results"]]
    of = lambda r: (r["settings"]["names"] != "all different", r["server"] != "unbound", order[r["settings"]["mode"]])
    return sorted(results, key=of)


def table(records):
    """Prints the table of the records of some runs."""
    print("| names | server | found, qps | each search | over Unbound | limiter | void trials |\n|---|---|---|---|---|---|---|")
    unbound = {}
    for cell in cells(records):
        names, mode, found = cell["settings"]["names"], cell["settings"]["mode"], cell["median_qps"]
        trials = cell["trials"]
        void = collections.Counter(trial["void"]["reason"] for trial in trials if trial["void"] is not False)
        reasons = f" ({', '.join(f'{reason} {count}' for reason, count in void.most_common())})" if void else ""
        shown = "-" if found is None else (">= " if cell["at_least"] else "") + f"{found:,.0f}"
        if cell["server"] == "unbound":
            unbound[names] = found
            mode = "one thread"
        times = f"{found / unbound[names]:.1f}" if found and unbound.get(names) else "-"
        each = ", ".join(f"{one['qps']:,.0f}" if one.get("qps") else "-" for one in cell["capacities"])
        title = f"{cell['server']} {cell['server_version']}, {mode}"
        void_of_all = f"{void.total()} of {len(trials)}{reasons}"
        print(f"| {names} | {title} | {shown} | {each} | {times} | {cell['limiter'] or '-'} | {void_of_all} |")
    print("", flush=True)


def rates(records):
    """Prints server, mode, 80 % of the rate that was found, and names of each cell that has one."""
    for cell in cells(records):
        if cell["median_qps"]:
            settings = cell["settings"]
            print(cell["server"], settings["mode"], round(cell["median_qps"] * 0.8), settings["names"])


def functions(sources):
    """The program of each function of the BPF sources that is compiled as one; None for those of several."""
    programs = {}
    for source in pathlib.Path(sources).glob("*.bpf.c"):
        text = source.read_text()
        for header in re.findall(r'#include "(\w+\.h)"', text):
            text += (source.parent / header).read_text()
        name = source.name.removesuffix(".bpf.c")
        for function in re.findall(r"^(?:static |__noinline )*(?:struct )?\w+ \**(\w+)\(", text, re.M):
            programs.setdefault(function, set()).add(name)
    return {function: next(iter(of)) if len(of) == 1 else None for function, of in programs.items()}


OWNER = {
    "tester": "programs of the Tester",
    "auth": "program of the AuthDNS",
    "cache": "program of dns64d",
    "resolver": "program of dns64d",
}
KERNEL = [
    (r"idle|halt|mwait", "idle"),
    (r"ktime|clock|tsc", "reading the clock"),
    (r"^_*(htab|array_map|percpu_array|lru|bpf|xdp_do|dev_map|ringbuf)", "maps, helpers and redirects of BPF"),
    (r"veth|napi|net_rx|xdp|page_pool|skb|softirq", "links"),
]


def group(symbol, address, programs):
    """What a sample belongs to."""
    program = re.fullmatch(r"bpf_prog_[0-9a-f]{16}_(\w+)", symbol)
    if program:
        names = [name for name in programs if name.startswith(program[1]) or program[1].startswith(name)]
        owner = programs.get(program[1], programs.get(names[0]) if names else None)
        return OWNER.get(owner, "functions of several programs")
    if address < 1 << 63:
        return "process of the server or of dnsdyno"
    for pattern, name in KERNEL:
        if re.search(pattern, symbol):
            return name
    return "the rest of the kernel"


def split(sources, title):
    """Prints the shares of each core by group."""
    programs, cores = functions(sources), collections.defaultdict(collections.Counter)
    for line in sys.stdin:
        sample = re.search(r"\[(\d+)\]\s+([0-9a-f]+)\s+(\S+)", line)
        if sample:
            cores[int(sample[1])][group(sample[3], int(sample[2], 16), programs)] += 1
    print(title)
    for core, groups in sorted(cores.items()):
        whole = sum(groups.values())
        words = [f"{name} {count / whole:.0%}" for name, count in groups.most_common()]
        print(f"  core {core}: {', '.join(words)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["table", *records]:
            table(records)
        case ["rates", *records]:
            rates(records)
        case ["split", sources, title]:
            split(sources, title)
        case _:
            sys.exit(__doc__)
