"""Content encodings of a request."""

import gzip
import zlib

import brotli
import pytest

from fixtures.provider import encoding

PLAIN = "天气晴 ok ".encode() * 100
FORMS = {
    "": PLAIN,
    "identity": PLAIN,
    "gzip": gzip.compress(PLAIN),
    "GZIP": gzip.compress(PLAIN),
    "deflate": zlib.compress(PLAIN),
    "zstd": encoding.zstd.compress(PLAIN),
    "br": brotli.compress(PLAIN),
    "br, gzip": gzip.compress(brotli.compress(PLAIN)),
}


@pytest.mark.parametrize("header", FORMS)
def test_a_body_is_plain_again(header):
    assert encoding.decoded(FORMS[header], header) == PLAIN


@pytest.mark.parametrize("header", ["gzip", "deflate", "zstd", "br", "snappy"])
def test_a_lying_or_unknown_encoding_is_an_error_that_names_it(header):
    with pytest.raises(ValueError, match=header):
        encoding.decoded(PLAIN, header)


@pytest.mark.parametrize("header", ["gzip", "deflate", "zstd", "br"])
def test_a_cut_body_is_an_error(header):
    with pytest.raises(ValueError, match=header):
        encoding.decoded(FORMS[header][:-6], header)
