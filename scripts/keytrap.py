#!/usr/bin/env python3
"""Makes the keys of the zone of forged signatures that `dnsdyno auth --traps` has (crates/auth/src/traps/keytrap.bin).

    scripts/keytrap.py FILE         needs python3-cryptography; takes some seconds

The file has the data of a DNSKEY record that signs and of 32 others that share one key tag, each 68 octets, and the signature of
the whole set by the first key, 64 octets (RFC 4034, RFC 6605). The private keys are thrown away. Prints the trust anchor of the zone.
"""

import base64
import struct
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ZONE = "keytrap.dns64perf.test"
COUNT = 32
ALGORITHM = 13
TTL = 3600
# 2020-01-01 and 2080-01-01, UTC.
INCEPTION, EXPIRATION = 1577836800, 3471292800
# Bits of the flags that validators ignore (RFC 4034 section 2.1.1).
IGNORED = 0x7E


def name(text):
    labels = text.split(".")
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def tag(rdata):
    total = sum(struct.unpack(f"!{len(rdata) // 2}H", rdata))
    return (total + (total >> 16)) & 0xFFFF


def data(flags, key):
    numbers = key.public_key().public_numbers()
    point = numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
    return struct.pack("!HBB", flags, 3, ALGORITHM) + point


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


def main():
    signer = new_key()
    anchor = data(257, signer)
    wanted, others = None, []
    while len(others) < COUNT:
        key = new_key()
        rdata = data(256, key)
        # The flags are a summand of the tag.
        for bits in range(0, IGNORED + 1, 2):
            rdata = data(256 | bits, key)
            if wanted is None and tag(rdata) != tag(anchor):
                wanted = tag(rdata)
            if tag(rdata) == wanted:
                others.append(rdata)
                break
    owner, labels = name(ZONE), ZONE.count(".") + 1
    header = struct.pack("!HBBIIIH", 48, ALGORITHM, labels, TTL, EXPIRATION, INCEPTION, tag(anchor))
    signed = header + owner
    for rdata in sorted([anchor, *others]):
        signed += owner + struct.pack("!HHIH", 48, 1, TTL, len(rdata)) + rdata
    r, s = decode_dss_signature(signer.sign(signed, ec.ECDSA(hashes.SHA256())))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    with open(sys.argv[1], "wb") as file:
        file.write(anchor + b"".join(others) + signature)
    print(f"{ZONE}. DNSKEY 257 3 {ALGORITHM} {base64.b64encode(anchor[4:]).decode()}")


if __name__ == "__main__":
    main()
