"""Own one run of embedding over one session: which rows a call takes, how many, and what a failure means.

A run makes one call per turn, so that sessions can take turns. A row that fails by itself is told
from an endpoint that is down by whether other texts succeed; only the former is ever given up.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Literal

import msgspec
from openmem_store import missing, schema
from openmem_store.embedding import Embedder
from openmem_store.layout import Layout
from openmem_store.missing import Missing
from openmem_store.queue import QueueClosed

from .failopen import Log, failure

SMALLEST_START = 4
"""Rows of the first call. Slow hardware takes seconds for each."""

MOST_ROWS = 32

QUICK = 0.25
"""Share of its timeout in which a full call must be done for the next one to be larger."""

TRIES = 3
"""Failures of a row before it is given up, and of single rows in a row before the endpoint counts as down."""

PROBE = "probe"
"""A text that any embedder takes, to tell bad rows from an endpoint that is down."""

Outcome = Literal["more", "done", "down"]
"""`more`: the run has a next turn. `down`: what it needs does not work now."""

Store = Callable[[str, Mapping[str, bytes]], None]
"""Stores vectors of one session by fingerprint and returns when they are there. Raises what the store raises."""


class Pace(msgspec.Struct):
    """What is remembered of one endpoint and model while the process lives."""

    rows: int = SMALLEST_START
    """Of the next call."""
    failed: Counter[str] = msgspec.field(default_factory=Counter[str])
    """Failures of single rows by fingerprint."""


class Work(msgspec.Struct, frozen=True):
    """What every run of a process shares."""

    layout: Layout
    embedder: Embedder
    model: str
    timeout_s: float
    """Per row of a call."""
    max_chars: int
    store: Store
    clock: Callable[[], float]
    """Seconds, monotonic."""
    log: Log
    pace: Pace


class Run:
    """One run over one session; used by one thread at a time."""

    def __init__(self, sid: str, work: Work) -> None:
        self.sid = sid
        self._work = work
        self._most = MOST_ROWS
        self._aside: set[str] = set()
        self._alone = 0
        """Single rows that failed since one succeeded."""
        self._works = False
        self.embedded = 0
        self.skipped = 0

    def turn(self) -> Outcome:
        """Make one call. Never raises for a failure of the endpoint, the database or the store."""
        try:
            rows = self._next()
            if not rows:
                return "done"
            vectors = self._call([row.head for row in rows])
            if isinstance(vectors, Exception):
                return self._failed(rows, vectors)
            fingerprints = [row.fingerprint for row in rows]
            self._work.store(self.sid, dict(zip(fingerprints, vectors, strict=True)))
        except (QueueClosed, CancelledError):
            return "done"  # the process is ending
        except Exception as error:  # the store's, or SQLite's
            return self._down(error)
        for fingerprint in fingerprints:
            self._work.pace.failed.pop(fingerprint, None)
        self._works, self._alone = True, 0
        self.embedded += len(rows)
        return "more"

    def _next(self) -> list[Missing]:
        work = self._work
        path = work.layout.database(self.sid)
        if not path.exists():
            return []
        connection = schema.open_reader(path)
        try:
            return missing.rows(
                connection,
                work.model,
                max_chars=work.max_chars,
                limit=min(work.pace.rows, self._most),
                aside=self._aside,
                failed=work.pace.failed,
            )
        finally:
            connection.close()

    def _call(self, texts: Sequence[str]) -> list[bytes] | Exception:
        """Embed, adapt the size of the next call, and log one line."""
        work, count = self._work, len(texts)
        timeout = count * work.timeout_s
        began = work.clock()
        try:
            result: list[bytes] | Exception = work.embedder.embed(texts, timeout=timeout)
        except Exception as error:  # whatever a model or its endpoint may do wrong
            result = error
        seconds = work.clock() - began
        if isinstance(result, Exception):
            if count > 1:
                self._most = work.pace.rows = count // 2
            kind = type(result).__name__
            said = f"embedding batch failed {kind}"
        else:
            if count == work.pace.rows and seconds < QUICK * timeout:
                work.pace.rows = min(2 * count, self._most)
            said = "embedded"
        work.log(f"openmem-context: {said} rows={count} seconds={seconds:.2f} batch={work.pace.rows}")
        return result

    def _failed(self, rows: Sequence[Missing], error: Exception) -> Outcome:
        """Take note of a failed call: a row of its own is set aside, and given up where other texts succeed."""
        if len(rows) > 1:
            return "more"
        (row,) = rows
        self._aside.add(row.fingerprint)
        self._work.pace.failed[row.fingerprint] += 1
        self._alone += 1
        if self._work.pace.failed[row.fingerprint] >= TRIES and self._working():
            self._work.store(self.sid, {row.fingerprint: b""})
            self._work.log(f"openmem-context: embedding skipped seq={row.seq} after {TRIES} failures")
            del self._work.pace.failed[row.fingerprint]
            self.skipped += 1
            return "more"
        return self._down(error) if self._alone >= TRIES and not self._works else "more"

    def _working(self) -> bool:
        """Tell whether the endpoint works for other texts; where no row of this run says so, ask it."""
        if not self._works and not isinstance(self._call([PROBE]), Exception):
            self._works, self._alone = True, 0
        return self._works

    def _down(self, error: Exception) -> Outcome:
        found = failure(error)
        self._work.log(f"openmem-context: embedding failed {found.error} at {found.location}")
        return "down"
