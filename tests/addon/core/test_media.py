"""Hold images and documents to the provider's rule; what cannot be read counts as the largest."""

import base64
import struct

import pytest
from openmem_addon.core import media


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", width, height)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height)


def jpeg(width: int, height: int) -> bytes:
    comment = b"\xff\xfe" + struct.pack(">H", 40) + b"c" * 38
    return b"\xff\xd8" + comment + b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" * 9


def webp(kind: bytes, rest: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + rest


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height))


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def extended(width: int, height: int) -> bytes:
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    return webp(b"VP8X", b"\x00\x00\x00\x00" + size)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize("make", [png, gif, jpeg, lossy, lossless, extended])
@pytest.mark.parametrize(
    ("size", "tokens"), [((300, 250), 100), ((1, 1), 1), ((1000, 1000), 1333), ((8000, 800), 327), ((4000, 4000), 1600)]
)
def test_an_image_costs_by_its_size_after_scaling(make, size: tuple[int, int], tokens: int) -> None:
    assert media.image_tokens(encoded(make(*size))) == tokens


@pytest.mark.parametrize(
    "data",
    [
        None,
        "",
        "not base64!",
        "家",
        encoded(b""),
        encoded(b"\x89PNG\r\n\x1a\n"),
        encoded(b"GIF89a\x01"),
        encoded(b"\xff\xd8\xff\xe0\x00\x00" * 9),
        encoded(b"\xff\xd8" + b"\xff\xfe\xff\xff" + b"x" * 20),
        encoded(webp(b"VP8X", b"")),
        encoded(webp(b"JUNK", b"x" * 40)),
        encoded(b"<svg/>"),
    ],
)
def test_an_image_that_cannot_be_read_counts_as_the_largest(data: str | None) -> None:
    assert media.image_tokens(data) in (media.IMAGE_CAP, 1)


def test_an_image_of_no_pixels_still_counts() -> None:
    assert media.image_tokens(encoded(png(0, 0))) == 1


@pytest.mark.parametrize(
    ("content", "pages"),
    [
        (b"%PDF /Type /Page /Type/Page /Type /Pages", 2),
        (b"%PDF compressed" + b"x" * 120_000, 2),
        (b"%PDF small", 1),
        (b"", 1),
    ],
)
def test_a_document_costs_by_its_pages(content: bytes, pages: int) -> None:
    assert media.document_tokens(encoded(content)) == pages * media.PAGE_TOKENS


@pytest.mark.parametrize("data", [None, "", "x", "家"])
def test_a_document_that_cannot_be_read_counts_as_a_page(data: str | None) -> None:
    assert media.document_tokens(data) == media.PAGE_TOKENS


@pytest.mark.parametrize(
    ("size", "low", "tokens"),
    [
        ((512, 512), False, 255),
        ((1024, 1024), False, 765),
        ((2048, 4096), False, 1105),
        ((4096, 4096), True, 85),
        ((0, 0), False, 255),
    ],
)
def test_an_image_cut_into_tiles_costs_by_its_tiles(size: tuple[int, int], low: bool, tokens: int) -> None:
    assert media.tile_tokens(encoded(png(*size)), low=low) == tokens
    assert media.tile_tokens(None, low=False) == 85 + 170 * 8
