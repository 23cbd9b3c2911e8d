"""Own the embedding of queries: beside the search, and never longer than a search may wait for it."""

import threading
from concurrent.futures import Future

from openmem_store import embedding
from openmem_store.embedding import Embedder, UnavailableError
from openmem_store.settings import Settings

PATIENCE_S = 1.0
"""Wall time that a search waits for its query's vector. A warm model takes a few hundredths; a cold one is
loading then, and warm for the next search."""

MOST_AT_ONCE = 4
"""Queries that wait for their model; more are refused, since it hangs."""


class Queries:
    """The embedders of this process, made when a model is first asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._embedders: dict[str, Embedder] = {}
        self._waiting = 0

    def ask(self, model: str, query: str) -> Future[bytes]:
        """Begin to embed a query with `model`, in a thread of its own that does not keep the process alive."""
        future: Future[bytes] = Future()
        with self._lock:
            if self._waiting >= MOST_AT_ONCE:
                future.set_exception(TimeoutError(f"{self._waiting} earlier queries still wait for the model"))
                return future
            self._waiting += 1
        threading.Thread(target=self._embed, args=(future, model, query), daemon=True).start()
        return future

    def _embed(self, future: Future[bytes], model: str, query: str) -> None:
        try:
            with self._lock:
                if model not in self._embedders:
                    self._embedders[model] = embedding.connect(self._settings, model)
                embedder = self._embedders[model]
            head = query[: self._settings.embedding_max_chars]
            (vector,) = embedder.embed([head], timeout=self._settings.embedding_timeout_s)
        except Exception as error:  # whatever a model or its endpoint may do wrong: the search goes on without
            future.set_exception(error)
        else:
            future.set_result(vector)
        finally:
            with self._lock:
                self._waiting -= 1


def said(error: Exception) -> str:
    """Return what an answer says of a query that could not be embedded. Shows neither a text nor a key."""
    if isinstance(error, UnavailableError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"the embedding model did not answer within {PATIENCE_S:g} s; it may still be loading, so ask again"
    return f"the embedding model failed ({type(error).__name__})"
