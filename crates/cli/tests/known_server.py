#!/usr/bin/env python3
"""A DNS server of exactly known behaviour over UDP, TCP and TLS, with Python's own library: it shares no line with dnsdyno.

    known_server.py OPTIONS     (a JSON object: delay, lose, twice, late, bucket, certificate, key)

delay        seconds from each query to its reply
lose, twice  every n-th query gets no reply, or two
late         [n, seconds]: every n-th reply comes after that time instead
rcode        [n, code]: from the n-th query on every reply has this return code
bucket       [rate, burst]: a token bucket; queries beyond it get no reply
certificate, key   files for TLS

It prints its ports as JSON, and when its standard input ends what it counted: queries, replies, the sum of the times that it kept queries, the
share of the time in which it waited for a core, and the number of queries of each connection (over UDP: of each port).
"""
import asyncio
import json
import ssl
import sys
import time


class Known:
    """The behaviour and its counts, of one transport."""

    def __init__(self, options):
        self.options, self.queries, self.replies, self.kept = options, 0, 0, 0.0
        self.sources = {}
        self.tokens, self.filled = options.get("bucket", [0, 0])[1], time.monotonic()

    def take(self, source, query, send):
        came, loop = time.monotonic(), asyncio.get_running_loop()
        self.queries += 1
        self.sources[source] = self.sources.get(source, 0) + 1
        number = self.queries
        if "bucket" in self.options:
            rate, burst = self.options["bucket"]
            self.tokens = min(burst, self.tokens + (came - self.filled) * rate)
            self.filled = came
            if self.tokens < 1:
                return
            self.tokens -= 1
        every = lambda name: name in self.options and number % self.options[name] == 0
        if every("lose"):
            return
        delay = self.options.get("delay", 0)
        if "late" in self.options and number % self.options["late"][0] == 0:
            delay = self.options["late"][1]
        # The question, and one A record for its name.
        end = query.index(0, 12) + 5
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"
        first, code = self.options.get("rcode", [number + 1, 0])
        code = code if number >= first else 0
        reply = query[:2] + bytes([0x85, code]) + b"\0\1\0\1\0\0\0\0" + query[12:end] + answer
        times = 2 if every("twice") else 1

        def leave():
            self.kept += time.monotonic() - came
            self.replies += times
            for _ in range(times):
                send(reply)

        loop.call_later(delay, leave) if delay else leave()

    def counts(self, waited):
        sources = sorted(self.sources.values())
        return dict(queries=self.queries, replies=self.replies, kept=self.kept, waited=waited, sources=sources)


def waited_s():
    """Seconds in which this process was ready and had no core."""
    with open("/proc/self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, known):
        self.known = known

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.known.take(address, data, lambda reply: self.transport.sendto(reply, address))


class Frames(asyncio.Protocol):
    def __init__(self, known):
        self.known, self.input = known, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.input += data
        while len(self.input) >= 2 and len(self.input) >= 2 + int.from_bytes(self.input[:2], "big"):
            end = 2 + int.from_bytes(self.input[:2], "big")
            query, self.input = self.input[2:end], self.input[end:]
            self.known.take(self, query, lambda reply: self.transport.write(len(reply).to_bytes(2, "big") + reply))


async def main():
    options, loop = json.loads(sys.argv[1]), asyncio.get_running_loop()
    known = {name: Known(options) for name in ("udp", "tcp", "tls")}
    host, ports = "127.0.0.1", {}
    datagrams, _ = await loop.create_datagram_endpoint(lambda: Datagrams(known["udp"]), (host, 0))
    datagrams.get_extra_info("socket").setsockopt(1, 8, 4 << 20)  # SOL_SOCKET, SO_RCVBUF
    ports["udp"] = datagrams.get_extra_info("sockname")[1]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options["certificate"], options["key"])
    for name, tls in (("tcp", None), ("tls", context)):
        server = await loop.create_server(lambda name=name: Frames(known[name]), host, 0, ssl=tls, backlog=1024)
        ports[name] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    began, waited = time.monotonic(), waited_s()
    await loop.run_in_executor(None, sys.stdin.read)
    waited = (waited_s() - waited) / (time.monotonic() - began)
    print(json.dumps({name: one.counts(waited) for name, one in known.items()}), flush=True)


asyncio.run(main())
