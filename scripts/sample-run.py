#!/usr/bin/env python3
"""Writes the folder of a sample run: README.md, and record.json.gz.

    sample-run.py RECORD TABLE PAGE FOLDER

RECORD is what `dnsdyno run --json` wrote, TABLE what `dnsdyno show --details` prints of it, PAGE the page of the experiment in docs/experiments.
Buckets of histograms are left out of the record, since the histograms are there too in a shorter form. If it is still larger
than LIMIT, samples over time, then disturbances, then the histograms of the trials, first those of the schedule error, are left
out; the README says so.
"""

import datetime
import gzip
import json
import os
import re
import sys

LIMIT = 384 * 1024  # octets of the compressed record


def each(value, change):
    """Calls `change` with every object within `value`."""
    if isinstance(value, dict):
        change(value)
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            each(part, change)


def without(*names):
    """Returns a change that removes these keys."""
    return lambda value: [value.pop(name, None) for name in names]


def no_schedule(value):
    """Empties the histogram of the schedule error; its percentiles stay."""
    if "schedule_error_us" in value:
        value["schedule_error_us"]["hdr"] = ""


def no_histogram(value):
    """Empties the histogram of a distribution; its percentiles stay."""
    if "hdr" in value:
        value["hdr"] = ""


STEPS = [
    ("samples over time", without("probes")),
    ("disturbances of trials", without("disturbances")),
    ("histograms of the schedule error", no_schedule),
    ("histograms of trials", no_histogram),
    ("counts of each second", without("series")),
]


def packed(record):
    """Returns the compressed record, and what was left out of it, in words."""
    def pack():
        return gzip.compress(json.dumps(record, separators=(",", ":")).encode(), 9, mtime=0)

    each(record, without("buckets"))
    octets, left_out = pack(), []
    for words, change in STEPS:
        if len(octets) <= LIMIT:
            break
        each(record["results"], change)
        left_out.append(words)
        octets = pack()
    if len(octets) > LIMIT:
        sys.exit(f"the record has {len(octets)} octets, compressed and without {', '.join(left_out)}: "
                 f"more than {LIMIT}; choose fewer servers with --servers")
    return octets, left_out


def question(page):
    """Returns the question of the experiment's page."""
    found = re.search(r"\*\*Question\.\*\* (.*?)\n\n", page, re.S)
    return found.group(1) if found else ""


def readme(record, table, page, left_out, folder):
    """Returns the text of README.md."""
    name = record["experiment"]
    began = datetime.datetime.fromtimestamp(record["started_unix_s"], datetime.timezone.utc)
    versions = {cell["server"]: cell.get("server_version") or "unknown" for cell in record["results"]}
    lines = [f"# {name}: {record['title']}", "", f"**Question.** {question(page)}",
             f"Its page: [docs/experiments/{name}.md](../../docs/experiments/{name}.md).", "",
             "## Command", "", "```", record["command"], "```", "",
             f"Started {began:%Y-%m-%d %H:%M} UTC, {record['elapsed_s']:.0f} s; "
             + ("complete." if record["complete"] else "not complete."), "",
             "## Versions", "", "| | |", "|---|---|", f"| dnsdyno | {record['version']} |"]
    lines += [f"| {server} | {version} |" for server, version in sorted(versions.items())]
    lines += ["", "## Table and conditions", "", "```", table.strip("\n"), "```", "", "## Record", "",
              f"`dnsdyno show --details runs/{folder}/record.json.gz` prints this, `dnsdyno report runs/{folder}/record.json.gz` writes the page."]
    if left_out:
        lines += [f"To keep it small it is without {', '.join(left_out)}."]
    return "\n".join(lines) + "\n"


def main(record, table, page, folder):
    with open(record, encoding="utf-8") as file:
        record = json.load(file)
    with open(table, encoding="utf-8") as file:
        table = file.read()
    with open(page, encoding="utf-8") as file:
        page = file.read()
    octets, left_out = packed(record)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "record.json.gz"), "wb") as file:
        file.write(octets)
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write(readme(record, table, page, left_out, os.path.basename(os.path.normpath(folder))))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
