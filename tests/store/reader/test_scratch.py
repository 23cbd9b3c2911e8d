"""The temporary folders of the reader."""

import os
import tempfile
from pathlib import Path

import pytest
from openmem_store.reader import scratch

NOW = 1_000_000_000.0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_private_and_goes_when_it_is_left(temporary: Path) -> None:
    with scratch.folder() as name:
        (Path(name) / "session.db").write_text("x")
        assert Path(name).parent == temporary
        assert Path(name).stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(temporary: Path) -> None:
    with scratch.folder() as name:
        left, in_use = Path(name), temporary / "openmem-read-young"
    left.mkdir()
    (left / "0.db").write_text("a conversation")
    in_use.mkdir()
    other, file, link = temporary / "another", temporary / "openmem-read-file", temporary / "openmem-read-link"
    other.mkdir()
    file.write_text("x")
    link.symlink_to(other)
    for path in (left, other, file):
        os.utime(path, (NOW - scratch.LEFT_SECONDS - 1,) * 2)
    os.utime(link, (NOW - scratch.LEFT_SECONDS - 1,) * 2, follow_symlinks=False)
    os.utime(in_use, (NOW - scratch.LEFT_SECONDS + 1,) * 2)
    scratch.clear(now=NOW)
    assert sorted(temporary.iterdir()) == [other, file, link, in_use]
