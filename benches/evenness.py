#!/usr/bin/env python3
"""How even the packets of a capture are: evenness.py CAPTURE TOOL RATE DROPPED

Reads a classic pcap file (micro- or nanoseconds, Ethernet) and counts the queries of each 10 ms from the first one
on. A packet that segmentation offload left whole counts as the datagrams it will become.
"""

import collections
import sys

import pcap

INTERVAL_NS = 10_000_000
HEADERS = 14 + 20 + 8  # Ethernet, IPv4 without options, UDP
QUERY = 48  # header 12, name 32, type and class 4: the names of the namespace are all as long


def times(path):
    """The arrival of each query, ns."""
    for at, _, length in pcap.frames(path):
        for _ in range(max(1, round((length - HEADERS) / QUERY))):
            yield at


def main():
    path, tool, rate, dropped = sys.argv[1:]
    rate = float(rate)
    arrivals = sorted(times(path))
    if len(arrivals) < rate * 0.1:
        print(f"{tool:<10} only {len(arrivals)} queries were captured: did it run?")
        return
    first, span = arrivals[0], arrivals[-1] - arrivals[0]
    counts = collections.Counter((at - first) // INTERVAL_NS for at in arrivals)
    whole = [counts[i] for i in range(span // INTERVAL_NS)]  # not the last, partial one
    due = rate * INTERVAL_NS / 1e9
    even = sum(abs(count - due) <= due / 100 for count in whole) / len(whole)
    average = (len(arrivals) - 1) / span * 1e9
    print(
        f"{tool:<10} {len(arrivals):>9} queries, {average:>10.1f} qps ({average / rate - 1:+.4%}); "
        f"10 ms intervals within 1 % of even: {even:.2%} (fewest {min(whole)}, most {max(whole)}, due {due:.0f}); "
        f"capture dropped {dropped or '?'}"
    )


main()
