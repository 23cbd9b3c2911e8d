import json
import stat

import pytest
from openmem_store import registration
from openmem_store.layout import Layout
from openmem_store.registration import Registration

WHOLE = Registration("ses/1", "claude-code", "/home/me/notes", "garden", "2026-10-29T17:00:00Z")


def test_a_registration_is_read_back_under_its_sanitised_id(layout: Layout) -> None:
    registration.write(layout, WHOLE)
    assert registration.read(layout, "ses_1") == WHOLE
    path = layout.registration("ses_1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(json.loads(path.read_text())) == ["session_id", "agent", "cwd", "bank", "registered_at"]


def test_fields_a_hook_leaves_out_are_none_and_others_are_not_ours(layout: Layout) -> None:
    layout.registration("s").write_text('{"session_id": "s", "bank": null, "later": [1]}')
    assert registration.read(layout, "s") == Registration("s")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"agent": "x"}',
        b'{"session_id": 1}',
        b'{"session_id": "s", "bank": {}}',
        b"\xff\xfe",
        b'{"session_id": "\xff"}',
        b'{"session_id": "\\ud800"}',
        b'{"session_id": "s", "agent": "' + b"x" * (1 << 20) + b'"}',
        b"[" * 100_000,
    ],
    ids=lambda content: content[:24].decode(errors="replace"),
)
def test_a_file_that_is_no_registration_is_none(layout: Layout, content: bytes) -> None:
    layout.registration("s").write_bytes(content)
    assert registration.read(layout, "s") is None


def test_no_file_and_a_directory_in_its_place_are_none(layout: Layout) -> None:
    assert registration.read(layout, "s") is None
    layout.registration("s").mkdir()
    assert registration.read(layout, "s") is None


def test_a_directory_name_that_is_not_utf8_is_kept_as_far_as_text_can(layout: Layout) -> None:
    registration.write(layout, Registration("s", cwd="/data/\udcff"))
    assert registration.read(layout, "s") == Registration("s", cwd="/data/\ufffd")


def test_an_id_of_which_nothing_is_left_is_refused(layout: Layout) -> None:
    with pytest.raises(ValueError, match="session_id is empty"):
        registration.write(layout, Registration(" \t"))
