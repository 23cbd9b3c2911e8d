"""Own how far the embedding of a session is, counted anew only where it grew.

Counting takes every page of its texts and vectors; rows of both are only ever added.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import apsw
import msgspec

from openmem_store.missing import Progress

_BLANKS = "char(9, 10, 11, 12, 13, 32)"

# The first characters nearly always tell; a long text is read on only where they do not.
_ROWS = f"""
SELECT coalesce(sum(trim(substr(text, 1, 64), {_BLANKS}) != '' OR trim(substr(text, 1, ?2), {_BLANKS}) != ''), 0),
  max(seq) FROM main.messages WHERE seq > ?1"""
_VECTORS = """
SELECT model, sum(dim > 0), sum(dim = 0), count(*), max(rowid) FROM main.vectors WHERE rowid > ? GROUP BY model"""
_ALL_VECTORS = "SELECT count(*) FROM main.vectors"


class _Counted(msgspec.Struct):
    """What is known of one file."""

    rows: int = 0
    """Those that are not blank."""
    last_seq: int = 0
    models: dict[str, tuple[int, int]] = {}
    """Rows that have a vector, and rows given up, by model."""
    vectors: int = 0
    last_vector: int = 0


class Counter:
    """The counts of this process, by session file."""

    MOST = 64
    """Files remembered."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], _Counted] = {}

    def models(self, connection: apsw.Connection, path: Path) -> dict[str, int]:
        """Return how many rows have a vector, by model; models without any are left out."""
        with self._lock:
            counted = self._counted(connection, path)
            return {model: filled for model, (filled, _) in counted.models.items() if filled}

    def progress(self, connection: apsw.Connection, path: Path, model: str) -> Progress:
        """Return what `missing.progress` would."""
        with self._lock:
            counted = self._counted(connection, path)
            found = connection.execute(_ROWS, (counted.last_seq, self._max_chars)).fetchone()
            added, last = cast("tuple[int, int | None]", found)
            counted.rows += added
            counted.last_seq = last or counted.last_seq
            filled, skipped = counted.models.get(model, (0, 0))
            return Progress(filled, max(0, counted.rows - filled - skipped), skipped)

    def _counted(self, connection: apsw.Connection, path: Path) -> _Counted:
        """Return what is known of a file, its vectors counted up to now."""
        name = (str(path), path.stat().st_ino)
        counted = self._known.pop(name, None) or _Counted()
        self._known[name] = counted
        if len(self._known) > self.MOST:
            del self._known[next(iter(self._known))]
        self._add(connection, counted)
        if counted.vectors != connection.execute(_ALL_VECTORS).get:  # some were replaced: count all of them
            counted.models, counted.vectors, counted.last_vector = {}, 0, 0
            self._add(connection, counted)
        return counted

    def _add(self, connection: apsw.Connection, counted: _Counted) -> None:
        found = connection.execute(_VECTORS, (counted.last_vector,))
        for model, filled, skipped, count, last in cast("Iterable[tuple[str, int, int, int, int]]", found):
            before = counted.models.get(model, (0, 0))
            counted.models[model] = before[0] + filled, before[1] + skipped
            counted.vectors += count
            counted.last_vector = max(counted.last_vector, last)
