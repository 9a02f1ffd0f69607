"""Prints the results of benches/beside-dnsperf: a line a cell, the ratios of dnsdyno's rates to the other tool's, and their range."""

import statistics
import sys
from collections import defaultdict


def number(text):
    return float(text) if text not in ("", "-") else 0.0


def truths(rows):
    print(f"{'truth':>8} {'tool':<16} {'median':>10} {'error':>7}  range")
    for (_, rate), tools in rows.items():
        for tool, rates in sorted(tools.items()):
            median, truth = statistics.median(rates), float(rate)
            low, high = ((x / truth - 1) * 100 for x in (min(rates), max(rates)))
            print(f"{rate:>8} {tool:<16} {median:>10,.0f} {(median / truth - 1) * 100:>6.1f}%  {low:.1f} to {high:.1f} %")


def cells(rows):
    head = f"{'server':<8} {'names':<5} {'over':<6} {'q/c':<9}"
    print(f"{head} {'dnsperf':>10} {'dnsdyno':>10} {'ratio':>6}  {'range':<13} beside h2load")
    for key, tools in rows.items():
        ours, theirs = tools.get("dnsperf_ours", []), tools.get("dnsperf_theirs", [])
        if len(key) != 4 or not ours or not theirs:
            continue
        pairs = [a / b for a, b in zip(ours, theirs) if b]
        ratio, span = "-", "-"
        if pairs:
            ratio, span = f"{statistics.median(pairs):.2f}", f"{min(pairs):.2f} to {max(pairs):.2f}"
        beside = [a / b for a, b in zip(ours, tools.get("h2load", [])) if b]
        beside = f"{statistics.median(beside):.2f} ({min(beside):.2f} to {max(beside):.2f})" if beside else ""
        print(f"{key[0]:<8} {key[1]:<5} {key[2]:<6} {key[3]:<9} {statistics.median(theirs):>10,.0f} "
              f"{statistics.median(ours):>10,.0f} {ratio:>6}  {span:<13} {beside}")


rows = defaultdict(lambda: defaultdict(list))
for line in open(sys.argv[1]):
    *key, tool, rate = line.split()
    rows[tuple(key)][tool].append(number(rate))
truths({key: tools for key, tools in rows.items() if key[0] == "truth"}) if any(k[0] == "truth" for k in rows) else cells(rows)
