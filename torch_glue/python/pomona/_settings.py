"""Parameters set from Python: pomona.init(), and what is in force (docs/parameters.md)."""

from __future__ import annotations

import dataclasses
import difflib
import json
import logging
import os
import re
import subprocess
from typing import Any, NamedTuple

from . import _load
from .config import TYPES, Config
from .config import WORDS as ALL_WORDS

logger = logging.getLogger("pomona")

PYTHON = "pomona.init()"
# Of those that the extension reads: here another word is an error, where the library ignores it.
WORDS = {name: words for name, words in ALL_WORDS.items() if name == "futures" or name.startswith("glue_")}
_set_here: set[str] = set()


class Setting(NamedTuple):
    """A parameter's value, as text, and where it is from."""

    value: str
    source: str  # "pomona.init()", "POMONA_BCAST", "/home/me/.config/pomona.conf:3", "built-in"


def variable(name: str) -> str:
    """The environment's variable of a parameter: POMONA_BCAST of "bcast"."""
    return "POMONA_" + name.upper()


def init(config: Config | None = None, **parameters: Any) -> dict[str, Setting]:
    """Sets parameters, before the first process group: over the environment and over files.

    By a Config, by names, or both: pomona.init(eager_max="64K", glue_sum16="native"). All names
    stand in pomona.Config. Returns what is in force and where it is from. Raises TypeError for a
    name that does not exist or a value of another type, ValueError for a value that cannot be,
    RuntimeError once MPI runs.
    """
    unknown = [name for name in parameters if name not in TYPES]
    if unknown:
        near = difflib.get_close_matches(unknown[0], TYPES, 1)
        hint = f", did you mean {near[0]}?" if near else "; pomona.Config lists them"
        raise TypeError(f"pomona.init: there is no parameter {unknown[0]}{hint}")
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"pomona.init: a pomona.Config, or names with values, not {config!r}")
    given = dataclasses.replace(config or Config(), **parameters)
    texts = {
        name: _text(name, value) for name, value in dataclasses.asdict(given).items() if value is not None
    }
    if texts:
        _must_come_first()
    before = {variable(name): os.environ.get(variable(name)) for name in texts}
    os.environ.update({variable(name): text for name, text in texts.items()})
    try:
        settings = resolved(set_here=_set_here | set(texts), checked=set(texts))
    except BaseException:
        for name, old in before.items():
            if old is None:
                del os.environ[name]
            else:
                os.environ[name] = old
        raise
    _set_here.update(texts)
    _tell(settings)
    return settings


def _must_come_first() -> None:
    from . import _backends

    if _backends.mpi_running():
        raise RuntimeError(
            "pomona.init: MPI runs already, and reads its parameters when it starts. Call pomona.init() "
            "before the first process group"
        )


def _text(name: str, value: Any) -> str:
    kind = TYPES[name]
    wanted = {"Flag": "True or False", "Text": "a text", "Count": "a number from 0 on"}
    wanted["Size"] = "bytes, as a number from 0 on or a text as 64K"
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    right = {
        "Flag": isinstance(value, bool),
        "Text": isinstance(value, str),
        "Count": whole,
        "Size": whole or isinstance(value, str),
    }
    if not right[kind]:
        error = ValueError if isinstance(value, int) and kind in ("Count", "Size") else TypeError
        raise error(f"pomona.init: {name} is {wanted[kind]}, not {value!r}")
    if name in WORDS and value not in WORDS[name]:
        raise ValueError(f"pomona.init: {name} is {' or '.join(WORDS[name])}, not {value!r}")
    return ("yes" if value else "no") if kind == "Flag" else str(value)


def resolved(set_here: set[str] | None = None, checked: set[str] | None = None) -> dict[str, Setting]:
    """Every parameter as MPI will read it, and where its value is from.

    Asks the program `pomona`, which reads them as the library does. Raises ValueError where that
    refuses the value of one of `checked`.
    """
    here = _set_here if set_here is None else set_here
    done = subprocess.run([_load.program("pomona"), "params", "--json"], capture_output=True, text=True, check=True)
    for line in done.stderr.splitlines():
        for name in checked or ():
            if line.startswith(variable(name) + ":"):
                raise ValueError(f"pomona.init: {name}: {line.partition(': ')[2]}")
    table = json.loads(done.stdout)
    return {
        name: Setting(row["value"], PYTHON if name in here else row["source"]) for name, row in table.items()
    }


def bytes_of(text: str) -> int:
    """65536 of "64K". Raises ValueError."""
    found = re.fullmatch(r"(\d+)(?:([KMGkmg])(?:iB|B|b)?)?", text)
    if found is None:
        raise ValueError("not a number of bytes (expected digits, with K, M or G behind)")
    number = int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[(found[2] or "").lower()]
    if number >= 1 << 63:
        raise ValueError("more bytes than 63 bits can count")
    return number


def for_the_glue() -> None:
    """What the extension reads from the environment, in its form: files count too, and sizes are
    numbers.

    A word that it would not understand is an error here, since it would be taken for the default.
    """
    config_file = os.environ.get("POMONA_CONFIG") or os.path.expanduser("~/.config/pomona.conf")
    names = [name for name in TYPES if name in ("futures", "cache") or name.startswith("glue_")]
    if os.path.exists(config_file):
        for name, setting in resolved().items():
            if name in names and setting.source != "built-in":
                os.environ.setdefault(variable(name), setting.value)
    for name in names:
        text = os.environ.get(variable(name))
        if not text:  # an empty one is as none
            os.environ.pop(variable(name), None)
            continue
        try:
            if TYPES[name] == "Size":
                os.environ[variable(name)] = str(bytes_of(text))
            elif name in WORDS and text not in WORDS[name]:
                raise ValueError(f"not {' or '.join(WORDS[name])}")
        except ValueError as error:
            raise ValueError(f"{variable(name)}={text}: {error}") from None


def tell() -> None:
    """The resolved configuration at level info, when MPI starts."""
    if logger.isEnabledFor(logging.INFO):
        _tell(resolved())


def _tell(settings: dict[str, Setting]) -> None:
    changed = [f"{name} = {each.value} ({each.source})" for name, each in settings.items() if each.source != "built-in"]
    rest = len(settings) - len(changed)
    logger.info("pomona: %s", ", ".join([*changed, f"{rest} parameters as built in"]))
