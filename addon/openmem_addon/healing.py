"""Own what happens when a provider refuses what we changed: which refusals may be ours, and what each is cured by.

A refusal is cured by changing the thread and letting the client ask again: its own retry streams,
and nothing of it is shown to the user.
"""

import json
import re
from collections.abc import Mapping

import msgspec
from openmem_store.events import Heal

from .booking import Ticket
from .core.adapter import Route
from .core.view import Thread
from .failopen import Log
from .storage import Storage

HEALABLE = (400, 413, 422)
"""Statuses of a refused request; 401, 403, 429 and 5xx are never caused by what we change."""

MOST_READ = 64 << 10
"""Bytes of an error's body that are looked at."""


class Pattern(msgspec.Struct, frozen=True):
    """A kind of refusal that what we change can cause."""

    name: str
    expression: re.Pattern[str]
    remedies: tuple[str, ...]
    """In the order they are tried, each once until a request is accepted."""


def _pattern(name: str, remedies: tuple[str, ...], *expressions: str) -> Pattern:
    return Pattern(name, re.compile("|".join(expressions), re.IGNORECASE), remedies)


PATTERNS = (
    # platform.claude.com, "Fix: bound to a different conversation"
    _pattern("binding", ("valve", "strip"), r"bound to a different conversation"),
    # platform.claude.com, "Extended thinking": unmodified blocks, and first in a running tool loop
    _pattern(
        "signature",
        ("strip",),
        r"invalid `?signature`?",
        r"thinking.{0,80}cannot be modified",
        r"expected `?(?:redacted_)?thinking`?",
    ),
    # Tool pairs: Anthropic, Chat Completions, Responses, in this order
    _pattern(
        "orphan",
        ("trim",),
        r"tool_use.{0,80}without.{0,20}tool_result",
        r"unexpected `?tool_use_id`?",
        r"tool_result.{0,80}(?:corresponding|previous).{0,20}tool_use",
        r"tool_calls.{0,80}must be followed by tool messages",
        r"messages with role 'tool' must be a response",
        r"no tool call found for",
        r"no tool output found for",
        r"without its required",
    ),
    # A prompt over the window: Anthropic, OpenAI, gateways
    _pattern(
        "long",
        ("trim",),
        r"prompt is too long",
        r"context_length_exceeded",
        r"maximum context length",
        r"exceeds? the context window",
        r"input is too long",
    ),
)

RETRYING = ("x-stainless-retry-count",)
"""Headers of clients whose library retries a 503 by itself."""

RETRYING_AGENTS = ("claude-cli", "codex", "opencode")
"""`user-agent` or `originator` of clients measured to do so."""

MOST_RETRIES = 2
"""A library that retried so often may give up with the next refusal."""


def diagnose(status: int, body: bytes) -> Pattern | None:
    """Return which of our changes may have caused a refusal, None where none can."""
    if status not in HEALABLE:
        return None
    text = body[:MOST_READ].decode(errors="replace")
    return next((pattern for pattern in PATTERNS if pattern.expression.search(text)), None)


def retries(headers: Mapping[str, str]) -> bool:
    """Return whether a client will ask again by itself when told to. `headers` has lower-case names."""
    count = headers.get("x-stainless-retry-count", "")
    if count.isdecimal() and int(count) >= MOST_RETRIES:
        return False
    named = f"{headers.get('user-agent', '')} {headers.get('originator', '')}".lower()
    return any(name in headers for name in RETRYING) or any(agent in named for agent in RETRYING_AGENTS)


class Healing:
    """Changes the thread a refusal was about; runs on the event loop and waits for nothing."""

    def __init__(self, storage: Storage, log: Log) -> None:
        self._storage = storage
        self._log = log

    def treat(self, ticket: Ticket, route: Route, status: int, body: bytes) -> bool:
        """Return whether the same request will be forwarded in another form when it is sent again."""
        pattern = diagnose(status, body)
        session = ticket.session
        thread = session.state.threads.get(ticket.viewed or "")
        if pattern is None or ticket.viewed is None or ticket.view is None or thread is None or not session.owner:
            return False
        if not thread.changed() and pattern.name != "long":
            return False
        for remedy in pattern.remedies:
            treated = None if remedy in thread.tried else _treated(thread, remedy, ticket, route)
            if treated is not None:
                tried = (*thread.tried, remedy)
                session.state.threads[ticket.viewed] = msgspec.structs.replace(treated, tried=tried)
                self._storage.write_state(session)
                self._storage.record(session, Heal(location=remedy, error=pattern.name))
                self._log(f"openmem-context: session {session.sid}: healed a refusal ({pattern.name}) by {remedy}")
                return True
        return False


def _treated(thread: Thread, remedy: str, ticket: Ticket, route: Route) -> Thread | None:
    """Return the thread after a remedy, None where it would change nothing."""
    if remedy == "valve":
        return None if thread.valve or route.valve is None else msgspec.structs.replace(thread, valve=True)
    if remedy == "strip":
        if ticket.view is None or ticket.view.strip >= ticket.items:
            return None
        return thread.stripped(ticket.view, ticket.items)
    return msgspec.structs.replace(thread, force=True) if ticket.key is not None else None


def please_retry() -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of the answer that makes a client ask again at once."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "openmem-context: please retry"}}
    headers = {
        "content-type": "application/json",
        "x-should-retry": "true",
        "retry-after-ms": "1",
        "retry-after": "0",
    }
    return 503, json.dumps(error).encode(), headers
