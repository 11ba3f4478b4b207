#!/usr/bin/env python3
"""Checks that a generated page is what its command prints now.

Usage: page.py PAGE COMMAND...
"""
import pathlib
import subprocess
import sys

page, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
now = subprocess.run(command, check=True, capture_output=True, text=True).stdout
if not now or page.read_text() != now:
    print(f"{page} is stale; write it again: {' '.join(command)} > {page}")
    sys.exit(1)
