"""Own what images and documents weigh in a prompt, in tokens."""

import base64
import binascii
import math
import re
import struct

IMAGE_CAP = 1600
"""Most tokens one image costs: a larger one is scaled down (Anthropic, "Vision": about width × height / 750)."""

PIXELS_PER_TOKEN = 750

PAGE_TOKENS = 2000
"""One PDF page: its text (1,500 to 3,000 tokens by density) and its picture (Anthropic, "PDF support")."""

BYTES_PER_PAGE = 50_000
"""Fallback where a PDF's page objects are compressed and cannot be counted."""

_LONG_EDGE = 1568
_HEAD = 64 * 1024
"""Base64 characters decoded in search of an image's size; a JPEG's frame header follows its metadata."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")


def image_tokens(data: str | None) -> int:
    """Return the tokens of a base64 image; an unknown size or a remote image counts as the largest."""
    size = _size(data)
    if size is None:
        return IMAGE_CAP
    width, height = size
    scale = min(1.0, _LONG_EDGE / max(width, height, 1))
    return max(1, min(IMAGE_CAP, int(width * scale * height * scale / PIXELS_PER_TOKEN)))


def tile_tokens(data: str | None, *, low: bool) -> int:
    """Return the tokens of an image where it is cut into tiles (OpenAI, "Images and vision"): 85, and 170 per tile.

    It is scaled into 2048 × 2048, then to a shortest side of 768 pixels, then cut into tiles of 512.
    """
    if low:
        return 85
    width, height = _size(data) or (768, 2048)
    scale = min(1.0, 2048 / max(width, height, 1))
    scale *= min(1.0, 768 / max(1.0, min(width, height) * scale))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return 85 + 170 * max(1, tiles)


def document_tokens(data: str | None) -> int:
    """Return the tokens of a base64 PDF; a remote document counts as one page."""
    if not data:
        return PAGE_TOKENS
    try:
        content = base64.b64decode(data)
    except (binascii.Error, ValueError):
        return PAGE_TOKENS
    return PAGE_TOKENS * max(1, len(_PAGE.findall(content)) or len(content) // BYTES_PER_PAGE)


def _size(data: str | None) -> tuple[int, int] | None:
    """Return width and height in pixels of a base64 image, None where they cannot be read."""
    if not data:
        return None
    head = data[:_HEAD]
    try:
        return _dimensions(base64.b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, struct.error, IndexError):
        return None


def _dimensions(head: bytes) -> tuple[int, int] | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack(">II", head[16:24])
    if head.startswith((b"GIF87a", b"GIF89a")):
        return struct.unpack("<HH", head[6:10])
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp(head)
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    if head[12:16] == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if head[12:16] == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(head) and head[position] == 0xFF:
        marker = head[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[position + 5 : position + 9])
            return width, height
        position += 2 + int.from_bytes(head[position + 2 : position + 4], "big")
    return None
