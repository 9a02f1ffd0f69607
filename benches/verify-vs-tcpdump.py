#!/usr/bin/env python3
"""What a capture says of a trial: verify-vs-tcpdump.py CAPTURE TRIAL PORT

Reads a classic pcap file (Ethernet, IPv4), finds the DNS messages to and from PORT
over UDP and TCP, and prints counts, rate and percentiles beside those of the trial's record.
"""

import json
import math
import struct
import sys

import pcap


def packets(path):
    """Time in ns and octets of each IPv4 packet."""
    for at, frame, _ in pcap.frames(path):
        if frame[12:14] == b"\x08\x00":
            length = struct.unpack_from("!H", frame, 16)[0]
            yield at, frame[14 : 14 + length]


def messages(path, port):
    """Time, source port, destination port and octets of each DNS message."""
    streams = {}  # of TCP: next sequence number, octets that are not a whole message yet
    for at, packet in packets(path):
        header = (packet[0] & 15) * 4
        source, destination = struct.unpack_from("!HH", packet, header)
        if port not in (source, destination):
            continue
        if packet[9] == 17:
            yield at, source, destination, packet[header + 8 :]
        elif packet[9] == 6:
            sequence = struct.unpack_from("!I", packet, header + 4)[0]
            payload = packet[header + (packet[header + 12] >> 4) * 4 :]
            key = (source, destination)
            if packet[header + 13] & 2:  # SYN
                streams[key] = (sequence + 1 & 0xFFFFFFFF, b"")
                continue
            expected, waiting = streams.get(key, (sequence, b""))
            if not payload or sequence != expected:
                continue  # nothing, or sent again
            waiting += payload
            while len(waiting) >= 2 and len(waiting) >= 2 + struct.unpack("!H", waiting[:2])[0]:
                end = 2 + struct.unpack("!H", waiting[:2])[0]
                yield at, source, destination, waiting[2:end]
                waiting = waiting[end:]
            streams[key] = (sequence + len(payload) & 0xFFFFFFFF, waiting)


def percentile(times, share):
    """The time at or below which a share of the sorted times lies."""
    return times[max(0, math.ceil(len(times) * share) - 1)] if times else float("nan")


def main():
    path, trial, port = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
    asked, arrivals, replies, latencies = {}, [], 0, []
    for at, source, destination, message in messages(path, port):
        client = destination if source == port else source
        key = (client, message[:2], message[12:].split(b"\0", 1)[0].lower())
        if message[2] & 0x80:
            replies += 1
            if key in asked:
                latencies.append((at - asked.pop(key)) / 1e3)
        else:
            asked[key] = at
            arrivals.append(at)
    arrivals.sort()
    latencies.sort()
    rate = (len(arrivals) - 1) / (arrivals[-1] - arrivals[0]) * 1e9
    received = trial["answered"] + trial["late"] + trial["duplicates"] + trial["unexpected"]
    sent = trial["latency_from_send_us"]
    rows = [
        ("queries", trial["sent"], len(arrivals), "{:,.0f}"),
        ("replies", received, replies, "{:,.0f}"),
        ("rate, qps", trial["offered_qps"], rate, "{:,.1f}"),
        ("p50, us", sent["p50"], percentile(latencies, 0.5), "{:,.1f}"),
        ("p99, us", sent["p99"], percentile(latencies, 0.99), "{:,.1f}"),
    ]
    print(f"{'':<12}{'Tester':>14}{'tcpdump':>14}{'difference':>14}")
    for name, tester, capture, form in rows:
        cells = [form.format(x) for x in (tester, capture, tester - capture)]
        print(f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells))


main()
