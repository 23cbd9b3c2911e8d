"""Own the form of an answer: one line of JSON that opens with the marker and stays under a host's limit."""

import msgspec

from openmem_store.reader.echoes import ANSWER_MARKER

MOST_WEIGHT = 30_000
"""Of one answer's variable part. Hosts cut answers at about 25,000 tokens; text costs 2 to 4 characters each."""

MOST_LINES = 5
"""Matching lines shown of a row: the last ones, since a key that was set twice counts with its last value."""

Span = tuple[int, int, int]
"""A line that matches: its number from 1, and where in the text the match begins and ends, in code points."""

PAGE = 20_000
"""Characters of one page of a long text, unless the call asks otherwise."""


class RefusedError(Exception):
    """A call cannot be answered. The message names the argument and the fix, and a model reads it as it is."""


def weight(text: str) -> int:
    """Return the size of a text in characters, counting scripts that cost a token per character as more."""
    return max(len(text), len(text.encode()) // 2)


def encode(answer: msgspec.Struct | dict[str, object]) -> str:
    """Return the answer as one line of JSON that begins with the marker.

    JSON keeps recalled text inside its string: no text can end the frame or begin another.
    """
    fields = msgspec.to_builtins(answer)
    return msgspec.json.encode({"note": ANSWER_MARKER, **fields}).decode()
