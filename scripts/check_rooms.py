#!/usr/bin/env python3
"""Checks that rooms (folders of the product) depend one way: no circle of includes between rooms, and in planner/ only
rooms that come before. Prints each fault in one line; exit status 1 if there is any. --graph prints who includes whom."""

import os
import re
import subprocess
import sys

TOP = ("interpose", "recorder", "planner", "replayer")
# Rooms of the planner from the bottom up (planner/README.md); what lies in planner/ itself is the front door.
PLANNER = ["base", "model", "format", "machine", "bound", "problem", "swap", "place", "search"]


def includes():
    """(file, included file) for every include of one product file by another."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *TOP], capture_output=True, text=True, check=True)
    for path in listed.stdout.split():
        if not path.endswith((".cpp", ".h", ".c")) or not os.path.exists(path):
            continue
        for line in open(path, encoding="utf-8"):
            match = re.match(r'#include "((?:%s)/[^"]+)"' % "|".join(TOP), line)
            if match:
                yield path, match.group(1)


def circles(edges):
    """Groups of rooms that reach each other, by Tarjan's algorithm."""
    index, low, stack, on_stack, groups = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
                on_stack.discard(group[-1])
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return groups


def main():
    faults = []
    edges = {}
    for path, target in includes():
        here, there = os.path.dirname(path), os.path.dirname(target)
        if here == there:
            continue
        edges.setdefault(here, set()).add(there)
        if here.startswith("planner"):
            rank = lambda room: PLANNER.index(room[8:]) if room[8:] in PLANNER else len(PLANNER)
            if not there.startswith("planner"):
                faults.append(f"{path}: the planner includes nothing of other rooms, but here {target}")
            elif rank(there) > rank(here):
                faults.append(f"{path}: {here} may include only rooms that come before it, not {target}")
    faults += ["circle of includes between rooms: " + " ".join(group) for group in circles(edges)]
    if "--graph" in sys.argv:
        for room in sorted(edges):
            print(room, "->", " ".join(sorted(edges[room])))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
