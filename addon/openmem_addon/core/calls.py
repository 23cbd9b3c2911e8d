"""Own which call an id stands for at any place of a history: some back ends use an id again in a later turn."""

from typing import Self


class Calls[T]:
    """What is known of each call, by its id and the index of its item."""

    def __init__(self, made: dict[str, tuple[tuple[int, T], ...]] | None = None) -> None:
        self._made = made or {}

    def __len__(self) -> int:
        """Return how many ids were used."""
        return len(self._made)

    def add(self, call: str, index: int, known: T) -> None:
        """Note a call; items come in order."""
        self._made[call] = (*self._made.get(call, ()), (index, known))

    def latest(self, call: str) -> T | None:
        """Return what is known of the last call with an id, None for an id nobody used."""
        made = self._made.get(call)
        return made[-1][1] if made else None

    def before(self, index: int) -> Self:
        """Return what was known before the item of an index; changes to one leave the other alone."""
        earlier = ((call, tuple(one for one in made if one[0] < index)) for call, made in self._made.items())
        return type(self)({call: made for call, made in earlier if made})
