"""Own what trimming saved: what a session cost, beside what its requests would have cost untouched.

The comparison is kept against us. Without a trim, what it removed would have stood in a prompt the provider has
cached, so it counts at the price of a cache read, the lowest there is, as does what a compressed tool result lacks;
what a trim made the provider write to its cache anew counts in full; what the provider's own cache saves, it saves
either way. A look-up of ours is on our bill: what it puts into the prompt, and the whole request that brings its
answer and nothing else.
"""

from collections.abc import Iterable

import msgspec

from openmem_addon.commands import pricing
from openmem_addon.commands.pricing import Counts


class Trim(msgspec.Struct, frozen=True):
    """One trim, as its event says."""

    before: int
    after: int


class Shift(msgspec.Struct, frozen=True):
    """A change of what the following prompts of a thread would hold without us."""

    thread: str | None
    tokens: int
    """What a compressed tool result lacks; negative for what our own tools put in."""
    asked: bool = False
    """It is the answer of a look-up, and all that the next request brings."""


class Call(msgspec.Struct, frozen=True):
    """One model call, as its event says."""

    model: str | None
    thread: str | None
    trimmed: int
    """2: this request made the cut of the trim before it."""
    counts: Counts
    cached: bool
    """The provider reports what it cached."""


Event = Trim | Shift | Call


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
    """Tokens that its prompts lack by now."""
    asked: bool = False
    """The next call would not have been made."""
    last: int = 0
    """Tokens the prompt before would have had, untrimmed."""


def saved(events: Iterable[Event]) -> Savings:
    """Return what was saved in a session; `events` in the order they were recorded."""
    threads: dict[str | None, _Thread] = {}
    waiting: list[Trim] = []
    total = Savings()
    for event in events:
        if isinstance(event, Trim):
            waiting.append(event)
            continue
        thread = threads.setdefault(event.thread, _Thread())
        if isinstance(event, Shift):
            if event.tokens > 0 or thread.removed > 0:  # a look-up before anything left was for something else
                thread.removed += event.tokens
                thread.asked |= event.asked
            continue
        if event.trimmed == 2 and waiting:
            trim = waiting.pop(0)
            thread.removed += max(0, trim.before - trim.after)
        whole = event.counts.prompt + thread.removed
        total += _of_call(event, thread, whole)
        thread.last = whole
        thread.asked = False
    return total


def _of_call(call: Call, thread: _Thread, whole: int) -> Savings:
    if not thread.removed:
        return Savings()
    tokens = -call.counts.prompt if thread.asked else thread.removed
    known = pricing.price(call.model)
    if known is None:
        return Savings(tokens, unpriced=(call.model or "unknown",))
    untouched = 0.0 if thread.asked else pricing.cost(known, _untouched(call, thread, whole))
    return Savings(tokens, untouched - pricing.cost(known, call.counts))


def _untouched(call: Call, thread: _Thread, whole: int) -> Counts:
    """Return what a call would have counted with everything that was removed still in its prompt."""
    actual = call.counts
    whole = max(whole, actual.input)  # what a look-up put in is an estimate
    if not call.cached:
        return Counts(whole, 0, 0, actual.output)
    expired = call.trimmed != 2 and actual.read == 0
    if expired:  # nothing was read from the cache, and it was no trim that changed the prompt: nothing would have been
        return Counts(actual.input, 0, whole - actual.input, actual.output)
    new = max(0, whole - thread.last) if call.trimmed == 2 else actual.written
    new = min(new, whole - actual.input)
    return Counts(actual.input, whole - actual.input - new, new, actual.output)
