"""Compiles the C++ extension ahead of its first use, where the package has none for this torch.

    python -m pomona._compile       # prints which one is loaded
"""

from __future__ import annotations

from . import _load

if __name__ == "__main__":
    print(_load.load().__file__)
