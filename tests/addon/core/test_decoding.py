"""Content encodings: what a body becomes, and what it may not become."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
from openmem_addon.core.decoding import decoded, decoder, zstd

TEXT = ("天気 is fine. " * 20_000).encode()


def raw_deflate(text: bytes) -> bytes:
    maker = zlib.compressobj(wbits=-15)
    return maker.compress(text) + maker.flush()


ENCODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "none": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "two gzip members": ("gzip", lambda text: gzip.compress(text[:1000]) + gzip.compress(text[1000:])),
    "deflate": ("deflate", zlib.compress),
    "deflate without its wrapper": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "name in capitals": (" GZIP ", gzip.compress),
}


@pytest.mark.parametrize("case", ENCODED)
def test_a_body_comes_out_as_it_was(case: str):
    encoding, encode = ENCODED[case]
    assert decoded(encode(TEXT), encoding, most=len(TEXT)) == TEXT


@pytest.mark.parametrize("case", ENCODED)
def test_a_body_in_small_pieces_comes_out_the_same(case: str):
    encoding, encode = ENCODED[case]
    inflater = decoder(encoding)
    assert inflater is not None
    sent = encode(TEXT)
    assert b"".join(inflater.decompress(sent[i : i + 7]) for i in range(0, len(sent), 7)) == TEXT


@pytest.mark.parametrize("case", ENCODED)
def test_a_body_over_the_bound_is_refused(case: str):
    encoding, encode = ENCODED[case]
    with pytest.raises(ValueError, match="more than"):
        decoded(encode(TEXT), encoding, most=len(TEXT) - 1)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_an_encoding_that_the_body_does_not_have_is_refused(encoding: str):
    with pytest.raises(ValueError, match=f"not {encoding}"):
        decoded(b'{"messages": []}' * 100, encoding, most=1 << 20)


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ValueError, match="unknown"):
        decoded(b"{}", "snappy", most=1 << 20)


def test_a_bomb_is_left_before_it_has_expanded():
    bomb = zlib.compress(bytes(64 << 20), 9)
    with pytest.raises(ValueError, match="more than"):
        decoded(bomb, "deflate", most=1 << 20)
