"""Own content encodings: decompressors that take a body in pieces, and a bound on what one may become."""

import sys
import zlib
from collections.abc import Callable
from typing import Protocol, cast

import brotli  # pyright: ignore[reportMissingTypeStubs]  # ships none

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_DECODED = 64 << 20
"""Bytes of a request without its encoding; a larger one passes as it is. No context window holds as much."""

_STEP = 64 << 10
"""Bytes taken at a time: how far a body can overshoot its bound is one step's expansion."""


class _Inflater(Protocol):
    """A decompressor of one gzip member or one zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Decoder(Protocol):
    """An incremental decompressor."""

    def decompress(self, data: bytes, /) -> bytes: ...


class _Identity:
    def decompress(self, data: bytes, /) -> bytes:
        return data


class _Members:
    """One member or frame after the other: an encoder may end one at each flush (RFC 1952, RFC 8878)."""

    def __init__(self, make: Callable[[], _Inflater]) -> None:
        self._make = make
        self._current = make()

    def decompress(self, data: bytes, /) -> bytes:
        pieces: list[bytes] = []
        while data:
            if self._current.eof:
                self._current = self._make()
            pieces.append(self._current.decompress(data))
            data = self._current.unused_data if self._current.eof else b""
        return b"".join(pieces)


class _Brotli:
    def __init__(self) -> None:
        self._process: Callable[[bytes], bytes] = brotli.Decompressor().process  # pyright: ignore

    def decompress(self, data: bytes, /) -> bytes:
        return self._process(data)


class _Deflate:
    """With the wrapper that the name calls for (RFC 1950), or without, as many send it."""

    def __init__(self) -> None:
        self._inner: _Inflater | None = None

    def decompress(self, data: bytes, /) -> bytes:
        if self._inner is None:
            self._inner = zlib.decompressobj()
            try:
                return self._inner.decompress(data)
            except zlib.error:
                self._inner = zlib.decompressobj(wbits=-15)
        return self._inner.decompress(data)


_BROTLI_ERROR = cast("type[Exception]", brotli.error)  # pyright: ignore

DecodeErrors: tuple[type[Exception], ...] = (zlib.error, zstd.ZstdError, EOFError, _BROTLI_ERROR)
"""What a decompressor raises for bytes that are not what their encoding says."""


def _gunzip() -> _Inflater:
    return zlib.decompressobj(wbits=47)


DECODERS: dict[str, Callable[[], Decoder]] = {
    "": _Identity,
    "identity": _Identity,
    "gzip": lambda: _Members(_gunzip),
    "x-gzip": lambda: _Members(_gunzip),
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": lambda: _Members(zstd.ZstdDecompressor),
}


def decoder(content_encoding: str) -> Decoder | None:
    """Return a decoder for a `content-encoding`, None for one we do not know."""
    make = DECODERS.get(content_encoding.strip().lower())
    return make() if make else None


def decoded(content: bytes, content_encoding: str, *, most: int) -> bytes:
    """Return a whole body without its encoding.

    Raises ValueError for an encoding we do not know, for bytes that do not have it, and for a
    body of more than `most` bytes: a small one may expand a thousandfold.
    """
    inflater = decoder(content_encoding)
    if inflater is None:
        raise ValueError("an unknown content-encoding")
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(content), _STEP):
            pieces.append(inflater.decompress(content[start : start + _STEP]))
            size += len(pieces[-1])
            if size > most:
                raise ValueError(f"a body of more than {most} bytes")
    except DecodeErrors as error:
        raise ValueError(f"the body is not {content_encoding}") from error
    return b"".join(pieces)
