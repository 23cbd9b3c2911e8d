"""Own the end of the proxy: SIGTERM stops new connections and lets running exchanges finish first.

An answer of a model may have been running for minutes; cutting it costs the agent that turn. Tunnels that are
not intercepted carry no answer we could wait for and end with the process.
"""

import asyncio
import signal

from mitmproxy import ctx, http

LIMIT_S = 300.0
"""The longest wait for running exchanges, seconds."""

_SETTLE_S = 0.3  # between the hook at the end of a response and the last of its bytes leaving


class Drain:
    """A mitmproxy addon of its own: it touches no request."""

    def __init__(self, *, limit: float = LIMIT_S, settle: float = _SETTLE_S) -> None:
        self._limit = limit
        self._settle = settle
        self._exchanges: set[str] = set()
        self._draining = False

    def running(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.begin)

    def begin(self) -> None:
        """Stop listening; shut down when the last exchange has ended or the limit has passed. Idempotent."""
        if self._draining:
            return
        self._draining = True
        ctx.options.update(server=False)
        asyncio.get_running_loop().call_later(self._limit, ctx.master.shutdown)
        self._settled()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        self._exchanges.add(flow.id)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        # A client that keeps its connection would send the next request to a proxy that is about to end.
        http1 = not (flow.request.is_http2 or flow.request.is_http3)
        if self._draining and http1 and flow.response is not None and flow.response.status_code != 101:
            flow.response.headers["connection"] = "close"

    def response(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is None:
            self._ended(flow)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._ended(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._ended(flow)

    def _ended(self, flow: http.HTTPFlow) -> None:
        self._exchanges.discard(flow.id)
        if self._draining:
            self._settled()

    def _settled(self) -> None:
        if not self._exchanges:
            asyncio.get_running_loop().call_later(self._settle, self._shut_down_if_idle)

    def _shut_down_if_idle(self) -> None:
        if not self._exchanges:
            ctx.master.shutdown()
