"""Own the difference between the rows a request carries and those its session database has.

Pure: the writer reads the index from the file, asks here what to write, and tells the index when
that is committed.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from openmem_store.rows import Row


class Known(msgspec.Struct, frozen=True, gc=False):
    """What the writer remembers of a stored row."""

    seq: int
    in_context: bool
    blob: bool
    """Whether the row names a blob."""


Index = dict[str, Known]
"""Every row of one database, by fingerprint, in the order of `seq`."""


class Fresh(msgspec.Struct, frozen=True):
    """A row to insert."""

    seq: int
    row: Row
    in_context: bool
    blob_id: str | None


class Delta(msgspec.Struct, frozen=True):
    """What one request changes. Empty tuples mean that nothing is written."""

    added: tuple[Fresh, ...]
    """In the order of the conversation, `seq` ascending."""
    left: tuple[str, ...]
    """Fingerprints of stored rows that leave the context."""
    returned: tuple[str, ...]
    """Fingerprints of stored rows that come back into it."""
    blobs: tuple[tuple[str, str], ...]
    """(fingerprint, blob id) of stored rows that had none."""
    cut: int | None
    """`seq` of the cut turn's first row."""

    def __bool__(self) -> bool:
        return bool(self.added or self.left or self.returned or self.blobs)


class Stored(msgspec.Struct, frozen=True):
    """The request stored last. Its rows are not looked at again while nothing about them changes.

    A request carries the whole history, and a row's fingerprint names all rows before it: where the
    last of them is the same, all are.
    """

    index: Index
    """As it was then; another one means that the database was read again."""
    count: int
    last: str
    """Fingerprint of its last row."""
    dropped: frozenset[int]
    owned: int
    blobs: frozenset[int]

    def unchanged(
        self, index: Index, rows: Sequence[Row], dropped: Collection[int], owned: int, blobs: Collection[int]
    ) -> int:
        """Return how many of the first rows of a request are stored as it sends them."""
        count = self.count
        same = (
            index is self.index
            and len(rows) >= count
            and rows[count - 1].fingerprint == self.last
            and owned == self.owned
            and frozenset(place for place in dropped if place < count) == self.dropped
            and frozenset(place for place in blobs if place < count) == self.blobs
        )
        return count if same else 0


def stored(
    index: Index, rows: Sequence[Row], dropped: Collection[int], owned: int, blobs: Collection[int]
) -> Stored | None:
    """Return what to remember of a request that the database now holds; None for one without rows."""
    if not rows:
        return None
    return Stored(index, len(rows), rows[-1].fingerprint, frozenset(dropped), owned, frozenset(blobs))


def compare(
    index: Index,
    rows: Sequence[Row],
    *,
    dropped: Collection[int],
    cut: int | None,
    owned: int,
    blobs: Mapping[int, str],
    start: int = 0,
) -> Delta:
    """Return what to write so that the database holds `rows` as this request sends them.

    `dropped`, `cut` and the keys of `blobs` are indexes into `rows`. Rows before `owned` were
    stored first by another lane: they are inserted when missing, their flags are never touched.
    Rows before `start` are stored as this request sends them.
    """
    out = frozenset(dropped)
    missing: dict[str, int] = {}
    left: list[str] = []
    returned: list[str] = []
    named: list[tuple[str, str]] = []
    for place in range(start, len(rows)):
        row = rows[place]
        known = index.get(row.fingerprint)
        if known is None:
            missing.setdefault(row.fingerprint, place)
            continue
        stays = place not in out
        if place >= owned and known.in_context != stays:
            (returned if stays else left).append(row.fingerprint)
        if place in blobs and not known.blob:
            named.append((row.fingerprint, blobs[place]))
    following = next(reversed(index.values())).seq + 1 if index else 1
    added = tuple(
        Fresh(seq, rows[place], place not in out, blobs.get(place))
        for seq, place in enumerate(missing.values(), following)
    )
    at = None if cut is None else _seq(index, added, rows[cut].fingerprint)
    return Delta(added, tuple(left), tuple(returned), tuple(named), at)


def _seq(index: Index, added: Sequence[Fresh], fingerprint: str) -> int:
    known = index.get(fingerprint)
    if known is not None:
        return known.seq
    return next(fresh.seq for fresh in added if fresh.row.fingerprint == fingerprint)


def apply(index: Index, delta: Delta) -> None:
    """Bring `index` to what the database holds once `delta` is committed."""
    for fresh in delta.added:
        index[fresh.row.fingerprint] = Known(fresh.seq, fresh.in_context, fresh.blob_id is not None)
    for keys, stays in ((delta.left, False), (delta.returned, True)):
        for key in keys:
            known = index[key]
            index[key] = Known(known.seq, stays, known.blob)
    for key, _ in delta.blobs:
        known = index[key]
        index[key] = Known(known.seq, known.in_context, blob=True)
