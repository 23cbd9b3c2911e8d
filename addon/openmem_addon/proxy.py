"""Own the mitmproxy hooks: a flow becomes a request, the response a tap. Nothing else on the path knows mitmproxy.

An exception here would be logged and the request forwarded, with whatever was already changed;
so the body is assigned last, and only when it differs.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
from mitmproxy import ctx, http
from mitmproxy.connection import Address
from mitmproxy.proxy import mode_specs
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from openmem_store import retention, settings
from openmem_store.embedding import UnavailableError
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.settings import Settings
from openmem_store.version import code_hash

from . import embedder, hosts
from .booking import Ticket
from .core import adapter
from .core.adapter import Route
from .core.decoding import MOST_DECODED, decoded
from .core.usage import Tap
from .embedder import Background
from .failopen import failure, to_stderr
from .healing import please_retry, retries
from .refusals import HEALABLE
from .resend import Answer, Upstream, resend
from .session import BYPASS_HEADER, Inbound, Sessions

HEALTH_HOST = "openmem.local"
"""A host that is none: a request for it through a regular proxy asks the proxy itself."""

HEALTH_PATHS = ("/health", "/openmem/health")
"""Through a regular proxy, and straight to a reverse one."""

WEBSOCKET_PATH = "/responses"
"""End of a path on which a client may ask for a WebSocket: it would send only what is new, and its history never."""

BETA = "anthropic-beta"

STREAMED = 400
"""What a refusal counts as that came behind a status of 200, as an error inside the answer."""

LARGE = 1 << 20
"""Bytes from which a body that we do not read is not held in memory."""

WORKERS = 4
"""Threads for parsing and rendering; more only wait for the interpreter lock."""


class _Flight(msgspec.Struct):
    """What we hold of a flow between its request and the end of its response."""

    inbound: Inbound
    ticket: Ticket | None = None
    tap: Tap | None = None
    refused: bool = False
    """The answer is a refusal that what we changed may have caused; it is held back until it is looked at."""


class OpenMem:
    """The addon."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight] = {}
        """By flow id. Live objects stay out of `flow.metadata`, which mitmproxy writes to disk with the flow."""
        self._requests = 0
        self._sessions: Sessions | None = None
        self._hosts: tuple[hosts.Host, ...] = ()
        self._root = ""
        self._refuses_websocket = True
        self._told_of_websocket = False
        self._unreachable: set[Address] = set()
        """Of providers; said once each."""
        self._queue: WriteQueue | None = None
        self._embedder: Background | None = None
        self._pools: list[ThreadPoolExecutor] = []

    # --- life -------------------------------------------------------------------------------------------------------

    def running(self) -> None:
        """Open the store; a setting that cannot be used ends the start with its own message."""
        loaded = settings.load(os.environ)
        for warning in loaded.warnings:
            to_stderr(f"openmem-context: {warning}")
        values = loaded.settings
        self._hosts = (*hosts.PROVIDERS, *map(hosts.parse, values.provider_hosts))
        self._root = str(values.root)
        self._refuses_websocket = values.codex_websocket == "refuse"
        layout = Layout(values.root)
        layout.prepare()
        self._queue = WriteQueue(layout, version=f"proxy:{code_hash()}", log=to_stderr)
        workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="openmem-work")
        disk = ThreadPoolExecutor(1, thread_name_prefix="openmem-disk")
        self._pools = [workers, disk]
        self._embedder = _embedder(values, layout, self._queue)
        stored = self._embedder.stored if self._embedder else None
        self._sessions = Sessions(values, layout, self._queue, workers=workers, disk=disk, log=to_stderr, stored=stored)
        workers.submit(_sweep, layout, values.ttl_days, self._queue)

    def done(self) -> None:
        """Drain the writes, at most 5 s. Must not be async: mitmproxy calls it synchronously on a reload."""
        if self._embedder is not None:
            self._embedder.close()
        for pool in reversed(self._pools):
            pool.shutdown(wait=False)
        if self._queue is not None:
            self._queue.close()

    # --- requests ---------------------------------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Buffer what we rewrite; let other large uploads through as they come."""
        if self._route(flow) is None and _is_large(flow.request):
            flow.request.stream = True

    async def request(self, flow: http.HTTPFlow) -> None:
        if self._asks_health(flow.request):
            flow.response = self._health()
            return
        if self._asks_websocket(flow):
            self._answer_upgrade(flow)
            return
        route = self._route(flow)
        if route is None or self._sessions is None:
            return
        self._requests += 1
        sent = flow.request.raw_content
        if sent is None:
            return  # larger than mitmproxy buffers: it is already on its way
        try:
            body = decoded(sent, flow.request.headers.get("content-encoding", ""), most=MOST_DECODED)
        except ValueError as error:
            to_stderr(str(failure(error)))
            return
        headers = {name.lower(): value for name, value in flow.request.headers.items()}
        flow.request.headers.pop(BYPASS_HEADER, None)
        inbound = Inbound(route, headers, body)
        outcome = await self._sessions.handle(inbound)
        self._flights[flow.id] = _Flight(inbound, outcome.ticket)
        if outcome.beta is not None:
            flow.request.headers.update(_beta(inbound, outcome.beta))
        if outcome.body != body:
            flow.request.content = outcome.body

    def _route(self, flow: http.HTTPFlow) -> Route | None:
        """Return what a request asks of a provider, None for one that is not ours to read."""
        request = flow.request
        if request.method != "POST" or "upgrade" in request.headers or not self._is_provider(flow):
            return None
        return adapter.for_path(request.path)

    def _is_provider(self, flow: http.HTTPFlow) -> bool:
        if isinstance(flow.client_conn.proxy_mode, mode_specs.ReverseMode):
            return True
        return hosts.permits(self._hosts, flow.request.host, flow.request.port)

    def _asks_websocket(self, flow: http.HTTPFlow) -> bool:
        request = flow.request
        path = request.path.partition("?")[0].rstrip("/")
        upgrades = request.headers.get("upgrade", "").lower() == "websocket"
        return upgrades and path.endswith(WEBSOCKET_PATH) and self._is_provider(flow)

    def _answer_upgrade(self, flow: http.HTTPFlow) -> None:
        """Refuse a WebSocket in the way that makes a client go on over HTTP at once, or say what passing it means."""
        if self._refuses_websocket:
            flow.response = http.Response.make(426)
        elif not self._told_of_websocket:
            self._told_of_websocket = True
            to_stderr("openmem-context: a WebSocket passes: its session is not stored and cannot be trimmed")

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Keep no message of a WebSocket that passes: mitmproxy holds each until the connection ends."""
        if flow.websocket is not None and self._asks_websocket(flow):
            del flow.websocket.messages[:-1]

    # --- responses --------------------------------------------------------------------------------------------------

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream every response; beside it, read the usage of those we rewrote."""
        response = flow.response
        if response is None or response.status_code == 101:
            return
        flight = self._flights.get(flow.id)
        if flight is None or flight.ticket is None:
            response.stream = True
            return
        if response.status_code in HEALABLE:
            flight.refused = True
        elif not 200 <= response.status_code < 300:
            self._flights.pop(flow.id)
            if self._sessions is not None:
                self._sessions.booking.refused(flight.ticket)
            response.stream = True
        else:
            flight.tap = _tap(flight.inbound, response)
            response.stream = self._reading(flight.tap)

    @staticmethod
    def _reading(tap: Tap):
        """Return a stream callable that passes each chunk on; an exception in it would lose the chunk."""

        def pass_on(chunk: bytes) -> bytes:
            try:
                tap.feed(chunk)
            except Exception as error:
                to_stderr(str(failure(error)))
            return chunk

        return pass_on

    async def response(self, flow: http.HTTPFlow) -> None:
        flight = self._flights.get(flow.id)
        if flight is not None and flight.refused:
            await self._heal(flow, flight)
        await self._ended(flow)

    async def _heal(self, flow: http.HTTPFlow, flight: _Flight) -> None:
        """Let a refusal we may have caused be asked again in another form; any other passes as it came.

        A client that will not ask again gets the answer of a request of our own; where that is
        refused too and nothing more can be done, the first refusal.
        """
        if flow.response is None or self._sessions is None:
            return
        status, refusal = flow.response.status_code, flow.response.get_content(strict=False) or b""
        sent = flow.request.get_content(strict=False) or b""
        while flight.ticket is not None and await self._sessions.heal(
            flight.ticket, flight.inbound, status=status, refusal=refusal, sent=sent
        ):
            if retries(flight.inbound.headers):
                flow.response = http.Response.make(*please_retry())
                return
            answer, sent = await self._asked_again(self._sessions, flow, flight)
            if answer is None:
                return
            if answer.status not in HEALABLE:
                flow.response = http.Response.make(answer.status, answer.body, answer.headers)
                if 200 <= answer.status < 300 and flight.ticket is not None:
                    flight.tap = _tap(flight.inbound, flow.response)
                    flight.tap.feed(answer.body)
                return
            status, refusal = answer.status, answer.body

    async def _asked_again(
        self, sessions: Sessions, flow: http.HTTPFlow, flight: _Flight
    ) -> tuple[Answer | None, bytes]:
        """Return the answer to the same request in its new form, None where it got none, and that form."""
        if flight.ticket is not None:
            sessions.booking.refused(flight.ticket)
        outcome = await sessions.handle(flight.inbound)
        flight.ticket = outcome.ticket
        headers = {name.lower(): value for name, value in flow.request.headers.items() if name.lower() != BETA}
        headers |= _beta(flight.inbound, outcome.beta)
        try:
            return await resend(flow.request.url, headers, outcome.body, _upstream(flow)), outcome.body
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            to_stderr(str(failure(error)))
            return None, outcome.body

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        """Say that a provider cannot be reached: the agent gets a 502 and would blame the provider.

        Once until it can be: an agent asks again and again.
        """
        address = data.server.address
        if address is None or address in self._unreachable:
            return
        whole = isinstance(data.client.proxy_mode, mode_specs.ReverseMode | mode_specs.UpstreamMode)
        if whole or hosts.permits(self._hosts, *address[:2]):
            self._unreachable.add(address)
            to_stderr(f"openmem-context: {address[0]}:{address[1]} cannot be reached: {data.server.error}")

    def server_connected(self, data: ServerConnectionHookData) -> None:
        if data.server.address is not None:
            self._unreachable.discard(data.server.address)

    async def error(self, flow: http.HTTPFlow) -> None:
        """Book what was read so far: a client may hang up after the last event, and a provider in the middle."""
        await self._ended(flow)

    async def _ended(self, flow: http.HTTPFlow) -> None:
        """Book an answer, once. One that failed behind its status has reached the client: its cure is for the next."""
        flight = self._flights.pop(flow.id, None)
        if flight is None or flight.ticket is None or self._sessions is None:
            return
        usage = flight.tap.result() if flight.tap is not None else None
        refusal = flight.tap.refusal if flight.tap is not None else b""
        if refusal:
            sent = flow.request.get_content(strict=False) or b""
            await self._sessions.heal(flight.ticket, flight.inbound, status=STREAMED, refusal=refusal, sent=sent)
        if usage is None or (refusal and usage.prompt() is None):
            self._sessions.booking.refused(flight.ticket)
        else:
            self._sessions.booking.answered(flight.ticket, usage)

    # --- health -----------------------------------------------------------------------------------------------------

    def _asks_health(self, request: http.Request) -> bool:
        host, path = request.host, request.path.partition("?")[0]
        return (host == HEALTH_HOST and path == HEALTH_PATHS[0]) or path == HEALTH_PATHS[1]

    def _health(self) -> http.Response:
        answer = {
            "service": "openmem-context",
            "version": code_hash(),
            "pid": os.getpid(),
            "root": self._root,
            "requests": self._requests,
            "fail_opens": self._sessions.fail_opens if self._sessions else 0,
        }
        return http.Response.make(200, json.dumps(answer), {"content-type": "application/json"})


def _upstream(flow: http.HTTPFlow) -> Upstream:
    """Return how mitmproxy itself reached the provider."""
    mode = flow.client_conn.proxy_mode
    through = None
    if isinstance(mode, mode_specs.UpstreamMode):
        host, port = mode.address
        through = f"{mode.scheme}://{host}:{port}"
    return Upstream(
        roots=ctx.options.ssl_verify_upstream_trusted_ca or None,
        verified=not ctx.options.ssl_insecure,
        through=through,
    )


def _tap(inbound: Inbound, response: http.Response) -> Tap:
    return Tap(
        inbound.route.adapter.usage,
        content_type=response.headers.get("content-type", ""),
        content_encoding=response.headers.get("content-encoding", ""),
    )


def _beta(inbound: Inbound, wanted: str | None) -> dict[str, str]:
    """Return the header that switches features on: as the client sent it, or with one more value."""
    stated = inbound.headers.get(BETA)
    if wanted is None:
        return {} if stated is None else {BETA: stated}
    return {BETA: _with_beta(stated or "", wanted)}


def _with_beta(stated: str, value: str) -> str:
    """Return the header's values with one more."""
    values = [known.strip() for known in stated.split(",") if known.strip()]
    return ",".join(values if value in values else [*values, value])


def _is_large(request: http.Request) -> bool:
    length = request.headers.get("content-length", "")
    return "transfer-encoding" in request.headers or (length.isdecimal() and int(length) > LARGE)


def _embedder(values: Settings, layout: Layout, queue: WriteQueue) -> Background | None:
    """Return what embeds the stored rows; None where that is off, or cannot be, which is said once."""
    try:
        work = embedder.work(values, layout, queue, log=to_stderr)
    except UnavailableError as error:
        to_stderr(f"openmem-context: no vectors: {error}")
        return None
    return Background(work) if work is not None else None


def _sweep(layout: Layout, ttl_days: int, queue: WriteQueue) -> None:
    """Delete sessions past their time, at most once a day."""
    try:
        retention.sweep(layout, ttl_days=ttl_days, now=time.time(), busy=queue.busy())
    except Exception as error:
        to_stderr(str(failure(error)))
