"""Own the replay of a recorded session through the engine: what its requests would have been, and what they would cost.

The cache is modelled as one that never expires: what a request shares with the one before it, byte for byte from
the first on, is read; the rest is written. So a trim pays for every byte it moves, and gains nothing from pauses.
"""

import msgspec
from openmem_store.rows import Row

from openmem_addon.commands import pricing
from openmem_addon.commands.history import History, Request
from openmem_addon.commands.pricing import Counts
from openmem_addon.core import rewrite, source
from openmem_addon.core.model import Conversation
from openmem_addon.core.rewrite import Policy
from openmem_addon.core.source import Span
from openmem_addon.core.view import Sample, Thread

_CLOSING = 1
"""Bytes behind the last item of a prompt, where the next one goes on."""


class Outcome(msgspec.Struct):
    """The sums over the requests of one session, or of many."""

    requests: int = 0
    prompt: int = 0
    """Tokens of all prompts."""
    largest: int = 0
    """Tokens of the largest prompt."""
    breaks: int = 0
    """Requests that did not begin with the one before them, beside the first of each conversation."""
    trims: int = 0
    dollars: float = 0.0
    unpriced: set[str] = set()
    """Models without a price."""

    def add(self, other: "Outcome") -> None:
        self.requests += other.requests
        self.prompt += other.prompt
        self.largest = max(self.largest, other.largest)
        self.breaks += other.breaks
        self.trims += other.trims
        self.dollars += other.dollars
        self.unpriced |= other.unpriced


class _Line(msgspec.Struct):
    """One conversation of a session, as far as it was replayed."""

    thread: Thread | None = None
    sample: Sample | None = None
    sent: bytes = b""


def replay(history: History, policy: Policy, *, ratio: float) -> Outcome:
    """Send a session's requests through the engine; `policy.may_change` False sends them as they were.

    `ratio`: characters per token of this session. Raises NotSplicable for a body that does not read.
    """
    outcome = Outcome()
    lines: dict[str, _Line] = {}
    adapter = history.route.adapter
    known: Conversation | None = None
    rows: tuple[Row, ...] = ()
    for request in history.requests:
        conversation = adapter.parse(history.body(request), known)
        line = lines.setdefault(rewrite.root(conversation) or "", _Line())
        result = rewrite.decide(conversation, line.thread, policy, sample=line.sample, known_rows=rows)
        known, rows = conversation, result.rows
        if result.changes_body:
            sent = adapter.render(conversation, result.rendering)
            place = source.members(sent)[history.array]
        else:
            sent, place = conversation.body, conversation.places[history.array]
        body = prompt_order(sent, place)
        tokens = round(result.chars / ratio) + result.media
        _book(outcome, request, line.sent, body, tokens)
        outcome.trims += result.trim is not None
        line.thread, line.sent = result.thread, body
        line.sample = Sample(tokens, result.chars, result.media)
    return outcome


def ratio(history: History, *, usual: float) -> float:
    """Return the characters per token of a session by the provider's own count of its first request, else `usual`."""
    for request in history.requests:
        if request.counted is not None:
            conversation = history.route.adapter.parse(history.body(request))
            chars = conversation.head_chars + conversation.totals.chars[-1]
            media = conversation.head_media + conversation.totals.media[-1]
            found = chars / max(1, request.counted.prompt - media)
            # What the file lacks of a request (the tools, in older ones) makes its text look too small.
            return found if 1.5 <= found <= 6 else usual
    return usual


def _book(outcome: Outcome, request: Request, before: bytes, body: bytes, tokens: int) -> None:
    shared = common(before, body)
    read = round(tokens * shared / len(body))
    outcome.requests += 1
    outcome.prompt += tokens
    outcome.largest = max(outcome.largest, tokens)
    outcome.breaks += bool(before) and shared < len(before) - _CLOSING
    known = pricing.price(request.model)
    if known is None:
        outcome.unpriced.add(request.model or "unknown")
        return
    output = request.counted.output if request.counted else 0
    outcome.dollars += pricing.cost(known, Counts(0, read, tokens - read, output))


def prompt_order(body: bytes, items: Span) -> bytes:
    """Return a body as the model reads it: system, tools and all else before the items, which stand at that place."""
    start, stop = items
    return body[:start] + body[stop:] + body[start:stop]


def common(one: bytes, other: bytes) -> int:
    """Return how many bytes two bodies share from the first on."""
    low, high = 0, min(len(one), len(other))
    if one[: high - _CLOSING] == other[: high - _CLOSING]:
        low = max(0, high - _CLOSING)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
