"""Where a script of this folder keeps its figures."""
import json
from pathlib import Path


def keep(document, path):
    """Writes them into a file; nothing where none is named."""
    if path:
        Path(path).write_text(json.dumps(document, indent=1) + "\n")
