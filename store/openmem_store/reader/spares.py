"""Own the spare children: one for each kind of work that was asked for, started ahead of its job.

To start takes longer than most jobs. A spare does one job as any child; it has no other right than to
wait, and ends by itself when this process does, since its stdin ends then.
"""

import contextlib
import threading

from openmem_store.reader import child
from openmem_store.reader.child import Child
from openmem_store.reader.idle import Idle

IDLE_SECONDS = 300.0
"""A spare takes 8 MB; after this time without a job it is ended."""


class Spares:
    """The spare children of this process. None is started before the first job of its kind."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._lock = threading.Lock()
        self._spares: dict[str, Child] = {}
        self._closed = False
        self.idle = Idle(idle_seconds, self._end)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that wait for a job."""
        with self._lock:
            return tuple(spare.pid for spare in self._spares.values())

    async def run(self, module: str, job: bytes, *, seconds: float) -> child.Outcome:
        """Do as `child.run` does, in the spare where there is one; the next is started behind it."""
        spare = self._take(module)
        try:
            if spare is not None:
                # It may have been ended since it was looked at, or stopped: that is no fault of the job.
                with contextlib.suppress(child.NotStartedError):
                    return await child.run(module, job, seconds=seconds, start=lambda _: spare)
            return await child.run(module, job, seconds=seconds)
        finally:
            self._prepare(module)

    def _take(self, module: str) -> Child | None:
        with self._lock:
            spare = self._spares.pop(module, None)
        if spare is not None and not spare.alive():
            spare.end()
            return None
        return spare

    def _prepare(self, module: str) -> None:
        with self._lock:
            if self._closed or module in self._spares:
                return
            # The answer that was just found does not need it; a call that does says what is missing.
            with contextlib.suppress(OSError):
                self._spares[module] = Child(module)
        self.idle.used()

    def close(self) -> None:
        """End all spares, for good."""
        with self._lock:
            self._closed = True
        self._end()

    def _end(self) -> None:
        with self._lock:
            spares, self._spares = self._spares, {}
        for spare in spares.values():
            spare.end()
