import hashlib
import os
import stat

import pytest
from openmem_store import blobs
from openmem_store.layout import Layout

TEXTS = ["", "plain", "a\r\nb\rc\n", "nul\0 in", "日本語 🌤", "x" * 3_000_000]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_is_written_is_read_back(layout: Layout, text: str) -> None:
    name = blobs.write(layout, text)
    assert name == blobs.blob_id(text) == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert blobs.read(layout, name) == text
    assert stat.S_IMODE(layout.blob(name).stat().st_mode) == 0o600


def test_a_lone_surrogate_is_stored_as_a_replacement_character(layout: Layout) -> None:
    name = blobs.write(layout, "a\udc80b")
    assert name == blobs.blob_id("a\udc80b") == blobs.blob_id("a\ufffdb")
    assert blobs.read(layout, name) == "a\ufffdb"


def test_a_file_with_other_content_is_written_again(layout: Layout) -> None:
    name = blobs.write(layout, "whole")
    layout.blob(name).write_text("who")
    assert blobs.write(layout, "whole") == name
    assert blobs.read(layout, name) == "whole"


def test_writing_again_makes_it_young(layout: Layout) -> None:
    """Retention must not take a blob that a request is about to name once more."""
    path = layout.blob(blobs.write(layout, "text"))
    os.utime(path, (1, 1))
    inode = path.stat().st_ino
    blobs.write(layout, "text")
    assert path.stat().st_mtime > 1
    assert path.stat().st_ino == inode


def test_a_deleted_directory_is_made_again(layout: Layout) -> None:
    layout.blobs.rmdir()
    assert blobs.read(layout, blobs.write(layout, "text")) == "text"


@pytest.mark.parametrize("name", ["", "0" * 15, "0" * 17, "../sessions/a", "A" * 16, "0" * 16 + "\n", "0" * 16])
def test_what_is_no_blob_is_none(layout: Layout, name: str) -> None:
    assert blobs.read(layout, name) is None


def test_a_blob_that_is_not_text_is_none(layout: Layout) -> None:
    layout.blob("0" * 16).write_bytes(b"\xff\xfe")
    assert blobs.read(layout, "0" * 16) is None
