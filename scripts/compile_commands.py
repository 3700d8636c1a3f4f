#!/usr/bin/env python3
"""Reads what `make -n` prints and writes a compilation database (JSON) of the sources of this tree."""

import json
import os
import re
import shlex
import sys

entries = []
for line in sys.stdin.read().replace("\\\n", " ").splitlines():
    match = re.match(r"\s*(g\+\+|gcc) .* -c (\S+\.(?:cpp|c)) ", line)
    if match:
        entries.append({"directory": os.getcwd(), "file": match.group(2), "arguments": shlex.split(line)})
if not entries:
    sys.exit("compile_commands: make named no source")
json.dump(entries, sys.stdout, indent=0)
