"""Short ways to give stored rows vectors, and to ask for a query's."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from openmem_store import embedding, schema
from openmem_store.embedding import Embedder
from openmem_store.settings import Settings
from openmem_store.writer import SessionWriter

from tests.embeddings import vector
from tests.store.reader.conversation import VERSION

EAST, NORTH, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def embed(path: Path, vectors: Mapping[int, Sequence[float] | bytes], *, model: str = "m") -> Path:
    """Store vectors by `seq`; bytes are stored as they are."""
    connection = schema.open_reader(path)
    try:
        names = dict(connection.execute("SELECT seq, fingerprint FROM messages"))
    finally:
        connection.close()
    writer = SessionWriter(path, version=VERSION)
    try:
        given = {names[seq]: v if isinstance(v, bytes) else vector(*v) for seq, v in vectors.items()}
        writer.store_vectors(model, given)  # type: ignore[arg-type]
    finally:
        writer.close()
    return path


class Known:
    """An embedder that knows the vectors of some texts."""

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.asked: list[str] = []
        self.go: threading.Event | None = None
        """Held until it is set."""
        self.error: Exception | None = None

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        self.asked += texts
        if self.go is not None:
            self.go.wait()
        if self.error is not None:
            raise self.error
        return [vector(*self.vectors[text]) for text in texts]


def answering(monkeypatch: pytest.MonkeyPatch, **models: Embedder) -> None:
    """Make these the embedders of their models."""

    def connect(settings: Settings, model: str) -> Embedder:
        return models[model]

    monkeypatch.setattr(embedding, "connect", connect)
