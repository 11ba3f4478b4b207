"""Whether the program has failed, asked when Python ends, where C's exit handlers are not told the
exit code (macOS). An uncaught exception Python remembers; of sys.exit() nothing is left by then, so
that it is watched: which SystemExit was its last one, and whether that has ended the program.
"""

from __future__ import annotations

import dis
import functools
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

_state: dict[str, Any] = {"watched": False, "last": None}


def watch_exits() -> None:
    """From now on failed() knows of sys.exit(). `raise SystemExit(7)` stays unseen."""
    if _state["watched"]:
        return
    _state["watched"] = True
    original = sys.exit

    @functools.wraps(original)
    def exit(status: Any = None, /) -> NoReturn:
        raised = SystemExit(status)
        if threading.current_thread() is threading.main_thread():  # in others it ends these alone
            _state["last"] = raised if status not in (None, 0) else None
        raise raised

    sys.exit = exit


def failed() -> bool:
    """To be called when Python ends."""
    if getattr(sys, "last_exc", None) is not None or getattr(sys, "last_type", None) is not None:
        return True
    return _state["last"] is not None and _ended(_state["last"].__traceback__)


def _ended(trace: TracebackType | None) -> bool:
    """Whether it has gone through the outermost of its frames, which then ends at no `return`. One
    that was caught on the way has left them as they ended later."""
    if trace is None:  # until 3.11 an exception is given it by the first handler that looks at it
        return True
    frame = trace.tb_frame
    last = frame.f_code.co_code[frame.f_lasti]
    return not dis.opname[last].startswith("RETURN_")
