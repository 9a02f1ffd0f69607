#!/usr/bin/env python3
"""Captures and lines for benches/replay-timing and benches/replay-clients.

    replay-timing.py make CAPTURE QUERIES RATE CLIENTS    queries of so many clients with lognormal gaps
    replay-timing.py control CAPTURE CONTROL SPEED    waits for the same times and notes when they have come
    replay-timing.py compare CAPTURE ARRIVED CONTROL SPEED    times, types and clients of the queries of both
    replay-timing.py steady CAPTURE CLIENTS SECONDS    clients that ask twice, so many seconds apart, each at its own time
    replay-timing.py held RESULT TRANSPORT CLIENTS RESIDENT TAKEN    a line on the clients of a load; memory in KiB
    replay-timing.py each LINES    what one client more costs, from the least and the highest number in those lines
"""

import array
import collections
import gc
import json
import random
import re
import struct
import sys
import time

TYPES = (1, 28, 15, 16, 2, 6, 12, 33, 65)
WEIGHTS = (60, 20, 5, 4, 3, 2, 3, 1, 2)
START = 1_700_000_000_000_000_000  # of a capture, in ns


def begin(capture):
    """Writes the header of a capture of raw IP packets with times in ns."""
    capture.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 101))


def write_query(capture, at, client, number, qtype, port):
    """Writes a query of a client, an IPv4 address, for the name with this number, at a time in ns."""
    name = b"\x0f010-%03d-%03d-%03d" % (number >> 16 & 255, number >> 8 & 255, number & 255)
    name += b"\x09dns64perf\x04test\0"
    message = struct.pack(">6H", number & 0xFFFF, 0x0100, 1, 0, 0, 0) + name + struct.pack(">2H", qtype, 1)
    udp = struct.pack(">4H", port, 53, 8 + len(message), 0) + message
    packet = struct.pack(">2B3H2BHII", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, client, 0xC0000235) + udp
    capture.write(struct.pack("<4I", at // 10**9, at % 10**9, len(packet), len(packet)) + packet)


def make(path, queries, rate, clients):
    random.seed(5)
    at = START
    with open(path, "wb") as capture:
        begin(capture)
        for number in range(queries):
            # The mean of exp(N(mu, 1.5)) is exp(mu + 1.125).
            at += int(random.lognormvariate(-1.125, 1.5) / rate * 1e9)
            client = 0xC6336400 + int(random.paretovariate(0.8) * (clients / 500)) % clients
            qtype = random.choices(TYPES, WEIGHTS)[0]
            write_query(capture, at, client, number, qtype, random.randrange(1024, 65536))


def steady(path, clients, seconds):
    step = seconds * 10**9 // clients
    with open(path, "wb") as capture:
        begin(capture)
        for number in range(2 * clients):
            client = number % clients
            write_query(capture, START + number * step, 0x0A400000 + client, number, 1, 1024 + client % 60_000)


def held(result, transport, clients, resident, taken):
    found = json.load(open(result))
    open_at_once = (found.get("connections") or {}).get("peak", "-")
    void = found["void"] and found["void"]["reason"]
    print(
        f"{transport} {clients} clients: sent {found['sent']}, valid {found['valid']}, lost {found['lost']}, open at once {open_at_once}, "
        f"resident {resident} KiB, kernel and server besides {max(taken - resident, 0)} KiB, void {void}"
    )


def each(lines):
    sizes = collections.defaultdict(list)
    pattern = r"(\w+) (\d+) clients:.*resident (\d+) KiB, kernel and server besides (\d+) KiB"
    for transport, *numbers in re.findall(pattern, open(lines).read()):
        sizes[transport].append(tuple(map(int, numbers)))
    for transport, of in sizes.items():
        (few, *little), (many, *much) = min(of), max(of)
        if few < many:
            own, besides = ((b - a) * 1024 / (many - few) for a, b in zip(little, much))
            print(f"{transport}: {own:,.0f} octets of the Tester for each client, and {besides:,.0f} of the kernel and the server")


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


def control(capture, path, speed):
    times = [query[0] for query in queries(capture)]
    due = [int((at - times[0]) / speed) for at in times]
    came = array.array("q", bytes(8 * len(due)))
    clock = time.perf_counter_ns
    gc.disable()
    start = clock() + 10_000_000
    for number, at in enumerate(due):
        at += start
        now = clock()
        while now < at:
            now = clock()
        came[number] = now
    with open(path, "wb") as out:
        came.tofile(out)


def compare_types(sent, came):
    """What of the queries is equal, but for their times."""
    if len(sent) != len(came):
        print(f"{len(sent)} queries in the capture, {len(came)} arrived")
    types = [collections.Counter(query[3] for query in side) for side in (sent, came)]
    print(f"types: {len(types[0])}, counts {'equal' if types[0] == types[1] else f'differ: {types}'}")
    clients = [collections.Counter(collections.Counter(query[1] for query in side).values()) for side in (sent, came)]
    print(f"clients: {sum(clients[0].values())} -> {sum(clients[1].values())}, queries of each {'equal' if clients[0] == clients[1] else 'differ'}")
    order = sum(a[2] == b[2] for a, b in zip(sent, came))
    print(f"in the capture's order: {order} of {len(sent)}")


def compare_think_times(sent, came, speed):
    """Times between two queries of a client: how far they are from those of the capture."""
    arrived = {(query[2], query[3]): query[0] for query in came}
    last, wanted, found, errors = {}, [], [], []
    for at, client, name, qtype in sent:
        now = arrived.get((name, qtype))
        before = last.get(client)
        last[client] = (at, now)
        if before and now and before[1] and at > before[0]:
            wanted.append((at - before[0]) / speed)
            found.append(now - before[1])
            errors.append(abs(found[-1] - wanted[-1]) / wanted[-1])
    wanted, found, errors = sorted(wanted), sorted(found), sorted(errors)
    print(f"think times of {len(last)} clients, ms   capture    arrived  difference")
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        a, b = quantile(wanted, share), quantile(found, share)
        print(f"  {share * 100:6.1f} %                    {a / 1e6:10.3f} {b / 1e6:10.3f}  {(b - a) / a * 100:+8.3f} %")
    within = sum(error <= 0.01 for error in errors) / max(len(errors), 1)
    print(f"  each of {len(errors)}: off by {quantile(errors, 0.5) * 100:.4f} % (50 %), {quantile(errors, 0.99) * 100:.3f} % (99 %); {within * 100:.2f} % of them within 1 %")


def compare(capture, arrived, control_path, speed):
    sent, came = queries(capture), queries(arrived)
    compare_types(sent, came)
    compare_think_times(sent, came, speed)
    control = array.array("q")
    with open(control_path, "rb") as file:
        control.frombytes(file.read())
    sides = [[query[0] for query in sent], [query[0] for query in came], control]
    gaps = [[b - a for a, b in zip(side, side[1:])] for side in sides]
    gaps[0] = [gap / speed for gap in gaps[0]]
    wanted, arrivals, clock = map(sorted, gaps)
    print("inter-arrival times, us   capture   arrived  difference   clock loop")
    for share in (0.5, 0.9, 0.95, 0.99, 0.999):
        a, b, c = (quantile(side, share) for side in (wanted, arrivals, clock))
        print(f"  {share * 100:6.1f} %            {a / 1e3:9.1f} {b / 1e3:9.1f}  {(b - a) / a * 100:+8.3f} %  {(c - a) / a * 100:+8.3f} %")
    for what, side, times in (("arrived", gaps[1], sides[1]), ("clock loop", gaps[2], sides[2])):
        errors = sorted(abs(a - b) for a, b in zip(gaps[0], side))
        print(f"{what}: gaps off by {quantile(errors, 0.5) / 1e3:.2f} us (50 %), {quantile(errors, 0.99) / 1e3:.2f} us (99 %), {errors[-1] / 1e3:.1f} us (most)")
        for least in (1e4, 1e5, 1e6, 1e7):
            worst = sorted(abs(a - b) / a for a, b in zip(gaps[0], side) if a >= least)
            if len(worst) >= 100:
                within = sum(error <= 0.01 for error in worst) / len(worst)
                print(f"    gaps of {least / 1e3:.0f} us and more: off by {quantile(worst, 0.99) * 100:.3f} % (99 % of {len(worst)}); {within * 100:.2f} % of them within 1 %")
        # The whole may begin a little later; what counts is how far each query is from its place in it.
        offsets = sorted((b - times[0]) - (a - sides[0][0]) / speed for a, b in zip(sides[0], times))
        middle = quantile(offsets, 0.5)
        offsets = sorted(abs(offset - middle) for offset in offsets)
        print(f"    place in time: off by {quantile(offsets, 0.5) / 1e3:.1f} us (50 %), {quantile(offsets, 0.99) / 1e3:.1f} us (99 %)")


def main():
    what, *arguments = sys.argv[1:]
    if what == "make":
        make(arguments[0], int(arguments[1]), float(arguments[2]), int(arguments[3]))
    elif what == "steady":
        steady(arguments[0], int(arguments[1]), int(arguments[2]))
    elif what == "held":
        held(*arguments[:3], *map(int, arguments[3:]))
    elif what == "each":
        each(arguments[0])
    elif what == "control":
        control(arguments[0], arguments[1], float(arguments[2]))
    else:
        compare(*arguments[:3], float(arguments[3]))


if __name__ == "__main__":
    main()
