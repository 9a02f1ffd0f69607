#!/usr/bin/env python3
"""Writes the files of a release that need no compiler.

    scripts/dist.py wheel VERSION MACHINE PROGRAM OUT    a Python wheel that holds the program, for pip, pipx and uv
    scripts/dist.py sbom VERSION TARGET OUT              the libraries in the programs (CycloneDX 1.5), as cargo knows them
    scripts/dist.py changes VERSION OUT                  the part of CHANGELOG.md on this version

The same input gives the same bytes; SOURCE_DATE_EPOCH is the time of all files.
"""

import base64
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
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])


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


def sbom(version, target, out):
    """What cargo resolves for both programs: names, versions, licences, checksums' place, and who uses whom."""
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


{"wheel": wheel, "sbom": sbom, "changes": changes}[sys.argv[1]](*sys.argv[2:])
