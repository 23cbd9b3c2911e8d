"""Own what a search adds to words: which model a session is asked by, its nearest rows, and how complete they are."""

import time
from concurrent.futures import Future
from pathlib import Path

import apsw
import msgspec

from openmem_store.missing import Progress
from openmem_store.reader import queries, vectors
from openmem_store.reader.progress import Counter
from openmem_store.reader.queries import Queries
from openmem_store.reader.scope import Rows, Scope
from openmem_store.reader.vectorindex import Indexes
from openmem_store.reader.vectors import Nearest
from openmem_store.settings import Settings


class Asked(msgspec.Struct, frozen=True):
    """A session that is asked by vectors too."""

    path: Path
    model: str
    count: int
    """Rows that have a vector of the model."""


class Hybrid:
    """What a process keeps for searches by vectors."""

    def __init__(self, settings: Settings, *, patience_s: float = queries.PATIENCE_S) -> None:
        self._model = settings.embedding_model
        self._patience_s = patience_s
        self._queries = Queries(settings)
        self._counter = Counter(settings.embedding_max_chars)
        self.indexes = Indexes()

    def begin(self, query: str, *, wanted: bool) -> "Search":
        """Begin one search. `wanted` False: only the progress is of interest."""
        return Search(self, query if wanted else "")

    def model(self, connection: apsw.Connection, path: Path) -> tuple[str, int]:
        """Return the model a session is asked by, and how many rows have a vector of it.

        The configured one where it has any, else the one that has most, else the configured one,
        which may be none.
        """
        found = self._counter.models(connection, path)
        model = self._model if self._model in found or not found else max(found, key=lambda each: found[each])
        return model, found.get(model, 0)

    def progress(self, connection: apsw.Connection, path: Path, model: str) -> Progress:
        return self._counter.progress(connection, path, model)

    def ask(self, model: str, query: str) -> Future[bytes]:
        return self._queries.ask(model, query)

    @property
    def patience_s(self) -> float:
        return self._patience_s


class Search:
    """One search over several sessions: each model is asked once, beside the search for words."""

    def __init__(self, hybrid: Hybrid, query: str) -> None:
        self._hybrid = hybrid
        self._query = query
        self._vectors: dict[str, Future[bytes]] = {}
        self._until = 0.0
        self._progress: Progress | None = None
        self.error: str | None = None
        """Why no vectors were used although there are some; None where they were."""

    def session(self, connection: apsw.Connection, path: Path) -> Asked | None:
        """Take a session in, and begin to embed the query with its model. None for one without vectors."""
        model, count = self._hybrid.model(connection, path)
        if model:
            progress = self._hybrid.progress(connection, path, model)
            self._progress = (self._progress or Progress()) + progress
        if not count:
            return None
        if self._query.strip() and model not in self._vectors:
            self._vectors[model] = self._hybrid.ask(model, self._query)
            self._until = self._until or time.monotonic() + self._hybrid.patience_s
        return Asked(path, model, count)

    def nearest(self, connection: apsw.Connection, asked: Asked, scope: Scope, rows: Rows) -> Nearest | None:
        """Return a session's nearest rows; None, and `error` says why, where the query has no vector."""
        future = self._vectors.get(asked.model)
        if future is None:
            return None
        try:
            query = future.result(max(0.0, self._until - time.monotonic()))
            _load(connection)
        except Exception as error:  # of the model, or of an extension that this machine cannot load
            self.error = queries.said(error)
            return None
        index = self._hybrid.indexes.scan(connection, asked.path, asked.model, asked.count, query)
        return vectors.nearest(connection, asked.model, query, scope, rows, index=index)

    @property
    def progress(self) -> Progress | None:
        """Over all sessions taken in; None where embedding is off and none has vectors."""
        return self._progress


def _load(connection: apsw.Connection) -> None:
    """Give a connection sqlite-vec, unless an earlier search did."""
    try:
        connection.execute("SELECT vec_version()").fetchall()
    except apsw.SQLError:
        vectors.load(connection)
