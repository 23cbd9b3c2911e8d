"""Own an invented session of a chosen size: the text that the store's benchmarks write and search.

Words follow Zipf's law over a vocabulary of invented ones, lines look like code, logs, paths and
prose, and most lines stand in tool results, as in a coding session. The same seed gives the same text.
"""

import itertools
import random
from collections.abc import Iterator

from openmem_store.rows import Draft, Row, chain

VOCABULARY = 20_000
"""Distinct words; a session of 30 MB of real code has some tens of thousands."""

RARE = ("quartzlamp", "velvetanchor", "tinmeadow")
"""Words that each stand in about one line of 25,000 and nowhere else."""

_SYLLABLES = "ba co di fe go hu ja ke li mo na pe ri so tu va we ya zo lan mer tor vin sel dar kin pol rum gest".split()


class Corpus:
    """A source of rows."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._words = _vocabulary(self._random)
        self._weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(VOCABULARY)))

    def rows(self, messages: int, lines: int) -> tuple[Row, ...]:
        """Return a history of so many rows that hold about so many lines, 100 bytes each."""
        return chain(self._drafts(messages, lines))

    def common(self, rank: int) -> str:
        """Return the word of a rank, 0 the most frequent."""
        return self._words[rank]

    def _drafts(self, messages: int, lines: int) -> Iterator[Draft]:
        """Steps of a reply, a call and a result; every twentieth row is the user's."""
        results = sum(1 for number in range(messages) if number % 20 and number % 3 == 2)
        long = max(1, round((lines - 2 * messages) / results))
        for number in range(messages):
            if number % 20 == 0:
                yield Draft("user", "text", None, self._text(4))
            elif number % 3 == 0:
                yield Draft("assistant", "text", None, self._text(3))
            elif number % 3 == 1:
                yield Draft("assistant", "tool_use", "Bash", f'{{"command":"{self._line()}"}}')
            else:
                yield Draft("tool", "tool_result", "Bash", self._text(long))

    def _text(self, lines: int) -> str:
        return "\n".join(self._line() for _ in range(lines))

    def _line(self) -> str:
        pick = self._random
        words = pick.choices(self._words, cum_weights=self._weights, k=11)
        number = pick.randrange(100_000)
        match number % 4:
            case 0:
                line = (
                    f"    {words[0]}_{words[1]} = {words[2]}.{words[3]}({words[4]}, {number})  # {' '.join(words[5:])}"
                )
            case 1:
                at = f"2026-06-20T14:{number % 60:02}:{number % 59:02}Z"
                line = f"{at} [INFO] {' '.join(words)} #{number:08x}"
            case 2:
                line = f"src/{words[0]}/{words[1]}.py:{number % 900}: {' '.join(words[2:])} {words[0]}"
            case _:
                line = f"{' '.join(words)} {words[3]} {words[1]}."
        if number < 12:
            line += " " + RARE[number % len(RARE)]
        return line


def _vocabulary(pick: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(pick.choices(_SYLLABLES, k=pick.choice((1, 2, 2, 3, 3, 4))))] = None
    return list(words)
