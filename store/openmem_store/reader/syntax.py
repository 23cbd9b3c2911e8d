"""Own where a pattern stops being a regular expression: the engine says what is wrong, but not where.

The longest beginning that can still be completed ends where the trouble begins.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_OUTSIDE = re.compile(
    r"""\\k<[^>]*>|\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\c[A-Za-z]|\\[0-9]+|\\.
      |\(\?(?:<?[=!]|<[^>=!][^>]*>|[a-z-]*:)?|\{[0-9]+(?:,[0-9]*)?\}|.""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = r"\\(?:[pPu]\{[^}]*\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z0-9_]|.)"
_INSIDE = re.compile(rf"\]|(?:{_ESCAPE}|[^\]])(?:-(?:{_ESCAPE}|[^\]]))?", re.DOTALL)
"""Inside a class: its end, a range, or a character."""

_NAME = re.compile(r"\(\?<([^>=!][^>]*)>")
_REFERENCE = re.compile(r"\\k<([^>]*)>")


class _Step(NamedTuple):
    """One token of a pattern, and how the pattern up to it can be closed."""

    start: int
    end: int
    opened: tuple[int, ...]
    """Where the brackets that are still open begin."""
    closing: str


def position(pattern: str, compiles: Callable[[str], bool]) -> int | None:
    """Return where in a pattern that does not compile the trouble begins, in code points from 0.

    None where that is not known.
    """
    steps = list(_steps(pattern))
    names = {name for step in steps for name in _NAME.findall(pattern[step.start : step.end])}
    for step in steps:
        reference = _REFERENCE.fullmatch(pattern, step.start, step.end)
        if names and reference is not None and reference[1] not in names:
            return step.start
    for number in reversed(range(len(steps))):
        if compiles(pattern[: steps[number].end] + steps[number].closing):
            following = steps[number + 1 :]
            return following[0].start if following else _unclosed(steps[number])
    return 0 if steps and compiles("") else None


def _unclosed(last: _Step) -> int | None:
    return last.opened[-1] if last.opened else None


def _steps(pattern: str) -> Iterator[_Step]:
    opened: list[int] = []
    place = 0
    in_class = False
    while place < len(pattern):
        token = (_INSIDE if in_class else _OUTSIDE).match(pattern, place)
        assert token is not None
        text = token[0]
        if in_class:
            in_class = text != "]"
            if not in_class:
                opened.pop()
        elif text == "[" or text.startswith("("):
            opened.append(place)
            in_class = text == "["
        elif text == ")" and opened:
            opened.pop()
        yield _Step(place, token.end(), tuple(opened), _closing(pattern, opened))
        place = token.end()


def _closing(pattern: str, opened: list[int]) -> str:
    return "".join("]" if pattern[place] == "[" else ")" for place in reversed(opened))
