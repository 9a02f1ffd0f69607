#!/usr/bin/env python3
"""How alike arrivals from one Tester and from two are: two-testers.py FOLDER PAIRS BOUND

Reads the captures (one|two)-PAIR-(1|2).pcap and the results beside them. Exits with 1 if a query is missing or came twice, or if
the distributions of the times between arrivals differ by more than BOUND per cent.
"""

import bisect
import json
import sys

import pcap

HEADERS = 14 + 20 + 8  # Ethernet, IPv4 without options, UDP
HEADER = 12  # of the message


class Load:
    """A load: when each of its queries arrived, by name, in ns, and its result."""

    def __init__(self, folder, kind, pair, number):
        base = f"{folder}/{kind}-{pair}-{number}"
        self.label = f"{kind} {pair}.{number}"
        self.result = json.load(open(base + ".json"))
        self.arrivals, self.count = {}, 0
        for at, frame, _ in pcap.frames(base + ".pcap"):
            start = HEADERS + HEADER
            name = frame[start : frame.index(0, start)]
            self.arrivals.setdefault(name, at)
            self.count += 1
        times = sorted(self.arrivals.values())
        self.gaps = sorted((b - a) / 1e3 for a, b in zip(times, times[1:]))

    def is_exact(self):
        """Whether each query that was sent arrived, once."""
        return self.result["sent"] == self.count == len(self.arrivals)


def quantile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def distance(a, b):
    """Largest difference of the distribution functions of two sorted samples."""
    share = lambda of, at: bisect.bisect_right(of, at) / len(of)
    return max((abs(share(a, at) - share(b, at)), at) for at in set(a) | set(b))


def together(loads):
    return sorted(gap for load in loads for gap in load.gaps)


def places(a, b):
    """How far each query of `b` is from its place in `a`, in us, in rising order; all may begin a little later."""
    offsets = sorted((b.arrivals[name] - at) / 1e3 for name, at in a.arrivals.items())
    middle = quantile(offsets, 0.5)
    return sorted(abs(offset - middle) for offset in offsets)


def main():
    folder, pairs, bound = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    loads = {(kind, n): [Load(folder, kind, pair, n) for pair in range(1, pairs + 1)] for kind in ("one", "two") for n in (1, 2)}
    everything = [load for of in loads.values() for load in of]
    failures = []
    for load in everything:
        result = load.result
        void = result["void"] and result["void"]["reason"]
        spread = f"; starts up to {result['merged']['start_spread_us']:.0f} us apart" if load.label.startswith("two") else ""
        parts = ", ".join(f"{part['sent']}" for part in result["merged"]["parts"])
        print(
            f"{load.label}: sent {result['sent']} ({parts}), arrived {load.count}, names {len(load.arrivals)}; "
            f"schedule error p50 {result['schedule_error_us']['p50']:.0f}, p99 {result['schedule_error_us']['p99']:.0f} us; void: {void or 'no'}{spread}"
        )
        if not load.is_exact():
            failures.append(f"{load.label}: not each query arrived once")
    first = everything[0]
    if any(load.arrivals.keys() != first.arrivals.keys() for load in everything):
        print("the queries of the loads are not the same")
        sys.exit(1)
    one, two = (together(loads[kind, 1] + loads[kind, 2]) for kind in ("one", "two"))
    print(f"times between arrivals, us ({len(one)} each)    one Tester  two Testers")
    for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99):
        a, b = quantile(one, share), quantile(two, share)
        print(f"    {share * 100:4.0f} %   {a:9.1f} {b:9.1f}  {(b - a) / a * 100:+7.2f} %")
    floor = 0.0
    for what, kind in (("one Tester", "one"), ("two Testers", "two")):
        most, at = distance(together(loads[kind, 1]), together(loads[kind, 2]))
        floor = max(floor, most * 100)
        print(f"largest difference of the distributions, {what}, first and second loads (floor): {most * 100:.2f} % at {at:.1f} us")
    most, at = distance(one, two)
    print(f"largest difference of the distributions, one Tester and two: {most * 100:.2f} % at {at:.1f} us")
    if most * 100 > bound:
        why = f"; the floor, {floor:.2f} %, is too, so this host is too busy to tell" if floor > bound else ""
        failures.append(f"one Tester and two differ by {most * 100:.2f} %, {bound:g} % are allowed{why}")
    for what, a, b in (("one and one", loads["one", 1][0], loads["one", 2][0]), ("one and two", loads["one", 1][0], loads["two", 1][0])):
        off = places(a, b)
        print(f"place of each query, {what}: off by {quantile(off, 0.5):.1f} us (50 %), {quantile(off, 0.9):.1f} us (90 %), {quantile(off, 0.99):.1f} us (99 %)")
    for failure in failures:
        print(failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
