"""Prints the table of benches/auth-engines from the record of its run: auth-engines.py RECORD."""

import json
import sys

LINKS = ["plain", "moderated", "steered"]
ENGINES = ["sockets", "kernel"]


def capacity(cell):
    """A cell's capacity with its limiter; a dash if it has none."""
    if cell is None or cell["median_qps"] is None:
        return "-"
    bound = ">= " if cell["at_least"] else ""
    return f"{bound}{cell['median_qps']:,.0f} ({cell['limiter'] or 'not known'})"


def apart(cells):
    """How much more the kernel finds than sockets, in percent; a dash if one of them has no capacity of the server."""
    sockets, kernel = cells.get("sockets"), cells.get("kernel")
    if not sockets or not kernel or not sockets["median_qps"] or not kernel["median_qps"]:
        return "-"
    if sockets["at_least"] or kernel["at_least"]:
        return "not known"
    return f"{kernel['median_qps'] / sockets['median_qps'] - 1:+.0%}"


run = json.load(open(sys.argv[1]))
servers = {}
void = trials = 0
for result in run["results"]:
    name = f"{result['server']} {result['server_version']}"
    settings = result["settings"]
    servers.setdefault(name, {}).setdefault(settings["link"], {})[settings["engine"]] = result
    void += sum(trial["void"] is not False for trial in result["trials"])
    trials += len(result["trials"])
print("Queries a second; in parentheses the limiter. Last column: the kernel's figure over that of sockets.\n")
print("| server | link | sockets | kernel | |")
print("|---|---|---|---|---|")
for server, links in servers.items():
    for link in LINKS:
        cells = links.get(link, {})
        figures = " | ".join(capacity(cells.get(engine)) for engine in ENGINES)
        print(f"| {server} | `{link}` | {figures} | {apart(cells)} |")
print(f"\n{trials} trials, {void} of them void.")
for skipped in run["skipped"]:
    print(f"not measured: {skipped['server']} {skipped.get('settings', '')}: {skipped['why']}", file=sys.stderr)
