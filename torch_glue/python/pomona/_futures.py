"""Lets Python's callbacks of Futures wait for later Futures of their own group.

Futures of a group complete in order, a callback's own before the later ones; so the group must
know that a callback waits for one of these (torch_glue/futures.h). The names used here are private
to torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def install(private: Any, extension: Any) -> None:
    """`private`: torch._C. Where a name is missing, torch stays as it is."""
    future: Any = getattr(private, "Future", None)
    if not all(hasattr(future, name) for name in ("wait", "then")) or not hasattr(private, "_collect_all"):
        return
    original_wait, original_then, original_all = future.wait, future.then, private._collect_all
    in_callback, callback_waits, note = (
        extension.in_ordered_callback, extension.callback_waits, extension.note_origins)
    awaited = extension.future_awaited

    @functools.wraps(original_wait)
    def wait(self: Any) -> Any:
        if in_callback():
            callback_waits(self)
        elif not self.done():
            awaited(self)
        return original_wait(self)

    @functools.wraps(original_then)
    def then(self: Any, callback: Callable[..., Any]) -> Any:
        made = original_then(self, callback)
        if not made.done():
            note(made, [self])
        return made

    @functools.wraps(original_all)
    def collect_all(futures: list[Any]) -> Any:
        made = original_all(futures)
        if not made.done():
            note(made, futures)
        return made

    future.wait, future.then, private._collect_all = wait, then, collect_all
