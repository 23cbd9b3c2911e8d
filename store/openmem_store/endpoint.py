"""Own the client of an OpenAI-compatible embeddings endpoint: `POST <url>/embeddings`.

No text and no key ever reaches an exception's message: what this raises may be logged by its type.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
import msgspec

from openmem_store.embedding import packed

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


_DECODER = msgspec.json.Decoder(_Answer)


class Endpoint:
    """One model behind one URL."""

    def __init__(self, url: str, model: str, *, key: str = "") -> None:
        """`url` is what `/embeddings` is added to; `key` is sent as a bearer token, unless it is empty."""
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        # A proxy from the environment is for the outside. Ours is one, when an agent started this process.
        outside = urlsplit(url).hostname not in _LOOPBACK
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(headers=headers, trust_env=outside)

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        """Ask once. Raises httpx.HTTPError for no answer or a refusal, ValueError for an answer that is none."""
        request = {"model": self._model, "input": list(texts)}
        answer = self._client.post(self._url, json=request, timeout=timeout)
        answer.raise_for_status()
        items = _DECODER.decode(answer.content).data  # msgspec's errors are ValueErrors
        if sorted(item.index for item in items) != list(range(len(texts))):
            raise ValueError("the endpoint did not answer with one vector per text")
        vectors = [packed(item.embedding) for item in sorted(items, key=lambda item: item.index)]
        if len({len(vector) for vector in vectors}) > 1:
            raise ValueError("the endpoint answered with vectors of several lengths")
        return vectors
