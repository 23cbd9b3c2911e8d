"""Own what an embedder is, which one the settings ask for, and the form in which a vector is stored.

The proxy asks it for rows, the search server for a query. What each embedder needs is imported when
it is made: without vectors neither process pays for it.
"""

import math
import struct
from collections.abc import Sequence
from typing import Protocol

from openmem_store.settings import Settings

LOCAL = "local"
"""The `embedding_model` that runs in this process, from the packages of the extra `local-embeddings`."""


class Embedder(Protocol):
    """Turns texts into vectors. May be used by several threads at once."""

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        """Return one vector per text, as `packed` makes it, all of one length.

        `timeout` in seconds, for the call; one that runs in this process cannot be stopped and
        ignores it. Raises whatever kept it from an answer.
        """
        ...


class UnavailableError(Exception):
    """An embedder cannot work in this installation. The message names what is missing and how to get it."""


def connect(settings: Settings, model: str) -> Embedder:
    """Return the embedder of `model`, not yet loaded or connected. Raises UnavailableError."""
    if model == LOCAL:
        from openmem_store import localmodel

        return localmodel.LocalModel()
    from openmem_store import endpoint

    return endpoint.Endpoint(settings.embedding_url, model, key=settings.embedding_api_key)


def packed(values: Sequence[float]) -> bytes:
    """Return a vector as the `vectors` table holds it: float32, little-endian.

    Raises ValueError for an empty vector or one that holds no finite number of that size.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("a vector must hold finite numbers, at least one")
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except OverflowError as error:
        raise ValueError("a vector holds a number that is no float32") from error


def dimensions(vector: bytes) -> int:
    return len(vector) // 4
