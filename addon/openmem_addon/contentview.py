"""Own what mitmweb and mitmproxy's console show of a rewritten request, and how many exchanges they keep.

Idle under mitmdump, which shows nothing and keeps nothing.
"""

from collections import OrderedDict
from typing import Literal

from mitmproxy import contentviews, ctx, http
from mitmproxy.addons.view import View
from mitmproxy.contentviews import Contentview, Metadata

from .core import adapter, comparison
from .core.decoding import MOST_DECODED, decoded

MOST_KEPT = 64 << 20
"""Bytes of requests as the agents sent them, the newest ones; beside these mitmproxy holds what was forwarded."""

MOST_FLOWS = 100
"""Exchanges on the page. mitmproxy would keep all, some 2 MB for each request of a long session, until it ends."""


class Originals:
    """Requests as they came, by flow id: the newest that fit into so many bytes."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._size = 0
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, flow_id: str, body: bytes) -> None:
        self.forget(flow_id)
        self._bodies[flow_id] = body
        self._size += len(body)
        while self._size > self._most:
            self.forget(next(iter(self._bodies)))

    def forget(self, flow_id: str) -> None:
        self._size -= len(self._bodies.pop(flow_id, b""))

    def get(self, flow_id: str) -> bytes | None:
        return self._bodies.get(flow_id)


class Rewritten(Contentview):
    """What left a prompt, what changed in it, and what stands in its place."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals

    @property
    def name(self) -> str:
        return "OpenMem"

    @property
    def syntax_highlight(self) -> Literal["yaml"]:
        return "yaml"

    def render_priority(self, data: bytes, metadata: Metadata) -> float:
        return 3 if self._of(data, metadata) is not None else -1  # mitmproxy's own views of JSON say 1 and 2

    def prettify(self, data: bytes, metadata: Metadata) -> str:
        """Return the report. Raises ValueError for what is no request of ours, or one whose original is gone."""
        original = self._of(data, metadata)
        if original is None:
            raise ValueError("not a request to a model, or an old one: what its agent sent is no longer kept")
        route, body = original
        if body == data:
            return "forwarded as it came"
        return "\n".join(comparison.describe(route.adapter.parse(body), route.adapter.parse(data)))

    def _of(self, data: bytes, metadata: Metadata) -> tuple[adapter.Route, bytes] | None:
        flow = metadata.flow
        if not isinstance(flow, http.HTTPFlow) or metadata.http_message is not flow.request:
            return None
        route, body = adapter.for_path(flow.request.path), self._originals.get(flow.id)
        return (route, body) if route is not None and body is not None else None


class Inspection:
    """An addon that must stand before the one that rewrites: it takes note of what comes, and changes nothing."""

    def __init__(self) -> None:
        self._page: View | None = None
        self._originals = Originals()

    def running(self) -> None:
        page = ctx.master.addons.get("view")
        if isinstance(page, View):
            self._page = page
            contentviews.add(Rewritten(self._originals))

    def request(self, flow: http.HTTPFlow) -> None:
        sent = flow.request.raw_content
        if self._page is None or sent is None or adapter.for_path(flow.request.path) is None:
            return
        try:
            body = decoded(sent, flow.request.headers.get("content-encoding", ""), most=MOST_DECODED)
        except ValueError:
            return  # it will pass as it is, and the addon that rewrites says so
        self._originals.keep(flow.id, body)

    def response(self, flow: http.HTTPFlow) -> None:
        self._tidy()

    def error(self, flow: http.HTTPFlow) -> None:
        self._tidy()

    def _tidy(self) -> None:
        """Take the oldest finished exchanges off the page, save those that a person marked."""
        page = self._page
        if page is None or page.store_count() <= MOST_FLOWS:
            return
        known = page.resolve("@all")
        finished = [flow for flow in known if isinstance(flow, http.HTTPFlow) and not (flow.marked or _runs(flow))]
        finished.sort(key=lambda flow: flow.timestamp_start)
        for flow in finished[: page.store_count() - MOST_FLOWS]:
            self._originals.forget(flow.id)
            page.remove([flow])


def _runs(flow: http.HTTPFlow) -> bool:
    ended = flow.response is not None and flow.response.timestamp_end is not None
    return flow.error is None and not ended
