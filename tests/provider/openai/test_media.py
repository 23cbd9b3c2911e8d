"""Images and files in a prompt."""

import base64
import struct

import pytest

from fixtures.provider.openai import media


def png(width, height):
    """Return the head of a PNG as a data URL."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(30)
    return f"data:image/png;base64,{base64.b64encode(head).decode()}"


@pytest.mark.parametrize(
    ("width", "height", "count"),
    [(100, 100, 255), (512, 512, 255), (1_024, 1_024, 765), (2_048, 4_096, 1_105), (4_096, 8_192, 1_105)],
)
def test_an_image_counts_by_its_tiles(width, height, count):
    """The page's own examples are among them: 1024 × 1024 costs 765, 2048 × 4096 costs 1105."""
    assert media.image(png(width, height)) == count


def test_low_detail_costs_the_base():
    assert media.image(png(4_096, 8_192), "low") == media.BASE


def test_a_gif_is_measured_too_and_what_is_not_inline_counts_as_the_largest():
    head = base64.b64encode(b"GIF89a" + struct.pack("<HH", 100, 100) + bytes(40)).decode()
    assert media.image(f"data:image/gif;base64,{head}") == 255
    for url in ("https://example.com/a.png", None, "data:image/png;base64,%%%"):
        assert media.image(url) == media.BASE + media.TILE * 8
