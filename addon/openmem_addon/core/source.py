"""Own the source text of a JSON body: where each value stands, so that it can be kept or replaced byte for byte.

A value that nobody replaces leaves as the client wrote it: numbers, escapes, key order and
unknown fields survive because they are never decoded.
"""

import contextlib
import re
from collections.abc import Generator, Mapping

import msgspec

Span = tuple[int, int]
"""Start and stop offsets of a value in its text."""

ABSENT = msgspec.Raw(b"")
"""Default of a member that is kept as source."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])

_OPENING = re.compile(rb'[ \t\r\n]*[{\[,][ \t\r\n]*(?:("(?:[^"\\]++|\\.)*+")[ \t\r\n]*:[ \t\r\n]*)?')
"""What stands before a value: the bracket or comma, and the key when it is a member.

Possessive: an array's element may be a string of megabytes, which is no key and must not be tried again.
"""

_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")

_SURROGATE = re.compile(rb"\\u[dD]([89a-fA-F])[0-9a-fA-F]{2}")
"""What looks like the escape of a surrogate; it is none behind an odd number of backslashes."""

_FIRST_HALVES, _SECOND_HALVES = b"89abAB", b"cdefCDEF"
"""The third hex digit of either half."""

_BACKSLASH = ord("\\")

_TEXT_ESCAPE = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(/)|.)", re.DOTALL
)


class NotSplicable(ValueError):
    """The text is not a JSON object or array that can be taken apart without loss."""


@contextlib.contextmanager
def understood_as(what: str) -> Generator[None]:
    """Raise NotSplicable, which says that the text is not `what`, for whatever a decoder raises in the block."""
    try:
        yield
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise NotSplicable(f"not {what}: {type(error).__name__}") from error


def readable(body: bytes) -> bytes:
    """Return `body` with each lone surrogate escape as `\\ufffd`, of the same length, so that it decodes.

    Offsets found in the result cut the original: agents that slice a string between the
    halves of a pair must not lose trimming for it.
    """
    lone: list[Span] = []
    high: Span | None = None  # a first half whose second is not yet seen
    for match in _SURROGATE.finditer(body):
        if _escaped(body, match.start()):
            continue
        paired = high is not None and high[1] == match.start() and match[1] in _SECOND_HALVES
        if high is not None and not paired:
            lone.append(high)
        high = match.span() if match[1] in _FIRST_HALVES else None
        if high is None and not paired:
            lone.append(match.span())
    if high is not None:
        lone.append(high)
    return replaced(body, dict.fromkeys(lone, b"\\ufffd")) if lone else body


def _escaped(body: bytes, start: int) -> bool:
    """Return whether the backslash at `start` is itself escaped: an odd number of them stands before it."""
    first = start
    while first > 0 and body[first - 1] == _BACKSLASH:
        first -= 1
    return (start - first) % 2 == 1


def present(value: msgspec.Raw) -> bool:
    """Return whether a member has a value: it is there, and not null."""
    return bytes(value) not in (b"", b"null")


def members(text: bytes) -> dict[str, Span]:
    """Return where the value of each member of a JSON object stands.

    Raises NotSplicable for anything else, a repeated key included: what a reader makes of
    two values under one key is not ours to decide.
    """
    with understood_as("a JSON object"):
        values = _OBJECT.decode(text)
    spans: dict[str, Span] = {}
    position = 0
    for key, value in values.items():
        opening = _OPENING.match(text, position)
        if opening is None or opening[1] is None or msgspec.json.decode(opening[1]) != key:
            raise NotSplicable("an object repeats a key")
        position = _stop(text, opening.end(), value)
        spans[key] = (opening.end(), position)
    if values and text[position:].strip(b" \t\r\n") != b"}":
        raise NotSplicable("an object repeats a key")
    return spans


def elements(text: bytes) -> list[Span]:
    """Return where each element of a JSON array stands. Raises NotSplicable for anything else."""
    with understood_as("a JSON array"):
        values = _ARRAY.decode(text)
    spans: list[Span] = []
    position = 0
    for value in values:
        opening = _OPENING.match(text, position)
        if opening is None:
            raise NotSplicable("an array's elements could not be located")
        position = _stop(text, opening.end(), value)
        spans.append((opening.end(), position))
    return spans


def next_element(text: bytes, end: int) -> int | None:
    """Return where the element after the one that ends at `end` begins; None where it was the last."""
    comma = _COMMA.match(text, end)
    return comma.end() if comma else None


def _stop(text: bytes, start: int, value: msgspec.Raw) -> int:
    stop = start + len(memoryview(value))
    if text[start:stop] != bytes(value):
        raise NotSplicable("a value could not be located")
    return stop


def replaced(text: bytes, values: Mapping[Span, bytes]) -> bytes:
    """Return `text` with the values at the given places replaced; every other byte stays."""
    pieces: list[bytes] = []
    position = 0
    for (start, stop), value in sorted(values.items()):
        pieces += (text[position:start], value)
        position = stop
    pieces.append(text[position:])
    return b"".join(pieces)


def with_member(text: bytes, key: str, value: bytes) -> bytes:
    """Return the JSON object `text` with one more member at its end."""
    end = text.rindex(b"}")
    comma = b"" if text[:end].rstrip().endswith(b"{") else b","
    return text[:end] + comma + msgspec.json.encode(key) + b":" + value + text[end:]


def without_member(text: bytes, key: str) -> bytes:
    """Return the JSON object `text` without one of its members."""
    spans = members(readable(text))
    kept = [msgspec.json.encode(name) + b":" + text[start:stop] for name, (start, stop) in spans.items() if name != key]
    return b"{" + b",".join(kept) + b"}"


def prefixed(text: bytes, words: str) -> bytes:
    """Return the JSON string `text` with `words` before it, its own escapes as they are."""
    return msgspec.json.encode(words)[:-1] + text[1:]


def suffixed(text: bytes, words: str) -> bytes:
    """Return the JSON string `text` with `words` after it."""
    return text[:-1] + msgspec.json.encode(words)[1:]


def array(values: list[bytes]) -> bytes:
    """Return a JSON array of source texts."""
    return b"[" + b",".join(values) + b"]"


def arguments(text: str) -> str:
    """Return a call's arguments as compact JSON, or as they are where they are no JSON."""
    try:
        return compact(text.encode())
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return text


def compact(text: bytes) -> str:
    """Return a JSON value without insignificant space, keys and numbers as written, readable characters unescaped."""
    tight = msgspec.json.format(readable(text), indent=-1).decode()
    return _TEXT_ESCAPE.sub(_unescape, tight) if "\\u" in tight or "\\/" in tight else tight


def _unescape(match: re.Match[str]) -> str:
    high, low, single, slash = match.groups()
    if slash:
        return slash
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if single:
        code = int(single, 16)
        if code >= 0x20 and chr(code) not in '"\\':
            return chr(code)
    return match[0]
