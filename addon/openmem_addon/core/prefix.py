"""Own what a request shares with the one before it: items that were read once are not read again.

A conversation is sent whole with every request and grows at its end. What a former request
proved is used only where the bytes are equal, compared from the first one on.
"""

from collections.abc import Sequence
from typing import Protocol, cast

import msgspec

from . import source
from .model import Conversation, Item, Totals, totals
from .source import NotSplicable, Span


class Reader(Protocol):
    """Reads a wire's items in order; what an item means may depend on those before it."""

    def item(self, original: bytes, readable: bytes) -> Item: ...

    def resumed(self, items: Sequence[Item]) -> "Reader":
        """Return a reader that stands behind `items`, which this one has read."""
        ...


class Taken[R: Reader](msgspec.Struct, frozen=True):
    """A body taken apart as far as every wire is alike."""

    text: bytes
    """The body without the items that were known: all that is left to decode."""
    places: dict[str, Span]
    """Where each member's value stands in the body."""
    items: tuple[Item, ...]
    totals: Totals
    ends: tuple[int, ...]
    """Where each item ends in the body."""
    reader: R
    shared: int
    """How many of the first items are the known ones."""
    plain: bool
    """The body decodes as it is."""


def take_apart[R: Reader](body: bytes, key: str, known: Conversation | None, fresh: R) -> Taken[R]:
    """Take a body apart whose items stand in the array under `key`.

    `known` is a former request of the same conversation, or any other: what differs is read anew.
    A value under `key` that is no array has no items. Raises NotSplicable, and what a reader
    raises for an item it does not understand.
    """
    shared, resume = _shared(body, key, known)
    reader = fresh
    opening = 0
    text = body
    if known is not None and shared and isinstance(known.reader, type(fresh)):
        opening = known.places[key][0] + 1
        text = body[:opening] + body[resume:]
        reader = cast(R, known.reader.resumed(known.items[:shared]))
    else:
        known, shared = None, 0
    text.decode()  # invalid UTF-8 is nothing to splice, not even where we would not read it
    readable = source.readable(text)
    places = source.members(readable)
    if key not in places:
        raise NotSplicable(f"no {key}")
    start, stop = places[key]
    spans = source.elements(readable[start:stop]) if readable.startswith(b"[", start) else []
    added = tuple(reader.item(text[start + a : start + b], readable[start + a : start + b]) for a, b in spans)
    shift = resume - opening if shared else 0
    ends = tuple(start + b + shift for _, b in spans)
    items = known.items[:shared] + added if known else added
    return Taken(
        text=readable,
        places={name: _shifted(span, start, shift) for name, span in places.items()},
        items=items,
        totals=totals(items, known.totals, shared) if known else totals(items),
        ends=known.ends[:shared] + ends if known else ends,
        reader=reader,
        shared=shared,
        plain=readable is text,
    )


def _shifted(span: Span, start: int, shift: int) -> Span:
    """Return a place in the body from one in the text, which lacks `shift` bytes behind `start`."""
    return (span[0] + shift if span[0] > start else span[0], span[1] + shift if span[1] > start else span[1])


def _shared(body: bytes, key: str, known: Conversation | None) -> tuple[int, int]:
    """Return how many first items a body shares with a known one, and where the next item begins.

    At least one item is left to read, so that the text without the known ones is an array again.
    """
    if known is None or not known.plain or not known.ends:
        return 0, 0
    count = _equal(body, known.body, known.ends)
    while count:
        following = source.next_element(body, known.ends[count - 1])
        if following is not None:
            return count, following
        count -= 1
    return 0, 0


def _equal(body: bytes, known: bytes, ends: Sequence[int]) -> int:
    """Return how many items end inside the common beginning of two bodies.

    The last items are tried first: a client's cache marker, which moves, is on one of them.
    """
    low, high = 0, len(ends)
    for count in range(high, max(0, high - 4), -1):
        if body.startswith(known[: ends[count - 1]]):
            return count
        high = count - 1
    while low < high:
        middle = (low + high + 1) // 2
        if body.startswith(known[: ends[middle - 1]]):
            low = middle
        else:
            high = middle - 1
    return low
