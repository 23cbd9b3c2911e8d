"""Hold the way back to the very bytes of before, and to our entries alone where somebody wrote since."""

import stat
from pathlib import Path

import pytest
from openmem_addon.commands.ledger import Ledger
from openmem_store import layout


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "install")


def take(text: str, original: str) -> str:
    return text.replace("ours", f"<{original}>")


def test_a_file_gets_its_bytes_and_keeps_its_mode(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before\r\n\xff")
    path.chmod(0o644)
    copy = ledger.write(path, b"after", take, empty="")
    assert copy is not None
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"after", 0o644)
    assert ledger.original(path) == b"before\r\n\xff"
    path.chmod(0o600)
    with pytest.raises(UnicodeDecodeError):
        ledger.undo(path, take, empty="")
    assert path.read_bytes() == b"before\r\n\xff"


def test_a_file_that_was_not_there_goes_with_the_folders_made_for_it(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "b" / "c" / "d"
    assert ledger.write(path, b"1", take, empty="") is None
    assert ledger.undo(path, take, empty="") is None
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "state" / "install").exists()


def test_a_file_that_could_not_be_written_down_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    path = tmp_path / "b" / "c"
    ledger = Ledger(tmp_path / "taken" / "install")
    with pytest.raises(NotADirectoryError):
        ledger.check()
    with pytest.raises(NotADirectoryError):
        ledger.write(path, b"1", take, empty="")
    assert not (tmp_path / "b").exists()


def test_to_look_whether_something_can_be_kept_leaves_nothing(tmp_path: Path, ledger: Ledger) -> None:
    ledger.check()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("before", [None, b"before"])
def test_a_change_that_failed_is_in_no_book(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    path = tmp_path / "b" / "c"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    whole = layout.replace

    def replace(target: Path, content: bytes) -> None:
        if target == path:
            raise OSError(28, "No space left on device", str(target))
        whole(target, content)

    monkeypatch.setattr(layout, "replace", replace)
    with pytest.raises(OSError, match="No space left"):
        ledger.write(path, b"ours", take, empty="")
    assert not ledger.knows(path)
    assert not ledger.folder.exists()
    assert path.parent.exists() == (before is not None)


def test_what_undo_would_do_is_told_and_not_done(tmp_path: Path, ledger: Ledger) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("before")
    for each in (path, other):
        ledger.write(each, b"ours", take, empty="")
    assert (ledger.undone(path, take, empty=""), ledger.undone(other, take, empty="")) == ("before", None)
    assert (path.read_text(), other.read_text()) == ("ours", "ours")
    other.write_text("ours and theirs")
    assert ledger.undone(other, take, empty="") == "<> and theirs"


def test_a_folder_that_somebody_uses_stays(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "b" / "c"
    ledger.write(path, b"1", take, empty="")
    (tmp_path / "b" / "theirs").touch()
    ledger.undo(path, take, empty="")
    assert [each.name for each in (tmp_path / "b").iterdir()] == ["theirs"]


def test_where_somebody_wrote_since_the_entries_are_taken_out(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    ledger.write(path, b"ours", take, empty="")
    path.write_text("ours and theirs")
    assert ledger.undo(path, take, empty="") == "<before> and theirs"
    assert not ledger.knows(path)


def test_of_a_file_that_is_not_in_the_book_the_entries_are_taken_out(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "a"
    path.write_text("ours")
    assert ledger.undo(path, take, empty="nothing") == "<nothing>"
    assert ledger.undo(tmp_path / "none", take, empty="") is None


def test_two_files_of_one_name_and_content_have_two_copies(tmp_path: Path, ledger: Ledger) -> None:
    paths = [tmp_path / name / "config" for name in ("x", "y")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("same")
        ledger.write(path, b"ours", take, empty="")
    for path in paths:
        assert ledger.undo(path, take, empty="") == "same"


def test_our_own_second_change_keeps_the_first_copy(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    ledger.write(path, b"ours 1", take, empty="")
    ledger.write(path, b"ours 2", take, empty="")
    assert ledger.undo(path, take, empty="") == "before"


def test_our_second_change_after_somebody_wrote_keeps_what_they_wrote_without_ours(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    ledger.write(path, b"ours 1", take, empty="")
    path.write_text("ours 1 and theirs")
    copy = ledger.write(path, b"ours 2 and theirs", take, empty="")
    assert copy is not None
    assert [each.name for each in copy.parent.iterdir() if each.name != "files.json"] == [copy.name]
    assert copy.read_text() == "<before> 1 and theirs"
    assert ledger.undo(path, take, empty="") == "<before> 1 and theirs"
    assert not copy.parent.exists()


def test_a_damaged_book_is_named_with_what_mends_it(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    ledger.write(path, b"ours", take, empty="")
    book = tmp_path / "state" / "install" / "files.json"
    book.write_text("{")
    with pytest.raises(ValueError, match=r"files\.json is damaged: remove it"):
        ledger.undo(path, take, empty="nothing")
    book.unlink()
    assert ledger.undo(path, take, empty="nothing") == "<nothing>"


def test_a_file_that_is_read_only_is_left_alone(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="it is read-only"):
        ledger.write(path, b"ours", take, empty="")
    path.chmod(0o644)
    ledger.write(path, b"ours", take, empty="")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="it is read-only"):
        ledger.undo(path, take, empty="")
    assert path.read_text() == "ours"
