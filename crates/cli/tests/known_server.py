#!/usr/bin/env python3
"""A DNS server of exactly known behaviour over UDP, TCP, TLS and HTTP/2, with Python's own library: it shares no line with dnsdyno.

    known_server.py OPTIONS     (a JSON object: delay, lose, twice, late, bucket, certificate, key)

delay        seconds from each query to its reply
lose, twice  every n-th query gets no reply, or two
late         [n, seconds]: every n-th reply comes after that time instead
rcode        [n, code]: from the n-th query on every reply has this return code
truncate     every n-th query over UDP gets an empty reply with TC
cookies      a query without the server's cookie gets BADCOOKIE, with the cookie
close_after  a connection is closed after n replies
close_at     a connection is closed instead of the reply to its n-th query
reset_after  a connection is reset instead of the reply to its n-th query
refuse       every n-th connection is closed at once
bucket       [rate, burst]: a token bucket; queries beyond it get no reply
certificate, key   files for TLS

TCP has the port of UDP. It prints its ports as JSON, and when its standard input ends what it counted: queries, replies, those cut short, connections closed and refused, the sum of the times that it kept queries, the
share of the time in which it waited for a core, and the number of queries of each connection (over UDP: of each port).
"""
import asyncio
import hashlib
import json
import socket
import ssl
import struct
import sys
import time


class Known:
    """The behaviour and its counts, of one transport."""

    def __init__(self, options):
        self.options, self.queries, self.replies, self.kept = options, 0, 0, 0.0
        self.sources, self.cut, self.closed, self.connections, self.refused = {}, 0, 0, 0, 0
        self.tokens, self.filled = options.get("bucket", [0, 0])[1], time.monotonic()

    def take(self, source, query, send, datagram=False):
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
        if datagram and every("truncate"):
            self.cut += 1
            return send(query[:2] + b"\x87\0\0\1\0\0\0\0\0\0" + query[12:end])
        first, code = self.options.get("rcode", [number + 1, 0])
        code = code if number >= first else 0
        opt = b""
        if "cookies" in self.options:
            code, opt = with_cookie(query[end:])
        counts = b"\0\1\0\1\0\0" + bytes([0, 1 if opt else 0])
        reply = query[:2] + bytes([0x85, code]) + counts + query[12:end] + answer + opt
        times = 2 if every("twice") else 1

        def leave():
            self.kept += time.monotonic() - came
            self.replies += times
            for _ in range(times):
                send(reply)

        loop.call_later(delay, leave) if delay else leave()

    def counts(self, waited):
        sources = sorted(self.sources.values())
        counts = dict(queries=self.queries, replies=self.replies, cut=self.cut, closed=self.closed, refused=self.refused)
        return dict(counts, kept=self.kept, waited=waited, sources=sources)


def with_cookie(opt):
    """Return code and OPT record of the reply to a query with this OPT record, whose first option is a cookie."""
    cookie = opt[15 : 15 + opt[14]]
    right = cookie[:8] + hashlib.sha256(cookie[:8]).digest()[:8]
    code = 0 if cookie == right else 23
    return code & 15, b"\0\0\x29\4\xd0" + bytes([code >> 4]) + b"\0\0\0\0\x14\0\x0a\0\x10" + right


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
        self.known.take(address, data, lambda reply: self.transport.sendto(reply, address), True)


class Frames(asyncio.Protocol):
    """A connection of messages behind their lengths."""

    def __init__(self, known):
        self.known, self.input, self.replies, self.queries = known, b"", 0, 0

    def connection_made(self, transport):
        self.transport = transport
        self.known.connections += 1
        if "refuse" in self.known.options and self.known.connections % self.known.options["refuse"] == 0:
            self.known.closed += 1
            self.known.refused += 1
            transport.abort()

    def data_received(self, data):
        self.input += data
        for query, stream in self.messages():
            if self.transport.is_closing():
                return
            self.queries += 1
            ends = [self.queries == self.known.options.get(option) for option in ("reset_after", "close_at")]
            if not any(ends):
                self.known.take(self, query, lambda reply, stream=stream: self.send(reply, stream))
                continue
            self.known.queries += 1
            self.known.closed += 1
            if ends[0]:
                linger = struct.pack("ii", 1, 0)
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.transport.abort()
            self.transport.close()

    def messages(self):
        """Take the whole queries off the input, each with its stream."""
        while len(self.input) >= 2 and len(self.input) >= 2 + int.from_bytes(self.input[:2], "big"):
            end = 2 + int.from_bytes(self.input[:2], "big")
            query, self.input = self.input[2:end], self.input[end:]
            yield query, 0

    def framed(self, reply, _stream):
        return len(reply).to_bytes(2, "big") + reply

    def send(self, reply, stream):
        if self.transport.is_closing():
            return
        self.transport.write(self.framed(reply, stream))
        self.replies += 1
        if self.replies == self.known.options.get("close_after"):
            self.known.closed += 1
            self.transport.close()


def frame(kind, flags, stream, payload=b""):
    """A frame of HTTP/2 (RFC 9113)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Http2(Frames):
    """A connection of HTTP/2: the body of each request is a query, the rest of the request is not read."""

    DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
    # :status 200, content-type
    HEAD = b"\x88\x0f\x10\x17application/dns-message"

    def __init__(self, known):
        super().__init__(known)
        self.preface, self.bodies = 24, {}

    def messages(self):
        if self.preface and len(self.input) >= self.preface:
            self.input, self.preface = self.input[self.preface :], 0
            self.transport.write(frame(self.SETTINGS, 0, 0))
        while not self.preface and len(self.input) >= 9 + int.from_bytes(self.input[:3], "big"):
            end, kind, flags = 9 + int.from_bytes(self.input[:3], "big"), self.input[3], self.input[4]
            stream, payload = int.from_bytes(self.input[5:9], "big"), self.input[9:end]
            self.input = self.input[end:]
            if kind in (self.SETTINGS, self.PING) and not flags & 1:
                self.transport.write(frame(kind, 1, 0, payload if kind == self.PING else b""))
            if kind == self.DATA:
                self.bodies[stream] = self.bodies.get(stream, b"") + payload
                if payload:
                    self.transport.write(frame(self.WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4, "big")))
                if flags & 1:
                    yield self.bodies.pop(stream), stream

    def framed(self, reply, stream):
        return frame(self.HEADERS, 4, stream, self.HEAD) + frame(self.DATA, 1, stream, reply)


async def main():
    options, loop = json.loads(sys.argv[1]), asyncio.get_running_loop()
    known = {name: Known(options) for name in ("udp", "tcp", "tls", "https")}
    host, ports = "127.0.0.1", {}
    while "tcp" not in ports:
        datagrams, _ = await loop.create_datagram_endpoint(lambda: Datagrams(known["udp"]), (host, 0))
        ports["udp"] = datagrams.get_extra_info("sockname")[1]
        try:
            await loop.create_server(lambda: Frames(known["tcp"]), host, ports["udp"], backlog=1024)
            ports["tcp"] = ports["udp"]
        except OSError:
            datagrams.close()
    datagrams.get_extra_info("socket").setsockopt(1, 8, 4 << 20)  # SOL_SOCKET, SO_RCVBUF
    for name, protocol, alpn in (("tls", Frames, []), ("https", Http2, ["h2"])):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options["certificate"], options["key"])
        context.set_alpn_protocols(alpn)
        make = lambda name=name, protocol=protocol: protocol(known[name])
        server = await loop.create_server(make, host, 0, ssl=context, backlog=1024)
        ports[name] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    began, waited = time.monotonic(), waited_s()
    await loop.run_in_executor(None, sys.stdin.read)
    waited = (waited_s() - waited) / (time.monotonic() - began)
    print(json.dumps({name: one.counts(waited) for name, one in known.items()}), flush=True)


asyncio.run(main())
