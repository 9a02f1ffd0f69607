"""Draws sets of options, runs them, and compares dnsdyno's figures with the servers' own counts (benches/server-counts)."""

import json
import random
import re
import subprocess
import sys

dnsdyno, work, seed, first, sets = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
PORTS = {
    "unbound": {"udp": 5301, "tcp": 5301, "tls": 8531, "https": 4431},
    "bind": {"udp": 5302, "tcp": 5302, "tls": 8532, "https": 4432},
    "nsd": {"udp": 5303, "tcp": 5303, "tls": 8533},
}
TOLERANCE = 0.01  # of a rate


def told(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def in_dut(*words):
    return told("ip", "netns", "exec", "d", *words)


def counts(server):
    """Queries, answers and return codes that the server has counted so far."""
    codes = {}
    if server == "bind":
        url = "http://10.9.0.2:8053/json/v1/server"
        program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
        stats = json.loads(in_dut("python3", "-c", program, url))
        queries, answers = stats["opcodes"]["QUERY"], sum(stats["rcodes"].values())
        codes = {name: n for name, n in stats["rcodes"].items() if n}
        return queries, answers, codes
    if server == "unbound":
        text = in_dut("unbound-control", "-c", f"{work}/unbound.conf", "stats_noreset")
        prefix, total = "num.answer.rcode.", "total.num.queries"
    else:
        text = in_dut("nsd-control", "-c", f"{work}/nsd.conf", "stats_noreset")
        prefix, total = "num.rcode.", "num.queries"
    values = dict(line.split("=") for line in text.split() if "=" in line)
    for name, value in values.items():
        if name.startswith(prefix) and float(value):
            codes[name.removeprefix(prefix)] = int(value)
    codes.pop("nodata", None)
    return int(values[total]), sum(codes.values()), codes


def since(before, now):
    codes = {name: n - before[2].get(name, 0) for name, n in now[2].items()}
    return now[0] - before[0], now[1] - before[1], {name: n for name, n in codes.items() if n}


def tester(*words):
    command = ["ip", "netns", "exec", "t", "taskset", "-c", "0", dnsdyno, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr


def of_trials(trials):
    """Sent, answered (late and doubled replies too), return codes of those in time, and the trial's own rate with its time."""
    total = [0, 0, {}, 0]
    for trial in trials:
        total[0] += trial["sent"]
        # A closed loop gives up the place of a slow query early; one that was answered in time nevertheless is late as well.
        beyond = min(trial["late"], trial["lost"]) + trial["duplicates"]
        total[1] += trial["answered"] + beyond
        total[3] += beyond
        for name, n in trial["rcodes"].items():
            total[2][name] = total[2].get(name, 0) + n
    return total


def draw(rng):
    """One set of options: what is run, against which server, how, and what is said of it."""
    server = rng.choice(list(PORTS))
    transport = rng.choice(list(PORTS[server]))
    tool = rng.choice(["load"] * 5 + ["search"] * 2 + ["dnsperf"] * 3 + ["resperf", "kxdpgun"])
    if tool == "kxdpgun":
        transport = "udp"
    if tool in ("dnsperf", "resperf") and transport == "https":
        transport = "tls"
    clients, port = rng.choice([1, 2, 7, 20]), PORTS[server][transport]
    queries = f"{work}/{rng.choice(['queries', 'mixed'])}"
    rate, seconds = rng.choice([100, 333, 1000, 3000]), rng.choice([1, 1.5, 2])
    over = ["--transport", transport]
    if transport != "udp":
        over += ["--clients", clients]
        if rng.random() < 0.4:
            over += ["--queries-per-connection", rng.choice([1, 5, 50])]
        if transport == "tls" and rng.random() < 0.4:
            over += ["--tls-resume"]
    elif rng.random() < 0.3:
        over += ["--gso", "off"]
    if tool == "load":
        pacing = rng.choice(["constant", "poisson", "ramp", "window"])
        how = {
            "constant": ["--rate", rate],
            "poisson": ["--pacing", "poisson", "--rate", rate],
            "ramp": ["--pacing", f"ramp {rate // 10}..{rate}"],
            "window": ["--pacing", "window", "--window", rng.choice([1, 3, 20, 100])],
        }[pacing]
        # A closed loop over connections that it opens again and again would use up the ports.
        words = ["load", f"10.9.0.2:{port}", "--no-check", "--queries", queries, *how, *over, "--duration", f"{seconds}s", "--timeout", "2s", "--json", f"{work}/out.json"]
    elif tool == "search":
        words = ["search", f"10.9.0.2:{port}", "--no-check", "--queries", queries, *over, "--goal", "loss < 1%", "--start", rate, "--min", rate // 2, "--max", 2 * rate, "--repeats", 1, "--duration", "500ms", "--timeout", "1s", "--resolution", "0.2", "--json", f"{work}/out.json"]
    elif tool == "dnsperf":
        mode = {"tls": "dot"}.get(transport, transport)
        words = ["dnsperf", "-s", "10.9.0.2", "-p", port, "-d", queries, "-m", mode, "-l", seconds, "-c", clients, "-q", rng.choice([1, 10, 100])]
        words += ["-Q", rate] if rng.random() < 0.5 else []
    elif tool == "resperf":
        mode = {"tls": "dot"}.get(transport, transport)
        words = ["resperf", "-s", "10.9.0.2", "-p", port, "-d", queries, "-M", mode, "-m", 2 * rate, "-r", 2, "-c", 1, "-P", f"{work}/plot"]
    else:
        words = ["kxdpgun", "10.9.0.2", "-p", port, "-i", queries, "-Q", rate, "-t", seconds]
    return server, tool, words


def said(tool, text):
    """What dnsdyno says: sent, answered, return codes in time, late replies, and for one trial rate and time of it."""
    if tool in ("load", "search"):
        record = json.load(open(f"{work}/out.json"))
        cells = record.get("results")
        trials = [trial for cell in cells for trial in cell["trials"]] if cells is not None else [record]
        rates = [(t["answered_qps"], t["answered"], t["duration_s"]) for t in trials]
        return [*of_trials(trials), rates]
    number = lambda pattern: int(re.search(pattern, text).group(1).replace(",", ""))
    if tool == "dnsperf":
        codes = re.search(r"Response codes:\s+(.*)", text).group(1)
        codes = {name: int(n) for name, n in re.findall(r"([A-Z0-9]+) (\d+)", codes)}
        return [number(r"Queries sent:\s+(\d+)"), number(r"Queries completed:\s+(\d+)"), codes, 0, []]
    if tool == "resperf":
        codes = re.search(r"Response codes:\s+(.*)", text)
        codes = {name: int(n) for name, n in re.findall(r"([A-Z0-9]+) (\d+)", codes.group(1))} if codes else None
        return [number(r"Queries sent:\s+(\d+)"), number(r"Queries completed:\s+(\d+)"), codes, 0, []]
    codes = {name: int(n) for name, n in re.findall(r"responded ([A-Z]+):\s+(\d+)", text)}
    return [number(r"total queries:\s+([\d,]+)"), number(r"total replies:\s+([\d,]+)"), codes, 0, []]


wrong = 0
for index in range(first, first + sets):
    # Each set has its own seed: one can be drawn again alone.
    server, tool, words = draw(random.Random(f"{seed}.{index}"))
    before = counts(server)
    text = tester(*words)
    queries, answers, codes = since(before, counts(server))
    line = " ".join(map(str, words)).replace(work, "")
    try:
        sent, answered, own_codes, late, rates = said(tool, text)
    except (AttributeError, OSError, ValueError, KeyError) as error:
        wrong += 1
        print(f"{index:>3} {server:<8} NOT READ ({error!r}): {line}\n{text[-600:]}")
        continue
    problems = []
    if sent != queries:
        problems.append(f"sent {sent}, the server got {queries}")
    if answered != answers:
        problems.append(f"answered {answered}, the server answered {answers}")
    if own_codes is not None and late == 0 and own_codes != codes:
        problems.append(f"return codes {own_codes}, the server's {codes}")
    for rate, count, duration in rates:
        if abs(rate * duration - count) > max(1, TOLERANCE * count):
            problems.append(f"rate {rate:.1f} for {duration:.3f} s, {count} answers")
    wrong += bool(problems)
    print(f"{index:>3} {server:<8} {queries:>7} queries {answers:>7} answers  {'equal' if not problems else '; '.join(problems)}: {line}", flush=True)
print(f"{sets - wrong} of {sets} sets are equal")
sys.exit(wrong > 0)
