"""Own a view applied to one request: what goes out, what it weighs, and which rows it shows the model."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from . import compress
from .model import USER_KINDS, Conversation, Item, Result
from .view import Range, View


class Rendering(msgspec.Struct, frozen=True):
    """All that a wire format needs to write a request under a view."""

    instruct: bool
    kept: tuple[int, ...]
    """Items that go out, in order; those of `moved` are not among them."""
    stripped: frozenset[int]
    """Kept items that lose their signed reasoning."""
    emptied: frozenset[int]
    """Those of them that had nothing else and hold a placeholder."""
    note: str
    noted: int | None
    """The kept item that opens with the note."""
    moved: tuple[int, ...]
    moved_after: int | None
    valve: bool
    """Ask the provider to drop reasoning of another prefix; only a thread it refused does."""
    compressed: Mapping[int, Mapping[int, str]]
    """Item index to content block index to the text that stands for its result."""

    def changes_items(self, total: int) -> bool:
        """Return whether any message goes out other than it came."""
        return len(self.kept) != total or bool(self.stripped or self.noted is not None or self.compressed)


class RowFlags(msgspec.Struct, frozen=True):
    """What the store is told of a request's rows, by their index."""

    dropped: frozenset[int]
    """Rows that this request does not show the model."""
    cut: int | None
    """First row of the cut turn."""
    blobs: dict[int, str]
    """Blob id of each result shown compressed."""


def applied(conversation: Conversation, view: View, chars_per_token: float, *, valve: bool = False) -> Rendering:
    """Return a view applied to a request."""
    items = conversation.items
    kept = _kept(len(items), view)
    if view.moved_after is not None:
        view = msgspec.structs.replace(view, moved_after=_end_of_side(items, kept, view.moved_after))
    stripped = frozenset(index for index in _before(kept, view.strip) if items[index].signed)
    emptied: frozenset[int] = frozenset()
    if any(items[index].bare for index in stripped):
        kept, emptied = _without_bare(items, kept, stripped, view)
    going = stripped.intersection(kept) if emptied or stripped else stripped
    return Rendering(
        instruct=view.instruct,
        kept=tuple(kept),
        stripped=going,
        emptied=emptied,
        note=view.note,
        noted=view.cut,
        moved=view.moved,
        moved_after=view.moved_after,
        valve=valve,
        compressed={
            index: {result.place: compress.form(result, chars_per_token) for result in results}
            for index, item in _heavy(conversation, view)
            if (results := shown_compressed(item, index, view))
        },
    )


def absent(conversation: Conversation, rendering: Rendering) -> frozenset[int]:
    """Return the wire messages a rendering leaves out."""
    if len(rendering.kept) == len(conversation.items):
        return frozenset()
    return frozenset(range(len(conversation.items))) - frozenset(rendering.kept) - frozenset(rendering.moved)


def weight(conversation: Conversation, view: View, chars_per_token: float) -> tuple[int, int]:
    """Return code points and media tokens of a request under a view."""
    totals, items = conversation.totals, conversation.items
    chars = conversation.head_chars + len(view.note) + totals.chars[-1] - _sum(totals.chars, view.dropped)
    media = conversation.head_media + totals.media[-1] - _sum(totals.media, view.dropped)
    chars -= sum(items[index].signed_chars for index in _present(min(view.strip, len(items)), view.dropped))
    for index, item in _heavy(conversation, view):
        for result in shown_compressed(item, index, view):
            chars -= len(result.text) - len(compress.form(result, chars_per_token))
    return chars, media


def row_flags(conversation: Conversation, view: View, rendering: Rendering) -> RowFlags:
    """Return which rows are out of context, where the cut turn's begin, and the blobs of compressed ones."""
    items, first = conversation.items, conversation.totals.rows
    left = absent(conversation, rendering)
    dropped = set(chain.from_iterable(range(first[index], first[index + 1]) for index in left))
    for index in rendering.stripped:
        rows = enumerate(items[index].drafts if items[index].stored else ())
        dropped.update(first[index] + place for place, draft in rows if draft.kind == "thinking")
    blobs = {
        first[index] + result.draft: result.blob
        for index, item in _heavy(conversation, view)
        if index not in left and item.stored
        for result in shown_compressed(item, index, view)
    }
    return RowFlags(frozenset(dropped), first[view.cut] if view.cut is not None else None, blobs)


def shown_compressed(item: Item, index: int, view: View) -> tuple[Result, ...]:
    """Return the results of an item that a view shows compressed."""
    return tuple(
        result for result in item.results if result.blob and index >= view.compressed.get(result.blob, index + 1)
    )


def _heavy(conversation: Conversation, view: View) -> Iterable[tuple[int, Item]]:
    """Yield the kept items with a result long enough to be compressed, where the view compresses any."""
    if view.compressed:
        for index in conversation.totals.heavy:
            if not view.drops(index):
                yield index, conversation.items[index]


def _kept(total: int, view: View) -> Sequence[int]:
    kept = tuple(_present(total, view.dropped))
    return tuple(index for index in kept if index not in view.moved) if view.moved else kept


def _present(stop: int, dropped: Sequence[Range]) -> Iterable[int]:
    """Yield the indexes before `stop` that are in none of the ranges, which are in order."""
    position = 0
    for start, end in dropped:
        if position >= stop:
            return
        yield from range(position, min(start, stop))
        position = end
    yield from range(position, stop)


def _end_of_side(items: Sequence[Item], kept: Sequence[int], start: int) -> int:
    """Return the last message of the user's side that `start` is on: it grows while nothing was answered.

    A user who interrupts speaks twice; a system message between the two would be refused.
    """
    end = start
    for index in kept[bisect_right(kept, start) :]:
        if items[index].kind in USER_KINDS:
            end = index
        elif items[index].kind not in ("pinned", "other"):
            break
    return end


def _before(kept: Sequence[int], stop: int) -> Iterable[int]:
    for index in kept:
        if index >= stop:
            return
        yield index


def _sum(totals: Sequence[int], ranges: Sequence[Range]) -> int:
    return sum(totals[stop] - totals[start] for start, stop in ranges)


def _without_bare(
    items: Sequence[Item], kept: Sequence[int], stripped: frozenset[int], view: View
) -> tuple[list[int], frozenset[int]]:
    """Return the kept items without those left with nothing, and those that keep a placeholder instead."""
    going: list[int] = []
    emptied: set[int] = set()
    for place, index in enumerate(kept):
        if index in stripped and items[index].bare:
            if not _parts_system_from_user(items, going, kept[place + 1 :], view):
                continue
            emptied.add(index)
        going.append(index)
    return going, frozenset(emptied)


def _parts_system_from_user(items: Sequence[Item], before: Sequence[int], after: Sequence[int], view: View) -> bool:
    """Return whether a system message would stand before a user's, were the message between them left out."""
    last = next((index for index in reversed(before) if items[index].kind != "pinned"), None)
    following = next((items[index].kind for index in after if items[index].kind != "pinned"), "assistant")
    instructs = last is not None and (items[last].kind == "system" or last == view.moved_after)
    return instructs and following != "assistant"
