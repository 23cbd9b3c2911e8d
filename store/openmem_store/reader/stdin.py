"""Own the bytes that a host writes: half a surrogate pair in a request must not lose the request.

A model may end a text inside a character, and JSON can say that; the SDK's parser cannot read it, and
answers nothing.
"""

import io
import re
from typing import BinaryIO, TextIO

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""Any escape of JSON; the group is half a pair."""


class _Repaired(io.RawIOBase):
    """The lines of a stream, repaired as they come."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._rest = self._rest or repaired(self._source.readline())
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def opened(source: BinaryIO) -> TextIO:
    """Return the text of `source`, repaired line by line."""
    return io.TextIOWrapper(io.BufferedReader(_Repaired(source)), encoding="utf-8", errors="replace")


def repaired(line: bytes) -> bytes:
    """Return a line of JSON with U+FFFD for each half of a surrogate pair that stands alone."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], line)
