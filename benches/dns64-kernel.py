"""Lines of benches/dns64-kernel.

dns64-kernel.py row RECORD RATE SERVER NAMES   a search: a line of the table; the rate that was found goes to the file RATE
dns64-kernel.py split SOURCES TITLE            `perf script` on the standard input: shares of the time of each core
"""

import collections
import json
import pathlib
import re
import sys


def row(record, rate, server, names):
    """Prints a line of the table from the record of a search."""
    try:
        result = json.load(open(record))["results"][0]
    except (OSError, ValueError, LookupError):
        sys.exit(f"{server}, {names}: no record")
    found = result["median_qps"]
    pathlib.Path(rate).write_text(str(found or 0))
    trials = result["trials"]
    void = sum(trial["void"] is not False for trial in trials)
    passed = [t for t in trials if t["passed"] and t["void"] is False]
    best = max(passed, key=lambda t: t["sent"] / t["duration_s"], default=None)
    lost = f"{best['lost']} of {best['sent']}" if best else "-"
    shown = "-" if found is None else (">= " if result["at_least"] else "") + f"{found:,.0f}"
    print(f"| {server} | {names} | {shown} | {lost} | {result['limiter'] or '-'} | {void} of {len(trials)} |", flush=True)


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
        case ["row", record, rate, server, names]:
            row(record, rate, server, names)
        case ["split", sources, title]:
            split(sources, title)
        case _:
            sys.exit(__doc__)
