from pathlib import Path

from openmem_store.quarantine import set_aside


def test_a_database_moves_with_its_log_and_keeps_its_bytes(tmp_path: Path) -> None:
    for tail in ("", "-wal", "-shm"):
        (tmp_path / f"s.db{tail}").write_text(f"old{tail}")
    assert set_aside(tmp_path / "s.db") == tmp_path / "s.db.corrupt-1"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "s.db.corrupt-1": "old",
        "s.db.corrupt-1-wal": "old-wal",
        "s.db.corrupt-1-shm": "old-shm",
    }


def test_an_earlier_one_is_never_overwritten(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        (tmp_path / "s.db").write_text(text)
        set_aside(tmp_path / "s.db")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "s.db.corrupt-1": "first",
        "s.db.corrupt-2": "second",
        "s.db.corrupt-3": "third",
    }
