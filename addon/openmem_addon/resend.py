"""Own the one answer the proxy fetches itself: a cured request, sent again for a client that will not ask twice.

It is buffered, as mitmproxy streams only what it fetched itself.
"""

import ssl
from collections.abc import Iterable, Mapping

import httpx
import msgspec

ANSWER_S = 600.0
"""Longest silence of a model that is waited for, seconds."""

CONNECT_S = 30.0
"""Longest wait for a connection, seconds: the provider has just answered on another one."""

_OWN = frozenset(
    "accept-encoding connection content-encoding content-length expect keep-alive proxy-authorization"
    " proxy-connection te trailer transfer-encoding upgrade".split()
)
"""Request headers that are about one connection, or about bytes as they were on it."""

_FRAMING = frozenset("connection content-encoding content-length keep-alive trailer transfer-encoding".split())
"""Response headers likewise."""


class Upstream(msgspec.Struct, frozen=True):
    """How the provider is reached; as mitmproxy was told to."""

    roots: str | None = None
    """PEM file its certificate must be signed by, None for the public roots."""
    verified: bool = True
    through: str | None = None
    """The proxy behind this one."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """In order, names as they came."""
    body: bytes
    """Whole, and decoded."""


async def resend(url: str, headers: Mapping[str, str], body: bytes, upstream: Upstream) -> Answer:
    """Send a request and return its whole answer. Raises httpx.HTTPError, and OSError for a bad `roots`.

    The `host` header is kept: it may differ from the address.
    """
    kept = {name: value for name, value in headers.items() if name not in _OWN}
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    verify = _trust(upstream)
    async with httpx.AsyncClient(verify=verify, proxy=upstream.through, timeout=timeout, trust_env=False) as client:
        answer = await client.post(url, content=body, headers={**kept, "accept-encoding": "identity"})
    return Answer(answer.status_code, _without_framing(answer.headers.raw), answer.content)


def _trust(upstream: Upstream) -> ssl.SSLContext | bool:
    if not upstream.verified:
        return False
    return ssl.create_default_context(cafile=upstream.roots) if upstream.roots else True


def _without_framing(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, value) for name, value in headers if name.decode("latin-1").lower() not in _FRAMING)
