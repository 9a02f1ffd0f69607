#!/usr/bin/env python3
"""The clients and the comparison of benches/trace-vs-tshark.

    trace-vs-tshark.py segments SERVER     messages over TCP in pieces of every size, and several in one
    trace-vs-tshark.py long SERVER         datagrams of up to 60,000 octets
    trace-vs-tshark.py malformed SERVER    queries with octets changed, cut off and added
    trace-vs-tshark.py compare DNSDYNO CAPTURE
"""

import collections
import json
import random
import socket
import struct
import subprocess
import sys
import time

TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 35: "NAPTR",
         41: "OPT", 65: "HTTPS", 102: "GID", 104: "NID", 128: "NXNAME", 251: "IXFR", 252: "AXFR", 255: "ANY", 257: "CAA"}
CLASSES = {1: "IN", 3: "CH", 4: "HS", 254: "NONE", 255: "ANY"}
RCODES = {"NOERROR": 0, "FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5, "YXDOMAIN": 6,
          "YXRRSET": 7, "NXRRSET": 8, "NOTAUTH": 9, "NOTZONE": 10, "BADVERS": 16}
OPCODES = {"QUERY": 0, "IQUERY": 1, "STATUS": 2, "NOTIFY": 4, "UPDATE": 5, "DSO": 6}


def query(number, qtype=1, name=b"\3www\7example\0"):
    """A query with EDNS."""
    opt = b"\0\0\x29\x10\0\0\0\0\0\0\0"
    return struct.pack(">6H", number & 0xFFFF, 0x0100, 1, 0, 0, 1) + name + struct.pack(">2H", qtype, 1) + opt


def framed(message):
    return struct.pack(">H", len(message)) + message


def family(server):
    return socket.AF_INET6 if ":" in server else socket.AF_INET


def segments(server):
    for size in (1, 2, 3, 7, 40, 41, 43, 1000):
        with socket.create_connection((server, 53)) as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.settimeout(1)
            whole = b"".join(framed(query(number, qtype)) for number, qtype in enumerate((1, 28, 16, 1, 15)))
            for at in range(0, len(whole), size):
                stream.sendall(whole[at : at + size])
                time.sleep(0.001)
            try:
                while stream.recv(65536):
                    pass
            except TimeoutError:
                pass


def long(server):
    with socket.socket(family(server), socket.SOCK_DGRAM) as sender:
        for number, size in enumerate((1480, 3000, 9000, 33000, 60000)):
            sender.sendto(query(number).ljust(size, b"\0"), (server, 53))
            time.sleep(0.01)


def malformed(server):
    random.seed(server)
    with socket.socket(family(server), socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for number in range(400):
            message = bytearray(query(number, random.choice((1, 28, 15, 16, 255))))
            kind = number % 4
            if kind == 0:
                for _ in range(random.randint(1, 4)):
                    message[random.randrange(2, len(message))] = random.randrange(256)
            elif kind == 1:
                del message[random.randrange(4, len(message)) :]
            elif kind == 2:
                message += random.randbytes(random.randint(1, 30))
            else:
                # Counts of records that do not exist.
                struct.pack_into(">H", message, 4 + 2 * random.randrange(4), random.choice((0, 2, 9, 0xFFFF)))
            sender.sendto(message, (server, 53))
            time.sleep(0.001)
            try:
                while sender.recv(65536):
                    pass
            except BlockingIOError:
                pass


def tshark(capture, display, *fields):
    """The fields of each frame that passes the filter, each a list."""
    command = ["tshark", "-n", "-r", capture, "-Y", display, "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"]
    for field in fields:
        command += ["-e", field]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        yield [value.split(",") if value else [] for value in line.split("\t")]


def number(text):
    return int(text, 0)


def theirs(capture):
    """What tshark counts."""
    counts = collections.Counter()
    types = collections.Counter()
    clients = set()
    counts["packets"] = sum(1 for _ in tshark(capture, "frame", "frame.number"))
    counts["fragments"] = sum(
        1 for _ in tshark(capture, "ip.flags.mf == 1 || ip.frag_offset > 0 || ipv6.fraghdr", "frame.number"))
    counts["TCP packets"] = sum(1 for _ in tshark(capture, "tcp.port == 53", "frame.number"))
    counts["TCP sessions"] = len({frame[0][0] for frame in tshark(capture, "tcp.port == 53", "tcp.stream")})
    ports = "(udp.port == 53 || tcp.port == 53) && dns && !icmp && !icmpv6"
    fields = ("dns.flags.response", "dns.flags.opcode", "dns.flags.rcode", "dns.count.queries", "dns.qry.type",
              "dns.qry.class", "udp.length", "dns.length", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst",
              "dns.flags.authoritative", "dns.flags.truncated", "dns.flags.recdesired", "dns.qry.name")
    for frame in tshark(capture, ports, *fields):
        responses, opcodes, rcodes, asked, qtypes, qclasses, udp, tcp, src4, dst4, src6, dst6, aa, tc, rd, names = frame
        lengths = [number(udp[0]) - 8] if udp else [number(length) for length in tcp]
        if udp and lengths[0] < 12:
            counts["headless"] += 1
            continue
        rcodes, asked = iter(rcodes), iter(asked)
        questions = iter(zip(qtypes, qclasses))
        aa, tc, rd = iter(aa), iter(tc), iter(rd)
        for response, opcode, length in zip(responses, map(number, opcodes), lengths, strict=True):
            back = response in ("1", "True")
            way = "replies" if back else "queries"
            counts[way] += 1
            counts[f"{way} TCP"] += not udp
            counts[f"{way} IPv6"] += not src4
            counts[f"{way} octets"] += length
            clients.add(((dst4 or dst6) if back else (src4 or src6))[0])
            if back:
                counts[f"rcode {number(next(rcodes))}"] += 1
                counts["AA"] += number_of(next(aa, "0"))
            if not back:
                counts[f"opcode {opcode}"] += 1
            counts["TC" if back else "TC of queries"] += number_of(next(tc, "0"))
            counts["RD of replies" if back else "RD"] += number_of(next(rd, "0"))
            count = number(next(asked, "0")) if opcode != 5 else 1
            # What cannot be read is not there.
            mine = [question for question in (next(questions, None) for _ in range(count if not udp else 1)) if question]
            # A label of a reserved kind (RFC 1035 section 4.1.4) has no known length; tshark
            # continues after its first octet, and reads the next ones as a type.
            if udp and names and names[0].startswith("<Unknown extended label>"):
                mine = []
            if opcode == 0 and count:
                qtype, qclass = map(number, mine[0]) if mine else (None, None)
                types[(qclass, qtype, way)] += 1
            elif opcode == 0:
                types[(None, None, way)] += 1
    counts["clients asking"] = len(clients)
    return counts, types


def number_of(flag):
    return int(flag in ("1", "True"))


def ours(dnsdyno, capture):
    """What `trace stats` counts, in the same words."""
    out = subprocess.run([dnsdyno, "trace", "stats", capture, "--json", "-"], check=True, capture_output=True)
    stats = json.loads(out.stdout)
    counts = collections.Counter()
    packets = stats["packets"]
    counts["packets"] = packets["packets"]
    counts["fragments"] = packets["fragments"]
    counts["TCP packets"] = packets["tcp"]
    counts["TCP sessions"] = packets["tcp_sessions"]
    counts["headless"] = packets["messages_headless"]
    for way in ("queries", "replies"):
        side = stats[way]
        counts[way] = side["messages"]
        counts[f"{way} TCP"] = side["tcp"]
        counts[f"{way} IPv6"] = side["ipv6"]
        counts[f"{way} octets"] = round(side["size_mean"] * side["messages"])
    for code in stats["return_codes"]:
        name = code["name"]
        value = RCODES[name] if name in RCODES else int(name.removeprefix("RCODE"))
        counts[f"rcode {value & 15}"] += code["count"]
    counts["opcode 0"] = stats["query_requests"]
    for code in stats["opcodes"]:
        name = code["name"].removeprefix("opcode ")
        counts[f"opcode {OPCODES[name] if name in OPCODES else int(name)}"] += code["count"]
    counts["RD"] = stats["recursion_desired"]
    counts["TC"] = stats["truncated"]
    counts["AA"] = stats["authoritative"]
    types = collections.Counter()
    for row in stats["types"]:
        for way in ("queries", "replies"):
            if row[way]:
                types[(row["class"] or None, row["name"] or None, way)] += row[way]
    return counts, types, packets


def named(types):
    """The types by the names that ours has."""
    out = collections.Counter()
    for (qclass, qtype, way), count in types.items():
        qclass = qclass if qclass is None else CLASSES.get(qclass, f"CLASS{qclass}")
        qtype = qtype if qtype is None else qtype
        out[(qclass, qtype, way)] += count
    return out


def type_number(name):
    """The number of a type that ours names."""
    if name is None:
        return None
    known = {value: key for key, value in TYPES.items()}
    if name in known:
        return known[name]
    if name.startswith("TYPE"):
        return int(name[4:])
    return name


def compare(dnsdyno, capture):
    mine, my_types, packets = ours(dnsdyno, capture)
    other, other_types = theirs(capture)
    for name in ("TC of queries", "RD of replies", "clients asking"):
        other.pop(name, None)
    other_types = named(other_types)
    by_number = collections.Counter()
    for (qclass, qtype, way), count in my_types.items():
        by_number[(qclass, type_number(qtype), way)] += count
    different = []
    compared = 0
    for mine_all, other_all in ((mine, other), (by_number, other_types)):
        for key in sorted(set(mine_all) | set(other_all), key=str):
            compared += 1
            if mine_all[key] != other_all[key]:
                different.append(f"    {key}: dnsdyno {mine_all[key]}, tshark {other_all[key]}")
    name = capture.rsplit("/", 1)[-1]
    print(f"{name:<18} {packets['packets']:>7} packets {mine['queries']:>6} queries {mine['replies']:>6} replies "
          f"{packets['fragments']:>5} fragments {packets['messages_malformed']:>5} malformed; "
          f"{compared} counts, {len(different)} differ")
    print("\n".join(different), end="\n" if different else "")
    return 1 if different else 0


def main():
    what, *arguments = sys.argv[1:]
    if what == "compare":
        sys.exit(compare(*arguments))
    {"segments": segments, "long": long, "malformed": malformed}[what](*arguments)


if __name__ == "__main__":
    main()
