"""What the headers of a torch say of memory on Apple's GPU, against the table in docs/torch.md.

A row of the table stands for one minor version: | version | functions | pools | ... |. Functions
are those that torch_glue/device.cc calls; pools are those of torch's allocator. Where tensors lie
in private ones the CPU does not see them. No Mac is needed, and nothing is run.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CALLED = {
    "ATen/detail/MPSHooksInterface.h": (
        "getMPSDeviceAllocator", "deviceSynchronize", "commitStream", "acquireEvent", "recordEvent", "queryEvent",
        "waitForEvent", "releaseEvent"),
    "ATen/mps/MPSAllocatorInterface.h": ("getSharedBufferPtr",),
}


def said(include):
    """The columns of `include`, a folder of torch's headers."""
    include = Path(include)
    missing = [name for header, names in CALLED.items() for name in names
               if not re.search(rf"\bvirtual\b[^;{{]*\b{name}\(", (include / header).read_text())]
    pools = (include / "ATen/mps/MPSAllocator.h").read_text().partition("enum class Kind")[2].partition("}")[0]
    kinds = [kind.lower() for kind in ("PRIVATE", "SHARED") if f"{kind}_LARGE" in pools]
    return ("without " + ", ".join(missing) if missing else "all"), " and ".join(kinds)


def written(minor):
    """The columns of docs/torch.md; None where it has no row of this minor version."""
    row = re.search(rf"^\| {re.escape(minor)}\.\d+ \| ([^|]+) \| ([^|]+) \|", (ROOT / "docs/torch.md").read_text(), re.M)
    return row and row.groups()


def difference(minor, include):
    """A sentence, or empty."""
    have, want = said(include), written(minor)
    return "" if have == want else f"docs/torch.md says {want} of MPS in torch {minor}, its headers say {have}"
