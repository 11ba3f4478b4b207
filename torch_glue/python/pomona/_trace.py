"""Chrome's trace format, which ui.perfetto.dev and chrome://tracing read: spans of processes and rows.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
"""

from __future__ import annotations

import json
import os
from typing import Any


class Trace:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def process(self, number: int, name: str) -> None:
        """Names a process; they stand by their numbers."""
        for kind, facts in (("process_name", {"name": name}), ("process_sort_index", {"sort_index": number})):
            self.events.append({"ph": "M", "name": kind, "pid": number, "tid": 0, "args": facts})

    def span(self, process: int, row: int, name: str, begin_ns: int, end_ns: int, facts: dict[str, Any]) -> None:
        """Spans of one row lie apart from each other, or one within the other."""
        self.events.append(
            {
                "ph": "X",
                "name": name,
                "pid": process,
                "tid": row,
                "ts": begin_ns / 1e3,
                "dur": (end_ns - begin_ns) / 1e3,
                "args": facts,
            }
        )

    def write(self, path: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        part = path + ".part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump({"displayTimeUnit": "ms", "traceEvents": self.events}, file)
        os.replace(part, path)
