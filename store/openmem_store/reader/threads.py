"""Own the work beside the event loop: a cancelled call is answered at once, and its thread told to stop."""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio.to_thread

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)
"""Of the call that this thread works for; None where nobody may cancel it."""


class StoppedError(Exception):
    """Nobody waits for this work any more."""


async def run[T](function: Callable[..., T], *arguments: Any) -> T:
    """Do blocking work in a thread."""
    stop = threading.Event()
    token = _stop.set(stop)  # the thread gets a copy of this context
    try:
        return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
    finally:
        stop.set()
        _stop.reset(token)


def check() -> None:
    """Raise StoppedError in a thread whose call was cancelled. Cheap: work asks between its steps."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise StoppedError
