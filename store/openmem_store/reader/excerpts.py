"""Own what of a row an answer shows: whole when short, else the last lines that match, centred on the match."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from openmem_store.reader.words import Word

WHOLE = 600
"""Characters up to which a row is shown whole."""

MOST_READ = 1_000_000
"""Characters at the end of a row in which its best lines are looked for; counts do not depend on it."""

MOST_LINES = 5
"""Matching lines shown: the last ones, since a key that was set twice counts with its last value."""

MOST_LINE = 400
"""Characters of one line."""

Span = tuple[int, int, int]
"""A line that matches: its number from 1, and where in it the match begins and ends, in code points."""


def head(text: str, size: int) -> str:
    """Return the start of a text."""
    return text if len(text) <= size else text[: size - 1] + "…"


def lines(text: str, spans: Sequence[Span], size: int) -> str:
    """Show the last matching lines of a text, each with its number, in at most `size` characters or so."""
    shown: list[str] = []
    parts = text.split("\n")
    for number, start, end in reversed(spans[-MOST_LINES:]):
        line = f"{number}: {around(parts[number - 1], start, end, min(MOST_LINE, size))}"
        if shown and sum(map(len, shown)) + len(line) > size:
            break
        shown.append(line)
    return "\n".join(reversed(shown))


def around(line: str, start: int, end: int, size: int) -> str:
    """Cut a line to `size` characters around the middle of a span."""
    if len(line) <= size:
        return line
    begin = max(0, min((start + end - size) // 2, len(line) - size))
    # A match longer than the window shows its start, which is where a reader looks.
    begin = min(begin, start) if end - start > size else begin
    cut = line[begin : begin + size]
    return ("…" if begin else "") + cut + ("…" if begin + size < len(line) else "")


def matcher(words: Iterable[Word]) -> Callable[[str, Collection[int]], list[Span]]:
    """Return a function that finds the lines of a text that hold the most of the words.

    It reads tokens as the index does, but for diacritics: where it finds nothing, show the head.
    """
    alternatives = [_expression(word) for word in words]
    if not alternatives:
        return lambda text, skipped: []
    expression = re.compile("|".join(f"({each})" for each in alternatives), re.IGNORECASE)

    def spans(text: str, skipped: Collection[int]) -> list[Span]:
        found: list[tuple[int, Span]] = []
        start = text.rfind("\n", 0, max(0, len(text) - MOST_READ)) + 1
        for number, line in enumerate(text[start:].split("\n"), text.count("\n", 0, start) + 1):
            if number in skipped or not (matches := list(expression.finditer(line))):
                continue
            distinct = len({match.lastindex for match in matches})
            start, end = _densest([match.span() for match in matches])
            found.append((distinct, (number, start, end)))
        most = max((distinct for distinct, _ in found), default=0)
        return [span for distinct, span in found if distinct == most]

    return spans


def _expression(word: Word) -> str:
    if not word.tokens:
        return re.escape(word.text)
    # Tokens may be parted by anything that is no token; a part of a longer word also serves to centre on.
    pieces = [re.escape(piece) for piece in re.split(r"[\W_]+", word.text) if piece]
    return r"[\W_]+".join(pieces) if pieces else re.escape(word.text)


def _densest(spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the stretch of at most a line's width that holds the most matches, the last such."""
    best = (0, spans[0])
    first = 0
    for last, (_, end) in enumerate(spans):
        while end - spans[first][0] > MOST_LINE // 2 and first < last:
            first += 1
        if last - first + 1 >= best[0]:
            best = (last - first + 1, (spans[first][0], end))
    return best[1]
