"""Hold what stands in a row for a part without words to the contract's form, the same from every wire."""

import hashlib

import pytest
from openmem_addon.core.described import attached, data_url, described, without_mark


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def test_a_part_is_its_type_its_media_type_its_size_and_its_hash() -> None:
    assert described("image", "image/png", b"abc") == f"[image image/png 3 bytes sha256:{sha(b'abc')}]"


def test_an_unknown_media_type_is_left_out() -> None:
    assert described("odd", "", b"") == f"[odd 0 bytes sha256:{sha(b'')}]"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("image_url", "image"),
        ("input_image", "image"),
        ("computer_screenshot", "image"),
        ("file", "document"),
        ("input_file", "document"),
        ("image", "image"),
        ("document", "document"),
        ("input_audio", "input_audio"),
    ],
)
def test_every_wires_name_of_a_part_is_one_name(kind: str, name: str) -> None:
    assert described(kind, "", b"").startswith(f"[{name} ")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("data:image/png;base64,QUJD", ("image/png", "QUJD")),
        ("data:,QUJD", ("", "QUJD")),
        ("data:image/png;name=a.png;base64,QUJD", ("image/png", "QUJD")),
        ("https://example.org/a.png", None),
        ("", None),
    ],
)
def test_a_data_url_is_taken_apart_and_no_other(url: str, parts: tuple[str, str] | None) -> None:
    assert data_url(url) == parts


@pytest.mark.parametrize(
    ("inline", "remote", "row"),
    [
        ("data:image/png;base64,QUJD", None, f"[image image/png 4 bytes sha256:{sha(b'QUJD')}]"),
        ("QUJD", None, f"[image 4 bytes sha256:{sha(b'QUJD')}]"),
        (None, "file-1", f"[image 6 bytes sha256:{sha(b'file-1')}]"),
        (None, None, f"[image 11 bytes sha256:{sha(b'{"a":[1,2]}')}]"),
    ],
)
def test_an_attachment_is_hashed_by_what_it_holds_or_where_it_is(
    inline: str | None, remote: str | None, row: str
) -> None:
    assert attached("input_image", inline, remote, b'{"a": [1, 2]}') == row


def test_a_cache_marker_and_blanks_do_not_change_a_parts_source() -> None:
    marked = b'{ "type" : "odd", "cache_control": {"type":"ephemeral"}, "x": 1.50 }'
    assert without_mark(marked) == without_mark(b'{"type":"odd","x":1.50}') == b'{"type":"odd","x":1.50}'
