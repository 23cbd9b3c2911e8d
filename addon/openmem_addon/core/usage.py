"""Own the tap beside a response: bytes in, the provider's own counts out. It never delays or changes a byte."""

import re
from collections.abc import Callable

import msgspec
from openmem_store.rows import Draft

from . import source
from .decoding import DecodeErrors, decoder
from .source import ABSENT, present

MOST_BUFFERED = 8 << 20
"""Bytes of an unfinished event or of a whole JSON answer that are kept; beyond, the usage is unknown."""


_LINE_END = re.compile(rb"\n|\r\n|\r(?=.)", re.DOTALL)
"""A line ends with LF, CRLF or CR (WHATWG, server-sent events); a CR at the end of what came so far
may be half of a CRLF, so it waits for the next chunk."""


class Usage(msgspec.Struct, frozen=True):
    """Counts as reported, tokens; None where a count was not."""

    input_tokens: int | None = None
    """Excludes cache reads and writes."""
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    output_tokens: int | None = None
    last_prompt: int | None = None
    """Prompt of the last sampling, where the answer took several and the counts above add them up."""
    final: bool = False
    """The answer is complete."""
    response_id: str | None = None
    """Of an answer that a later request may continue."""
    output: tuple[Draft, ...] = ()
    """What that answer adds to the conversation."""

    def updated(self, newer: "Usage") -> "Usage":
        """Return the counts with the newer ones where they were reported: a stream's counts are cumulative."""
        return Usage(
            input_tokens=_last(self.input_tokens, newer.input_tokens),
            cache_read_tokens=_last(self.cache_read_tokens, newer.cache_read_tokens),
            cache_creation_tokens=_last(self.cache_creation_tokens, newer.cache_creation_tokens),
            output_tokens=_last(self.output_tokens, newer.output_tokens),
            last_prompt=_last(self.last_prompt, newer.last_prompt),
            final=self.final or newer.final,
            response_id=newer.response_id or self.response_id,
            output=newer.output or self.output,
        )

    def prompt(self) -> int | None:
        """Return the tokens of the whole prompt as last sampled; None where the provider did not say."""
        if self.last_prompt is not None or self.input_tokens is None:
            return self.last_prompt
        return self.input_tokens + (self.cache_read_tokens or 0) + (self.cache_creation_tokens or 0)


def _last(old: int | None, new: int | None) -> int | None:
    return old if new is None else new


class _Answer(msgspec.Struct):
    error: msgspec.Raw = ABSENT


class _Event(msgspec.Struct):
    """What any wire says of an answer that failed after its status was sent."""

    type: str = ""
    error: msgspec.Raw = ABSENT
    response: _Answer | None = None


_EVENT = msgspec.json.Decoder(_Event)


def refusal(payload: bytes) -> bytes:
    """Return what an event, or a whole answer, says of its own failure, as the body of a refused request says it.

    Empty where it did not fail. An event of type `error` says it in its own fields, or under `error` as
    a chunk of Chat Completions does; a failed response of the Responses wire has it inside.
    """
    event = _EVENT.decode(payload)
    if event.type == "error" or present(event.error):
        return payload
    inner = event.response.error if event.response is not None else ABSENT
    return b'{"error":' + bytes(inner) + b"}" if present(inner) else b""


Reader = Callable[[bytes], Usage | None]
"""A wire's `usage`: one event's data, or one whole answer."""


class Tap:
    """Read usage from a response as it passes, in whatever chunks and encoding it comes."""

    def __init__(self, reader: Reader, *, content_type: str, content_encoding: str) -> None:
        self._reader = reader
        self._stream = "text/event-stream" in content_type.lower()
        self._decoder = decoder(content_encoding)
        self._buffer = bytearray()
        self._scanned = 0
        """Bytes of the buffer that hold no end of a line."""
        self._data: list[bytes] = []
        self._lost = self._decoder is None
        self._usage = Usage()
        self.refusal = b""
        """What the first error in the answer says; empty where there is none."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes as they came from the provider. Never raises; unreadable bytes end the reading."""
        if self._lost or self._decoder is None:
            return
        try:
            self._buffer += self._decoder.decompress(chunk)
        except DecodeErrors:
            self._lost = True
            return
        if self._stream:
            self._events()
        if len(self._buffer) + sum(map(len, self._data)) > MOST_BUFFERED:
            self._lost = True
            self._buffer.clear()
            self._data.clear()

    def result(self) -> Usage:
        """Return what was reported so far; to be asked at the end, and after an abort."""
        if self._stream:
            self._line(bytes(self._buffer))
            self._dispatch()
        elif self._buffer and not self._lost:
            self._take(bytes(self._buffer))
        self._buffer.clear()
        return self._usage

    def _events(self) -> None:
        while True:
            found = _LINE_END.search(self._buffer, self._scanned)
            if found is None:
                self._scanned = max(0, len(self._buffer) - 1)
                return
            line = bytes(self._buffer[: found.start()])
            self._scanned, stop = 0, found.end()
            del found  # it holds a view of the buffer, which then could not shrink
            del self._buffer[:stop]
            self._line(line)

    def _line(self, line: bytes) -> None:
        if not line.rstrip(b"\r"):
            self._dispatch()
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" ").rstrip(b"\r"))

    def _dispatch(self) -> None:
        if self._data:
            self._take(b"\n".join(self._data))
            self._data.clear()

    def _take(self, payload: bytes) -> None:
        counts = b"usage" in payload or b"message_stop" in payload
        if b"error" in payload and not self.refusal:
            self.refusal = _understood(refusal, payload) or b""
        found = _understood(self._reader, payload) if counts else None
        if found is not None:
            self._usage = self._usage.updated(found)


def _understood[T](read: Callable[[bytes], T], payload: bytes) -> T | None:
    """Return what is read of an event; None where it is none of the wire's: an error page, or one cut short."""
    try:
        return read(source.readable(payload))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
