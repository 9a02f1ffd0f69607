#!/usr/bin/env python3
"""Captures for benches/replay-timing.

    replay-timing.py make CAPTURE QUERIES RATE        queries of 500 clients with lognormal gaps
    replay-timing.py compare CAPTURE ARRIVED SPEED    times, types and clients of the queries of both
"""

import collections
import random
import struct
import sys

TYPES = (1, 28, 15, 16, 2, 6, 12, 33, 65)
WEIGHTS = (60, 20, 5, 4, 3, 2, 3, 1, 2)


def make(path, queries, rate):
    random.seed(5)
    at = 1_700_000_000_000_000_000
    with open(path, "wb") as capture:
        capture.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 101))
        for number in range(queries):
            # The mean of exp(N(mu, 1.5)) is exp(mu + 1.125).
            at += int(random.lognormvariate(-1.125, 1.5) / rate * 1e9)
            client = 0xC6336400 + int(random.paretovariate(0.8)) % 500
            name = b"\x0f010-%03d-%03d-%03d" % (number >> 16 & 255, number >> 8 & 255, number & 255)
            name += b"\x09dns64perf\x04test\0"
            qtype = random.choices(TYPES, WEIGHTS)[0]
            message = struct.pack(">6H", number & 0xFFFF, 0x0100, 1, 0, 0, 0) + name + struct.pack(">2H", qtype, 1)
            udp = struct.pack(">4H", random.randrange(1024, 65536), 53, 8 + len(message), 0) + message
            packet = struct.pack(">2B3H2BHII", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, client, 0xC0000235) + udp
            capture.write(struct.pack("<4I", at // 10**9, at % 10**9, len(packet), len(packet)) + packet)


def queries(path):
    """Time in ns, client, name and type of each query over UDP and IPv4, in the order of time."""
    with open(path, "rb") as capture:
        head = struct.unpack("<IHHIIII", capture.read(24))
        unit = {0xA1B23C4D: 1, 0xA1B2C3D4: 1000}[head[0]]
        skip = {1: 14, 101: 0, 276: 20, 113: 16}[head[6]]
        found = []
        while len(record := capture.read(16)) == 16:
            seconds, fraction, kept, _ = struct.unpack("<4I", record)
            packet = capture.read(kept)[skip:]
            if packet[0] >> 4 != 4 or packet[9] != 17:
                continue
            start = (packet[0] & 15) * 4 + 8
            message = packet[start:]
            if len(message) < 17 or message[2] & 0x80:
                continue
            end = message.index(0, 12)
            qtype = struct.unpack_from(">H", message, end + 1)[0]
            found.append((seconds * 10**9 + fraction * unit, packet[12:16], message[12:end], qtype))
    return sorted(found, key=lambda query: query[0])


def quantile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def compare(capture, arrived, speed):
    sent, came = queries(capture), queries(arrived)
    if len(sent) != len(came):
        print(f"{len(sent)} queries in the capture, {len(came)} arrived")
    types = [collections.Counter(query[3] for query in side) for side in (sent, came)]
    print(f"types: {len(types[0])}, counts {'equal' if types[0] == types[1] else f'differ: {types}'}")
    clients = [collections.Counter(collections.Counter(query[1] for query in side).values()) for side in (sent, came)]
    print(f"clients: {sum(clients[0].values())} -> {sum(clients[1].values())}, queries of each {'equal' if clients[0] == clients[1] else 'differ'}")
    order = sum(a[2] == b[2] for a, b in zip(sent, came))
    print(f"in the capture's order: {order} of {len(sent)}")
    gaps = [[b[0] - a[0] for a, b in zip(side, side[1:])] for side in (sent, came)]
    gaps[0] = [gap / speed for gap in gaps[0]]
    errors = sorted(abs(a - b) for a, b in zip(*gaps))
    mean = sum(gaps[0]) / len(gaps[0])
    first, second = sorted(gaps[0]), sorted(gaps[1])
    print("inter-arrival times, us   capture   arrived  difference")
    for share in (0.5, 0.9, 0.95, 0.99, 0.999):
        a, b = quantile(first, share), quantile(second, share)
        print(f"  {share * 100:6.1f} %            {a / 1e3:9.1f} {b / 1e3:9.1f}  {(b - a) / a * 100:+8.3f} %")
    print(f"gap by gap, us: mean gap {mean / 1e3:.1f}; off by {quantile(errors, 0.5) / 1e3:.2f} (50 %), "
          f"{quantile(errors, 0.99) / 1e3:.2f} (99 %), {errors[-1] / 1e3:.1f} (most)")
    worst = sorted(abs(a - b) / a for a, b in zip(*gaps) if a >= 1e6)
    if worst:
        print(f"gaps of a millisecond and more: off by {quantile(worst, 0.99) * 100:.3f} % (99 % of {len(worst)})")
    # The whole may begin a little later; what counts is how far each query is from its place in it.
    offsets = sorted((b[0] - came[0][0]) - (a[0] - sent[0][0]) / speed for a, b in zip(sent, came))
    middle = quantile(offsets, 0.5)
    offsets = sorted(abs(offset - middle) for offset in offsets)
    print(f"place in time, us: off by {quantile(offsets, 0.5) / 1e3:.1f} (50 %), {quantile(offsets, 0.99) / 1e3:.1f} (99 %)")


def main():
    what, *arguments = sys.argv[1:]
    if what == "make":
        make(arguments[0], int(arguments[1]), float(arguments[2]))
    else:
        compare(arguments[0], arguments[1], float(arguments[2]))


if __name__ == "__main__":
    main()
