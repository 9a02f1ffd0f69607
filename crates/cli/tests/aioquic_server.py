"""A server of DNS over QUIC (RFC 9250) and HTTP/3 (RFC 8484) by aioquic, which may fail one query in ten.

    aioquic_server.py CERTIFICATE KEY UPSTREAM FAULT

UPSTREAM (address:port) is asked over UDP. FAULT is reset (RESET_STREAM), status (503, HTTP/3 only), close (the
connection is closed), refuse (and every second connection is refused) or none. Prints its port; when its input ends, prints how many queries it answered and failed,
and how many came on each connection.
"""
import asyncio
import struct
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, StreamDataReceived

certificate, key, upstream, fault = sys.argv[1:]
upstream = (upstream.rsplit(":", 1)[0], int(upstream.rsplit(":", 1)[1]))
RESET = {"doq": 0x1, "h3": 0x0102}  # DOQ_INTERNAL_ERROR, H3_INTERNAL_ERROR
CONNECTION_REFUSED = 0x2
queries = answered = failed = 0
connections = []


class Ask(asyncio.DatagramProtocol):
    """One query to the upstream."""

    def __init__(self, query, done):
        self.query, self.done = query, done

    def connection_made(self, transport):
        transport.sendto(self.query)

    def datagram_received(self, data, _):
        if not self.done.done():
            self.done.set_result(data)


async def ask(query):
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(lambda: Ask(query, done), remote_addr=upstream)
    try:
        return await asyncio.wait_for(done, 10)
    finally:
        transport.close()


class Server(QuicConnectionProtocol):
    """One connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.h3, self.bodies, self.queries = None, {}, 0
        connections.append(self)

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated) and fault == "refuse" and len(connections) % 2 == 0:
            return self._quic.close(error_code=CONNECTION_REFUSED)
        if isinstance(event, ProtocolNegotiated) and event.alpn_protocol == "h3":
            self.h3 = H3Connection(self._quic)
        if self.h3 is not None:
            for part in self.h3.handle_event(event):
                if isinstance(part, (HeadersReceived, DataReceived)):
                    self.body(part.stream_id, getattr(part, "data", b""), part.stream_ended)
        elif isinstance(event, StreamDataReceived):
            self.body(event.stream_id, event.data, event.end_stream)

    def body(self, stream, data, ended):
        self.bodies[stream] = self.bodies.get(stream, b"") + data
        if ended:
            asyncio.ensure_future(self.query(stream, self.bodies.pop(stream)))

    async def query(self, stream, body):
        global queries, answered, failed
        queries += 1
        self.queries += 1
        if fault != "none" and queries % 10 == 0:
            failed += 1
            self.fail(stream)
        else:
            answered += 1
            reply = await ask(body if self.h3 else body[2:])
            self.reply(stream, b"200", reply)
        self.transmit()

    def reply(self, stream, status, body):
        if self.h3 is None:
            self._quic.send_stream_data(stream, struct.pack("!H", len(body)) + body, end_stream=True)
            return
        headers = [(b":status", status), (b"content-type", b"application/dns-message")]
        self.h3.send_headers(stream, headers)
        self.h3.send_data(stream, body, end_stream=True)

    def fail(self, stream):
        if fault == "status":
            self.reply(stream, b"503", b"")
        elif fault == "reset":
            self._quic.reset_stream(stream, RESET["h3" if self.h3 else "doq"])
        else:
            self._quic.close()


async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["doq", "h3"])
    configuration.load_cert_chain(certificate, key)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Server)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(answered, failed, *(connection.queries for connection in connections), flush=True)


asyncio.run(main())
