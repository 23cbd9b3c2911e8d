"""Own what words add up to for a row: those it holds, and those that the rows beside it hold."""

from collections.abc import Iterable, Sequence

import msgspec

from openmem_store.reader.turns import REACH

BESIDE = (0.6, 0.3)
"""What a word counts for a row when it is in the next row of its thread, and in the one after: an answer
rarely repeats the words of its question. Measured: 0.62 without. A word counts once, in the row or
beside it, so a run of equal rows does not lift itself over a row that holds every word."""

_SHARES = (0.0, *reversed(BESIDE), 1.0)
"""By how near a word is: out of reach, in a row beside, in the row itself."""


class Spread(msgspec.Struct, frozen=True):
    """Where a word is, and what it weighs against the others."""

    places: Iterable[int]
    weight: float


def scores(places: Sequence[int], words: Sequence[Spread], last: int) -> dict[int, float]:
    """Return the share of all the words' weight that is at and near each of `places`, from 0 to 1.

    No place is below 0 or above `last`.
    Most places of a session are near the same words in the same way: each way is added up once.
    """
    if not words:
        return dict.fromkeys(places, 0.0)
    total = sum(word.weight for word in words) or 1.0
    sums = _Sums([[share * word.weight / total for share in _SHARES] for word in words])
    indexes = [place + REACH for place in places]
    near = zip(*(map(_near(word.places, last).__getitem__, indexes) for word in words), strict=True)
    return dict(zip(places, map(sums.__getitem__, near), strict=True))


def _near(places: Iterable[int], last: int) -> bytes:
    """Return how near a word is to each place, a bit for each distance, the highest for the place itself.

    Place 0 is at index `REACH`. One number stands for all places, since most rows of a session may hold a
    word, and shifting it reaches what is beside each of them at once.
    """
    marks = bytearray(last + 1 + 2 * REACH)
    for place in places:
        marks[place] = 1
    here = near = int.from_bytes(marks, "little") << 8 * REACH
    for distance in range(1, REACH + 1):
        near = near << 1 | here << 8 * distance | here >> 8 * distance
    return near.to_bytes(len(marks), "little")


class _Sums(dict[tuple[int, ...], float]):
    """What words add up to, by the bits that say how near each is."""

    def __init__(self, gains: Sequence[Sequence[float]]) -> None:
        super().__init__()
        self._gains = gains

    def __missing__(self, near: tuple[int, ...]) -> float:
        found = 0.0  # not `sum`, which rounds otherwise
        for gain, bits in zip(self._gains, near, strict=True):
            found += gain[bits.bit_length()]
        self[near] = found
        return found
