"""Classic pcap files (micro- or nanoseconds), read with nothing but struct."""

import struct


def frames(path):
    """Time in ns, octets and length on the wire of each frame."""
    with open(path, "rb") as capture:
        head = capture.read(24)
        unit = {0xA1B23C4D: 1, 0xA1B2C3D4: 1_000}[struct.unpack_from("<I", head)[0]]
        while len(head := capture.read(16)) == 16:
            seconds, fraction, kept, length = struct.unpack("<IIII", head)
            yield seconds * 1_000_000_000 + fraction * unit, capture.read(kept), length
