"""Counting tokens."""

import base64
import struct

import pytest

from fixtures.provider import binding, tokens
from tests.provider.bodies import LATER, body, result, text, use, user

PIECES = {
    "": 0,
    "a plain text": 3,
    "extraordinary": 3,
    "readFileName": 3,
    "HTTPServer": 2,
    "12345": 2,
    "a == b": 3,
    "----------": 3,
    "one\n\ntwo": 3,
    "    indented": 3,
    "天气晴": 3,
    "🌤": 2,
    "naïve": 3,
}


@pytest.mark.parametrize("value", PIECES)
def test_text_is_counted_by_pieces(value):
    assert tokens.text(value) == PIECES[value]


def test_a_text_is_cut_into_runs_of_whole_pieces():
    value = "the quick brown fox jumps over the lazy dog, 天气晴!\n\n" * 30
    runs = tokens.runs(value, 16)
    assert "".join(run for run, _ in runs) == value
    assert sum(count for _, count in runs) == tokens.text(value)
    assert {count for _, count in runs[:-1]} <= {16, 17}
    assert tokens.runs("", 16) == ()


def test_kinds_of_text_differ_in_characters_per_token():
    prose = "the quick brown fox jumps over the lazy dog " * 20
    listing = "x[i]+=(y<<2)&0xff;\n" * 20
    assert len(prose) / tokens.text(prose) > 2 * len(listing) / tokens.text(listing)


def test_thinking_counts_also_where_its_text_is_omitted():
    signature, _ = binding.sign(body(user("go")), text="a long thought", shown="", tokens=50)
    block = {"type": "thinking", "thinking": "", "signature": signature}
    assert tokens.block(block, {}) == tokens.BLOCK_FRAME + 50


def test_a_result_counts_what_is_in_it():
    assert tokens.block(result(content=[text("two words")]), {}) == tokens.BLOCK_FRAME + 2
    assert tokens.block(result(content="two words"), {}) == tokens.BLOCK_FRAME + 2


def test_a_call_counts_its_name_and_its_input():
    assert tokens.block(use(), {}) > tokens.BLOCK_FRAME + tokens.text("Read")


def test_a_tool_reference_counts_the_definition_it_loads():
    reference = {"type": "tool_reference", "tool_name": "Later"}
    assert tokens.block(reference, {"Later": LATER}) == tokens.tool(LATER)


def _png(width: int, height: int) -> dict:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(30)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(head).decode()}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(("width", "height", "count"), [(750, 10, 10), (1, 1, 1), (3000, 2000, 1600), (3136, 750, 784)])
def test_an_image_counts_by_the_providers_rule(width, height, count):
    assert tokens.image(_png(width, height)) == count


def test_a_gif_is_measured_too_and_an_unreadable_image_counts_the_cap():
    head = b"GIF89a" + struct.pack("<HH", 75, 10) + bytes(40)
    gif = {"type": "image", "source": {"type": "base64", "data": base64.b64encode(head).decode()}}
    assert tokens.image(gif) == 1
    assert tokens.image({"type": "image", "source": {"type": "url", "url": "x"}}) == tokens.IMAGE_UNKNOWN
    assert tokens.image({"type": "image", "source": {"data": "%%%"}}) == tokens.IMAGE_UNKNOWN
