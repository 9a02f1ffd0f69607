#!/usr/bin/env python3
"""Writes the files of a release that need no compiler, and checks the age of libraries.

    scripts/dist.py wheel VERSION MACHINE PROGRAM OUT    a Python wheel that holds the program, for pip, pipx and uv
    scripts/dist.py sbom VERSION TARGET OUT              the libraries in the programs (CycloneDX 1.5), as cargo knows them
    scripts/dist.py changes VERSION OUT                  the part of CHANGELOG.md on this version
    scripts/dist.py old TARGET                           libraries in the programs without a release in two years that OLD does not list

The same input gives the same bytes; SOURCE_DATE_EPOCH is the time of all files.
"""

import base64
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", 0))
# Libraries without a release in two years, and why they stay.
OLD = dict.fromkeys(
    "atomic-waker by_address byteorder fallible-iterator fallible-streaming-iterator fnv httpdate memoffset num-traits scopeguard strsim subtle utf8parse".split(),
    "does one thing, and is done")
OLD |= dict.fromkeys("assert_matches heck ident_case static_assertions".split(), "for compilers and tests: nothing of it is in the programs")
OLD |= {
    "minimal-lexical": "of nom 7, which the readers of captures and certificates use",
    "sharded-slab": "of tracing-subscriber",
    "untrusted": "of ring and webpki, by the same author",
}


def wheel(version, machine, program, out):
    """A wheel (PEP 427) whose only script is the program. It is static, so that it runs beside each C library."""
    info = f"dnsdyno-{version}.dist-info"
    tags = [f"py3-none-{system}_{machine}" for system in ("manylinux_2_17", "musllinux_1_1")]
    text = "Metadata-Version: 2.4\nName: dnsdyno\nVersion: {}\nSummary: A dynamometer for DNS servers\nLicense-Expression: BSD-3-Clause\n" \
        "License-File: LICENSE\nRequires-Python: >=3.7\nDescription-Content-Type: text/markdown\n\n{}"
    files = {
        f"dnsdyno-{version}.data/scripts/dnsdyno": pathlib.Path(program).read_bytes(),
        f"{info}/METADATA": text.format(version, (ROOT / "README.md").read_text()).encode(),
        f"{info}/WHEEL": ("Wheel-Version: 1.0\nGenerator: scripts/dist.py\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {tag}\n" for tag in tags)).encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = f"{info}/RECORD"
    digest = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    lines = [f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items()]
    files[record] = ("".join(lines) + f"{record},,\n").encode()
    name = f"dnsdyno-{version}-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl"
    with zipfile.ZipFile(pathlib.Path(out) / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)


def libraries(target):
    """What cargo resolves for both programs: all packages, who uses whom, and those that are in the programs."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version=1", f"--filter-platform={target}"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    uses = {
        node["id"]: sorted(one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"]))
        for node in found["resolve"]["nodes"]
    }
    inside, waiting = set(), [id for id, package in packages.items() if package["source"] is None and package["name"] in ("cli", "dns64d")]
    while waiting:
        one = waiting.pop()
        if one not in inside:
            inside.add(one)
            waiting += uses[one]
    return packages, uses, inside


def sbom(version, target, out):
    """Names, versions, licences, checksums' place, and who uses whom."""
    packages, uses, inside = libraries(target)
    ref = lambda id: "pkg:cargo/{name}@{version}".format(**packages[id])
    component = lambda id: {
        "type": "library", "bom-ref": ref(id), "name": packages[id]["name"], "version": packages[id]["version"], "purl": ref(id),
        "licenses": [{"expression": (packages[id]["license"] or "BSD-3-Clause").replace("/", " OR ")}],
    }
    order = sorted(inside, key=ref)
    whole = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH)),
            "component": {"type": "application", "bom-ref": "dnsdyno", "name": "dnsdyno", "version": version},
        },
        "components": [component(id) for id in order],
        "dependencies": [{"ref": ref(id), "dependsOn": [ref(one) for one in uses[id] if one in inside]} for id in order],
    }
    (pathlib.Path(out) / f"dnsdyno-{version}.cdx.json").write_text(json.dumps(whole, indent=1) + "\n")


def changes(version, out):
    """The section of this version, or that of what is not released."""
    parts = dict(re.findall(r"^## \[([^]]+)\][^\n]*\n(.*?)(?=^## \[|\Z)", (ROOT / "CHANGELOG.md").read_text(), re.M | re.S))
    (pathlib.Path(out) / "CHANGES.md").write_text(parts.get(version, parts["Unreleased"]).strip() + "\n")


def old(target):
    """Two years before the newest library: so the same sources give the same result on each day. The times are those of cargo's copy of the index."""
    packages, _, inside = libraries(target)
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    of_crates = {(packages[id]["name"], packages[id]["version"]) for id in inside if packages[id]["source"]}
    newest, locked = {}, []
    for name, version in of_crates:
        place = {1: "1", 2: "2", 3: f"3/{name[0]}"}.get(len(name), f"{name[:2]}/{name[2:4]}").lower()
        texts = [file.read_text(errors="replace") for file in home.glob(f"registry/index/*/.cache/{place}/{name.lower()}")]
        times = dict(re.findall(r'"vers": ?"([^"]+)"[^\0]*?"pubtime": ?"([^"]+)"', "\0".join(texts)))
        if version not in times:
            return print(f"cargo's copy of the index does not say when {name} {version} was released: the age of libraries is not checked")
        newest[name] = max(times.values())
        locked.append(times[version])
    limit = (datetime.datetime.fromisoformat(max(locked)[:19]) - datetime.timedelta(days=730)).isoformat()
    found = {name: time for name, time in newest.items() if time < limit}
    wrong = [f"{name}: no release since {found[name][:10]}: replace it, or say in OLD why it stays" for name in sorted(found.keys() - OLD.keys())]
    wrong += [f"{name}: has a newer release, or is not used: take it out of OLD" for name in sorted(OLD.keys() - found.keys())]
    if wrong:
        sys.exit("\n".join(wrong))


{"wheel": wheel, "sbom": sbom, "changes": changes, "old": old}[sys.argv[1]](*sys.argv[2:])
