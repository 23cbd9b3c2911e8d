"""Own the tap beside a response: bytes in, the provider's own counts out. It never delays or changes a byte."""

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

import brotli  # pyright: ignore[reportMissingTypeStubs]  # ships none
import msgspec
from openmem_store.rows import Draft

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_BUFFERED = 8 << 20
"""Bytes of an unfinished event or of a whole JSON answer that are kept; beyond, the usage is unknown."""


class Usage(msgspec.Struct, frozen=True):
    """Counts as reported, tokens; None where a count was not."""

    input_tokens: int | None = None
    """Excludes cache reads and writes."""
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    output_tokens: int | None = None
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
            final=self.final or newer.final,
            response_id=newer.response_id or self.response_id,
            output=newer.output or self.output,
        )

    def prompt(self) -> int | None:
        """Return the tokens of the whole prompt; None where the provider did not say."""
        if self.input_tokens is None:
            return None
        return self.input_tokens + (self.cache_read_tokens or 0) + (self.cache_creation_tokens or 0)


def _last(old: int | None, new: int | None) -> int | None:
    return old if new is None else new


Reader = Callable[[bytes], Usage | None]
"""A wire's `usage`: one event's data, or one whole answer."""


class Tap:
    """Read usage from a response as it passes, in whatever chunks and encoding it comes."""

    def __init__(self, reader: Reader, *, content_type: str, content_encoding: str) -> None:
        self._reader = reader
        self._stream = "text/event-stream" in content_type.lower()
        self._decoder = decoder(content_encoding)
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._lost = self._decoder is None
        self._usage = Usage()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes as they came from the provider. Never raises; unreadable bytes end the reading."""
        if self._lost or self._decoder is None:
            return
        try:
            self._buffer += self._decoder.decompress(chunk)
        except (zlib.error, zstd.ZstdError, EOFError, _BROTLI_ERROR):
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
        # A line ends with LF, CRLF or CR (WHATWG, server-sent events); a CR at the end of what
        # came so far may be half of a CRLF, so it waits for the next chunk.
        while True:
            lf, cr = self._buffer.find(b"\n"), self._buffer.find(b"\r")
            end = min((place for place in (lf, cr) if place != -1), default=-1)
            if end == -1 or (end == cr and end == len(self._buffer) - 1):
                return
            width = 2 if self._buffer.startswith(b"\r\n", end) else 1
            line = bytes(self._buffer[:end])
            del self._buffer[: end + width]
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
        if b"usage" not in payload and b"message_stop" not in payload:
            return
        try:
            found = self._reader(payload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return  # not one of the wire's events: an error page, or an event cut short
        if found is not None:
            self._usage = self._usage.updated(found)


class Decoder(Protocol):
    """An incremental decompressor."""

    def decompress(self, data: bytes, /) -> bytes: ...


class _Identity:
    def decompress(self, data: bytes, /) -> bytes:
        return data


class _Brotli:
    def __init__(self) -> None:
        self._process: Callable[[bytes], bytes] = brotli.Decompressor().process  # pyright: ignore

    def decompress(self, data: bytes, /) -> bytes:
        return self._process(data)


_BROTLI_ERROR: type[Exception] = brotli.error  # pyright: ignore

DECODERS: dict[str, Callable[[], Decoder]] = {
    "": _Identity,
    "identity": _Identity,
    "gzip": lambda: zlib.decompressobj(wbits=47),
    "x-gzip": lambda: zlib.decompressobj(wbits=47),
    "deflate": zlib.decompressobj,
    "br": _Brotli,
    "zstd": zstd.ZstdDecompressor,
}


def decoder(content_encoding: str) -> Decoder | None:
    """Return a decoder for a `content-encoding`, None for one we do not know."""
    make = DECODERS.get(content_encoding.strip().lower())
    return make() if make else None
