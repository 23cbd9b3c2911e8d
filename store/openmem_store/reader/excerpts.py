"""Own what of a row an answer shows: whole when short, else the last lines that match, centred on the match."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from openmem_store.reader.answers import MOST_LINES, Span
from openmem_store.reader.words import Word

WHOLE = 600
"""Characters up to which a row is shown whole."""

MOST_READ = 1_000_000
"""Characters at the end of a row in which its best lines are looked for; counts do not depend on it."""

MOST_LINE = 400
"""Characters of one line."""


def head(text: str, size: int) -> str:
    """Return the start of a text."""
    return text if len(text) <= size else text[: size - 1] + "…"


def lines(text: str, spans: Sequence[Span], size: int) -> str:
    """Show the last matching lines of a text, each with its number, in at most `size` characters or so."""
    shown: list[str] = []
    for number, start, end in reversed(spans[-MOST_LINES:]):
        begin = text.rfind("\n", 0, start) + 1
        whole = text[begin : _after(text, start) - 1]
        line = f"{number}: {around(whole, start - begin, end - begin, min(MOST_LINE, size))}"
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

    It reads tokens as the index does, but for diacritics: where it finds nothing, show the head. Only the
    last `MOST_LINES` are centred on what they hold; the others are there to be counted.
    """
    finders = [_finder(word) for word in words]

    def spans(text: str, skipped: Collection[int]) -> list[Span]:
        folded = text.lower()
        if len(folded) != len(text):  # a few letters fold to two: their places would not be those of the text
            folded = text
        start = folded.rfind("\n", 0, max(0, len(folded) - MOST_READ)) + 1
        held: dict[int, list[tuple[int, int]]] = {}
        for find in finders:
            for line, span in find(folded, start):
                held.setdefault(line, []).append(span)
        numbers = _numbered(folded, sorted(held))
        kept = {number: line for line, number in numbers.items() if number not in skipped}
        most = max((len(held[line]) for line in kept.values()), default=0)
        chosen = [(number, line) for number, line in kept.items() if len(held[line]) == most]
        counted = [(number, line, line) for number, line in chosen[:-MOST_LINES]]
        return counted + [
            (number, *_centre(folded, line, finders, held[line])) for number, line in chosen[-MOST_LINES:]
        ]

    return spans


_Finder = Callable[[str, int], Iterator[tuple[int, tuple[int, int]]]]
"""From a folded text and where to begin, to each line that holds a word: where it starts, and the word in it."""


def _finder(word: Word) -> _Finder:
    """Return what finds the lines with a word. A call of `find` for each line is all that most words need."""
    pieces = _pieces(word)
    piece = pieces[0]

    def by_pieces(text: str, start: int) -> Iterator[tuple[int, tuple[int, int]]]:
        while (match := expression.search(text, start)) is not None:
            yield _line(text, start, match.start()), match.span()
            start = _after(text, max(match.start(), match.end() - 1))

    def as_one(text: str, start: int) -> Iterator[tuple[int, tuple[int, int]]]:
        while (place := text.find(piece, start)) >= 0:
            yield _line(text, start, place), (place, place + len(piece))
            start = _after(text, place)

    if len(pieces) == 1:
        return as_one
    expression = re.compile(r"[\W_]+".join(map(re.escape, pieces)))
    return by_pieces


def _line(text: str, start: int, place: int) -> int:
    """Return where the line of a place begins, `start` at the earliest: a line is not read from its start for each."""
    return text.rfind("\n", start, place) + 1 or start


def _after(text: str, place: int) -> int:
    """Return where the next line begins; behind the text after the last."""
    end = text.find("\n", place)
    return len(text) + 1 if end < 0 else end + 1


def _numbered(text: str, starts: Iterable[int]) -> dict[int, int]:
    """Return the number of each line that starts at one of these ascending places."""
    numbers: dict[int, int] = {}
    number, place = 1, 0
    for start in starts:
        number += text.count("\n", place, start)
        numbers[start] = number
        place = start
    return numbers


def _centre(text: str, line: int, finders: Iterable[_Finder], held: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the densest stretch of one line. `held`: one place of each word that begins in it."""
    end = _after(text, line) - 1
    here = text[line:end]
    matches: list[tuple[int, int]] = []
    for find in finders:
        start = 0
        while (found := next(find(here, start), None)) is not None:
            matches.append(found[1])
            start = max(found[1][1], start + 1)
    # The parts of a word may stand on two lines; then it begins in this one.
    begin, stop = _densest(sorted(matches) or [(start - line, min(stop, end) - line) for start, stop in held])
    return line + begin, line + stop


def _pieces(word: Word) -> list[str]:
    """Return the parts of a word between which anything may stand that is no token."""
    text = word.text.lower()
    return [piece for piece in re.split(r"[\W_]+", text) if piece] or [text] if word.tokens else [text]


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
