"""Own the indexes over the vectors of large sessions: in memory only, built beside the searches, kept up to date.

A scan of 100,000 vectors takes most of a search. The index holds the same vectors closer together and
answers as exactly; until it is built, searches scan.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import apsw

from openmem_store.embedding import dimensions
from openmem_store.reader import source, vectors
from openmem_store.reader.vectors import Scan

LARGE = 50_000
"""Vectors from which a session gets an index."""

MOST_BYTES = 512 << 20
"""Of the vectors in all indexes together."""

_MOST_K = 4096
"""sqlite-vec returns no more."""

# A vector that has no distance to itself has none to any: zero, or with numbers that are none.
_NEW = """
SELECT rowid, message_seq, blob FROM main.vectors
WHERE rowid > ? AND model = ? AND dim = ? AND length(blob) = 4 * dim AND vec_distance_cosine(blob, blob) IS NOT NULL"""
_TABLE = "CREATE VIRTUAL TABLE v USING vec0 (seq INTEGER PRIMARY KEY, embedding float[{dim}] distance_metric=cosine)"
_KNN = "SELECT seq, distance FROM v WHERE embedding MATCH ? AND k = ? ORDER BY distance"

_Name = tuple[str, int, str, int]
"""Path and inode of the file, model, dimensions."""


class _Index:
    """The vectors of one session, of one model and length."""

    def __init__(self, path: Path, model: str, dim: int) -> None:
        self._given = (model, dim)
        self._lock = threading.Lock()
        self._last = 0
        self._memory = apsw.Connection(":memory:")
        vectors.load(self._memory)
        self._memory.execute(_TABLE.format(dim=dim))
        with source.opened(path) as connection:
            vectors.load(connection)
            self._refresh(connection)

    def nearest(self, connection: apsw.Connection, query: bytes, limit: int) -> list[tuple[int, float]]:
        """Return the nearest rows, those that `connection` to the session shows and were not there before included."""
        with self._lock:
            self._refresh(connection)
            found = self._memory.execute(_KNN, (query, limit))
            return cast("list[tuple[int, float]]", found.fetchall())

    def _refresh(self, connection: apsw.Connection) -> None:
        found = cast("Iterable[tuple[int, int, bytes]]", connection.execute(_NEW, (self._last, *self._given)))
        with self._memory:
            for rowid, seq, blob in found:
                self._memory.execute("DELETE FROM v WHERE seq = ?", (seq,))
                self._memory.execute("INSERT INTO v (seq, embedding) VALUES (?, ?)", (seq, blob))
                self._last = max(self._last, rowid)


class Indexes:
    """The indexes of this process, those used last kept."""

    def __init__(self, *, large: int = LARGE, most_bytes: int = MOST_BYTES) -> None:
        self._large = large
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._ready: OrderedDict[_Name, tuple[_Index, int]] = OrderedDict()
        self._building: dict[_Name, threading.Thread] = {}

    def scan(self, connection: apsw.Connection, path: Path, model: str, count: int, query: bytes) -> Scan | None:
        """Return how to ask the index of a session that has `count` vectors; None while it has none."""
        size = count * len(query)
        if count < self._large or size > self._most_bytes:
            return None
        name = (str(path), path.stat().st_ino, model, dimensions(query))
        with self._lock:
            if name in self._ready:
                self._ready.move_to_end(name)
                index, _ = self._ready[name]
                return lambda vector, limit: index.nearest(connection, vector, limit) if limit <= _MOST_K else None
            if name not in self._building:
                building = threading.Thread(target=self._build, args=(name, path, size), daemon=True)
                self._building[name] = building
                building.start()
        return None

    def wait(self) -> None:
        """Wait for the indexes that are being built."""
        with self._lock:
            building = list(self._building.values())
        for thread in building:
            thread.join()

    def _build(self, name: _Name, path: Path, size: int) -> None:
        try:
            index = _Index(path, name[2], name[3])
        except (apsw.Error, OSError):
            index = None  # the file went away or was damaged; the searches themselves say so
        with self._lock:
            del self._building[name]
            if index is not None:
                self._ready[name] = index, size
            while sum(size for _, size in self._ready.values()) > self._most_bytes:
                self._ready.popitem(last=False)
