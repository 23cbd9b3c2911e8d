"""Own what trimming saved: what a session cost, beside what its requests would have cost untrimmed.

The comparison is kept against us. Without a trim, what it removed would have stood in a prompt the provider has
cached, so it counts at the price of a cache read, the lowest there is; what a trim made the provider write to its
cache anew counts in full; what the provider's own cache saves, it saves either way. Compressed tool results are
not counted, as nothing records them.
"""

from collections.abc import Iterable

import msgspec

from openmem_addon.commands import pricing
from openmem_addon.commands.pricing import Counts


class Trim(msgspec.Struct, frozen=True):
    """One trim, as its event says."""

    before: int
    after: int


class Call(msgspec.Struct, frozen=True):
    """One model call, as its event says."""

    model: str | None
    thread: str | None
    trimmed: int
    """2: this request made the cut of the trim before it."""
    counts: Counts
    cached: bool
    """The provider reports what it cached."""


class Savings(msgspec.Struct, frozen=True):
    """The sums over a session, or over many."""

    tokens: int = 0
    """Prompt tokens that were not sent."""
    dollars: float = 0.0
    """Net of what the cache was written anew for; negative where that was more."""
    unpriced: tuple[str, ...] = ()
    """Models without a price: their tokens count, their money does not."""

    def __add__(self, other: "Savings") -> "Savings":
        unpriced = tuple(sorted({*self.unpriced, *other.unpriced}))
        return Savings(self.tokens + other.tokens, self.dollars + other.dollars, unpriced)


class _Thread(msgspec.Struct):
    removed: int = 0
    """Tokens that trims have removed so far."""
    last: int = 0
    """Tokens the prompt before would have had, untrimmed."""


def saved(events: Iterable[Trim | Call]) -> Savings:
    """Return what a session's trims saved; `events` in the order they were recorded."""
    threads: dict[str | None, _Thread] = {}
    waiting: list[Trim] = []
    total = Savings()
    for event in events:
        if isinstance(event, Trim):
            waiting.append(event)
            continue
        thread = threads.setdefault(event.thread, _Thread())
        if event.trimmed == 2 and waiting:
            trim = waiting.pop(0)
            thread.removed += max(0, trim.before - trim.after)
        whole = event.counts.prompt + thread.removed
        total += _of_call(event, thread, whole)
        thread.last = whole
    return total


def _of_call(call: Call, thread: _Thread, whole: int) -> Savings:
    if not thread.removed:
        return Savings()
    known = pricing.price(call.model)
    if known is None:
        return Savings(thread.removed, unpriced=(call.model or "unknown",))
    untrimmed = pricing.cost(known, _untrimmed(call, thread, whole))
    return Savings(thread.removed, untrimmed - pricing.cost(known, call.counts))


def _untrimmed(call: Call, thread: _Thread, whole: int) -> Counts:
    """Return what a call would have counted with everything that was removed still in its prompt."""
    actual = call.counts
    if not call.cached:
        return Counts(whole, 0, 0, actual.output)
    expired = call.trimmed != 2 and actual.read == 0
    if expired:  # nothing was read from the cache, and it was no trim that changed the prompt: nothing would have been
        return Counts(actual.input, 0, whole - actual.input, actual.output)
    new = max(0, whole - thread.last) if call.trimmed == 2 else actual.written
    new = min(new, whole - actual.input)
    return Counts(actual.input, whole - actual.input - new, new, actual.output)
