"""Own the background embedding: whose turn it is, and how long a session that failed is left alone.

A few threads share all sessions. Each turn is one call, then the session goes to the end of the line,
so that one with thousands of rows, or one slow row, does not keep the others waiting for long.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from openmem_store import embedding
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.settings import Settings
from openmem_store.writer import SessionWriter

from .failopen import Log
from .filling import Outcome, Pace, Run, Work

THREADS = 2
"""Calls at a time. An endpoint on the same machine is no faster with more; with one, a slow call would stop all."""

COOL_S = 60.0
"""Seconds that a session waits after its endpoint looked down."""


class Background:
    """Embeds what sessions store, behind their requests."""

    def __init__(self, work: Work, *, threads: int = THREADS) -> None:
        """With no threads, `turn` does the work when it is called."""
        self._work = work
        self._changed = threading.Condition()
        self._line: deque[Run] = deque()
        self._busy: set[str] = set()
        """Sessions that wait in the line or have their turn."""
        self._again: set[str] = set()
        """Busy sessions that stored more rows since their run began."""
        self._cooling: dict[str, float] = {}
        """When a session may be tried again, on the clock of `work`."""
        self._closed = False
        for number in range(threads):
            threading.Thread(target=self._serve, name=f"openmem-embedder-{number}", daemon=True).start()

    def stored(self, sid: str) -> None:
        """Take note that a session has rows that may have no vector. Returns at once."""
        with self._changed:
            if sid in self._busy:
                self._again.add(sid)
            elif sid not in self._cooling:
                self._begin(sid)

    def turn(self) -> bool:
        """Make one call for the session whose turn it is; False where none is ready."""
        with self._changed:
            run = self._take()
        if run is None:
            return False
        self._give_back(run, run.turn())
        return True

    def close(self) -> None:
        """Begin no more calls. One under way is not waited for: it may last minutes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _begin(self, sid: str) -> None:
        self._busy.add(sid)
        self._line.append(Run(sid, self._work))
        self._changed.notify()

    def _take(self) -> Run | None:
        now = self._work.clock()
        for sid in [sid for sid, due in self._cooling.items() if due <= now]:
            del self._cooling[sid]
            self._begin(sid)
        return self._line.popleft() if self._line else None

    def _give_back(self, run: Run, outcome: Outcome) -> None:
        with self._changed:
            if outcome == "more":
                self._line.append(run)
                self._changed.notify()
                return
            self._busy.discard(run.sid)
            more = run.sid in self._again
            self._again.discard(run.sid)
            if outcome == "down":
                self._cooling[run.sid] = self._work.clock() + COOL_S
                self._changed.notify()  # who waits must know of the earlier time
            elif more:
                self._begin(run.sid)

    def _serve(self) -> None:
        while True:
            with self._changed:
                while (run := None if self._closed else self._take()) is None:
                    if self._closed:
                        return
                    self._changed.wait(self._patience())
            self._give_back(run, run.turn())

    def _patience(self) -> float | None:
        """Return the seconds until a session may be tried again; None where none waits for that."""
        if not self._cooling:
            return None
        return max(0.0, min(self._cooling.values()) - self._work.clock())


def work(
    settings: Settings,
    layout: Layout,
    queue: WriteQueue,
    *,
    log: Log,
    clock: Callable[[], float] = time.monotonic,
) -> Work | None:
    """Return what embedding by the settings needs; None where it is off. Raises embedding.UnavailableError."""
    if not settings.embedding_model:
        return None
    return Work(
        layout=layout,
        embedder=embedding.connect(settings, settings.embedding_model),
        model=settings.embedding_model,
        timeout_s=settings.embedding_timeout_s,
        max_chars=settings.embedding_max_chars,
        store=partial(_store, queue, settings.embedding_model),
        clock=clock,
        log=log,
        pace=Pace(),
    )


def _store(queue: WriteQueue, model: str, sid: str, vectors: Mapping[str, bytes]) -> None:
    size = sum(map(len, vectors.values()))
    queue.call(sid, partial(SessionWriter.store_vectors, model=model, vectors=vectors), size=size).result()
