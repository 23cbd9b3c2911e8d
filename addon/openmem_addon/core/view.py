"""Own the view of a thread: what the model is shown of it, fixed from one trim to the next, and its persisted form."""

from collections.abc import Sequence

import msgspec

from .model import Item, mark

KEPT_VIEWS = 16
"""Cut views a thread remembers: a client that rewinds and returns finds the one its history fits."""

Range = tuple[int, int]
"""Start and stop of a run of item indexes."""


class View(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one epoch of a thread is rendered. Indexes are positions in the client's own history."""

    active: bool = False
    """The agent can look, so we may compress, instruct and speak; settled at the first request or at a cut."""
    instruct: bool = False
    """The standing instruction is in the system text."""
    cut: int | None = None
    """The cut turn; None while nothing was trimmed."""
    dropped: tuple[Range, ...] = ()
    """Items that left, in order and disjoint."""
    gap: Range | None = None
    """The in-turn gap among them, as planned; later trims of this cut only move its stop forward."""
    moved: tuple[int, ...] = ()
    """System messages whose parts stand after the cut turn, because their own place would be refused."""
    moved_after: int | None = None
    """The item they follow."""
    strip: int = 0
    """Items before this index go out without signed reasoning."""
    note: str = ""
    """Pointer and recall, at the start of the cut turn."""
    compressed: dict[str, int] = {}
    """Blob id to the first item index from which results of that content are shown compressed."""
    tokens_after: int = 0
    """Estimate right after the trim that made this view, tokens."""
    marks: tuple[tuple[int, str], ...] = ()
    """Item indexes and their marks: where they all hold, the history is the one this view was made for."""

    def matches(self, items: Sequence[Item]) -> bool:
        """Return whether a history still is the one this view was made for."""
        return all(index < len(items) and mark(items[index]) == known for index, known in self.marks)

    def drops(self, index: int) -> bool:
        return any(start <= index < stop for start, stop in self.dropped)

    def changed(self) -> bool:
        """Return whether this view ever shows the model other bytes than the client sent."""
        return self.instruct or self.cut is not None or self.strip > 0 or bool(self.compressed)


class Sample(msgspec.Struct, frozen=True):
    """What the provider counted of a request we know the size of."""

    prompt: int
    """Reported prompt: input, cache reads and cache writes, tokens."""
    chars: int
    """Code points forwarded."""
    media: int
    """Tokens of its images and documents by our rule."""


class Sent(msgspec.Struct, frozen=True):
    """The last body the provider accepted: what came after it was answered elsewhere."""

    items: int
    fingerprint: str
    """Chained fingerprint of its last row."""


class Thread(msgspec.Struct, frozen=True, omit_defaults=True):
    """One conversation of one lane: its base view, the views its trims made, and what calibrates it."""

    base: View
    views: tuple[View, ...] = ()
    """Newest first."""
    owned: int = 0
    """Chain position from which this lane stored its rows first; earlier ones belong to another lane."""
    sent: Sent | None = None
    warm_until: float = 0
    """Until when the provider may keep the prefix it answered last, seconds since the epoch; 0 not known."""
    first_reply: str = ""
    """Mark of the first assistant item, empty before there is one: it tells a fork from a namesake."""
    valve: bool = False
    """Requests ask the provider to drop reasoning of another prefix instead of refusing: it has refused once."""
    force: bool = False
    """The provider refused the last request in a way that a trim cures."""
    refused: str = ""
    """Mark of the request that was refused last, empty once one was accepted."""
    tried: tuple[str, ...] = ()
    """Remedies used for it."""
    paused: bool = False
    """No trim when it comes again: what was refused came of one."""
    forgotten: bool = False
    """Its replies were stored before this state began: under which view the model gave them is not known."""

    def view(self, items: Sequence[Item]) -> View:
        """Return the newest view that a history fits; the base view fits every history of the thread."""
        return next((view for view in self.views if view.matches(items)), self.base)

    def changed(self) -> bool:
        return self.base.changed() or bool(self.views) or self.valve

    def replacing(self, old: View, new: View) -> "Thread":
        """Return the thread with a view that grew, without a new epoch."""
        if old == self.base:
            return msgspec.structs.replace(self, base=new)
        return msgspec.structs.replace(self, views=tuple(new if view == old else view for view in self.views))

    def trimmed_to(self, view: View) -> "Thread":
        """Return the thread with one more epoch."""
        return msgspec.structs.replace(self, views=(view, *self.views)[:KEPT_VIEWS])


class Tail(msgspec.Struct, frozen=True):
    """Where the rows of a response end that the provider keeps: a later request may send only what is new."""

    key: str
    """Its thread."""
    fingerprint: str
    """Of its last row."""
