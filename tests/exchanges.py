"""Load the recorded exchanges of `fixtures/exchanges/` and make mitmproxy flows of them."""

from functools import cache

from mitmproxy import http
from mitmproxy.test import tflow, tutils

from fixtures.recording import folders
from fixtures.recording.folders import Recorded

SESSIONS = folders.sessions(folders.ROOT)


@cache
def load(session: str) -> tuple[Recorded, ...]:
    """Return a session's exchanges in their order; do not change their bodies."""
    return tuple(folders.read(folders.ROOT, name) for name in folders.names(folders.ROOT, session))


def every() -> list[Recorded]:
    """Return the exchanges of every session."""
    return [exchange for session in SESSIONS for exchange in load(session)]


def headers(exchange: Recorded) -> dict[str, str]:
    """Return the request headers by lower-case name."""
    return {name.lower(): value for name, value in exchange.headers}


def flow(exchange: Recorded, *, answered: bool = True) -> http.HTTPFlow:
    """Return an exchange as mitmproxy sees it after CONNECT, without its response if not `answered`."""
    request = tutils.treq(
        host="api.anthropic.com",
        port=443,
        method=exchange.method.encode(),
        scheme=b"https",
        authority=b"",
        path=exchange.path.encode(),
        headers=_fields(exchange.headers),
        content=exchange.raw,
    )
    request.headers["content-length"] = str(len(exchange.raw))
    response = tutils.tresp(
        status_code=exchange.status,
        headers=_fields(exchange.answer_headers),
        content=exchange.answer,
    )
    return tflow.tflow(req=request, resp=response if answered else False)


def _fields(pairs: list[tuple[str, str]]) -> http.Headers:
    return http.Headers([(name.encode(), value.encode()) for name, value in pairs])
