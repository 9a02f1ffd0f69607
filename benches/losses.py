#!/usr/bin/env python3
"""Tells which event of a long load the queries without a valid answer belong to.

    losses.py RESULT EVENTS

RESULT is the JSON of a load, which counts the queries of each second. Each line of EVENTS is a kind, the time when it began
and when it was over, in seconds of CLOCK_MONOTONIC; an event is blamed for queries that were due from AROUND before it to
AFTER behind it, the first line of a second's kinds by the order of KINDS.
"""

import collections
import json
import sys

KINDS = ["silent upstream", "reload"]
# An event may lose queries that were due up to one timeout before it, or while the backlog after it is sent.
AROUND, AFTER = 1.0, 3.0


def main():
    result = json.load(open(sys.argv[1]))
    started = result["disturbances"]["started_ns"] / 1e9
    events = []
    for line in open(sys.argv[2]):
        *kind, begin, end = line.split()
        events.append((" ".join(kind), float(begin) - started - AROUND, float(end) - started + AFTER))
    seconds, unanswered, worst = (collections.Counter() for _ in range(3))
    for second, counts in enumerate(result["series"]):
        near = {kind for kind, begin, end in events if begin < second + 1 and second < end}
        cause = next((kind for kind in KINDS if kind in near), "no event")
        missing = counts["sent"] - counts["valid"]
        seconds[cause] += 1
        unanswered[cause] += missing
        worst[cause] = max(worst[cause], missing)
    for cause in [*KINDS, "no event"]:
        print(f"  {cause}: {unanswered[cause]} queries without a valid answer in time, in {seconds[cause]} seconds, at most {worst[cause]} in one")


main()
