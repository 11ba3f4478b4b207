"""The record of what this process has called lately, in the format that torch's own analyser reads.

    pomona.dump_record("/tmp/run/rank_")        # on all ranks: writes /tmp/run/rank_0, _1, ...
    torchfrtrace --prefix rank_ /tmp/run

With POMONA_GLUE_RECORD=/tmp/run/rank_ each rank writes it when one of its operations times out.
"""

from __future__ import annotations

import json
import os
import pickle
from typing import Any

# The analyser knows these names; and as libraries only torch's own, gloo not in 2.10, so that
# ours stands as NCCL's.
NAMES = {
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_gather_coalesced": "ALLGATHER_coalesced",
    "all_reduce_sparse": "all_reduce",
    "barrier": "all_reduce_barrier",  # NCCL's name, which that of 2.10 knows alone
}


def entry(raw: dict[str, Any]) -> dict[str, Any]:
    name = raw["title"].split(":")[-1]
    name = NAMES.get(name, name)
    if raw["message"]:
        arrow = f"{raw['rank']}->{raw['peer']}" if name == "send" else f"{raw['rank']}<-{raw['peer']}"
        name = f"{name} {arrow}"
    ended = raw["ended_ns"] or None
    if raw["failed"]:
        state = "started"  # it never became complete
    else:
        state = "completed" if ended else "started"
    result = {
        "record_id": raw["number"],
        "pg_id": 0,
        "process_group": (raw["group"], description(raw["group"])),
        "collective_seq_id": 0 if raw["message"] else raw["sequence"],
        "p2p_seq_id": raw["number"] if raw["message"] else 0,
        "op_id": raw["number"],
        "profiling_name": f"nccl:{name}",
        "time_created_ns": raw["created_ns"],
        "input_sizes": raw["sizes"],
        "input_dtypes": raw["dtypes"],
        "output_sizes": raw["sizes"],
        "output_dtypes": raw["dtypes"],
        "state": state,
        "time_discovered_started_ns": raw["created_ns"],
        "time_discovered_completed_ns": ended if state == "completed" else None,
        "retired": bool(ended),
        "timeout_ms": raw["timeout_ms"],
        "is_p2p": raw["message"],
        "frames": [],
    }
    if state == "completed":
        result["duration_ms"] = (ended - raw["created_ns"]) / 1e6
    return result


def description(name: str) -> str:
    return "default_pg" if name in ("0", "default_pg") else "undefined"


def record(glue: Any) -> dict[str, Any]:
    groups = glue.record_groups()
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": description(name), "ranks": str(ranks)} for name, ranks in groups.items()
        },
        "pg_status": {},
        "entries": [entry(raw) for raw in glue.record_entries() if not raw["title"].endswith("recvAnySource")],
    }


def dump(glue: Any, prefix: str, rank: int) -> str:
    """Writes PREFIX + rank for torch's analyser, and the same as JSON beside it, for people:
    rank+_0.json beside rank_0.
    """
    path = f"{prefix}{rank}"
    folder, name = os.path.split(prefix)
    os.makedirs(folder or ".", exist_ok=True)
    content = record(glue)
    with open(path, "wb") as file:
        pickle.dump(content, file)
    # A name of the prefix's own in which it does not stand: the analyser reads whatever has it.
    with open(os.path.join(folder, f"{name[:-1]}+{name[-1:]}{rank}.json"), "w", encoding="utf-8") as file:
        json.dump(content, file)
    return path
