"""Own the one answer the proxy fetches itself: a cured request, sent again for a client that will not ask twice.

It is buffered, as mitmproxy streams only what it fetched itself.
"""

import ssl
from collections.abc import Mapping

import httpx
import msgspec

ANSWER_S = 600.0
"""Longest silence of a model that is waited for, seconds."""

_OWN = frozenset({"host", "content-length", "content-encoding", "transfer-encoding", "connection", "accept-encoding"})
"""Request headers that this connection sets for itself."""

_FRAMING = frozenset({"content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive"})
"""Response headers that describe bytes as they were on that connection."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """Whole, and decoded."""


async def resend(
    url: str, headers: Mapping[str, str], body: bytes, *, roots: str | None, through: str | None
) -> Answer:
    """Send a request and return its whole answer. Raises httpx.HTTPError.

    `roots` is a PEM file the upstream must be signed by, None for the public ones; `through` is
    the proxy behind this one.
    """
    kept = {name: value for name, value in headers.items() if name not in _OWN}
    verify = ssl.create_default_context(cafile=roots) if roots else True
    async with httpx.AsyncClient(verify=verify, proxy=through, timeout=ANSWER_S, trust_env=False) as client:
        answer = await client.post(url, content=body, headers={**kept, "accept-encoding": "identity"})
    named = tuple((name, value) for name, value in answer.headers.items() if name not in _FRAMING)
    return Answer(answer.status_code, named, answer.content)
