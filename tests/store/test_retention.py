import os
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from openmem_store import blobs, retention, schema
from openmem_store.layout import SUFFIXES, Layout
from openmem_store.lock import Lock
from openmem_store.retention import DAY
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

NOW = 1_000_000_000.0
OLD = NOW - 30 * DAY - 1
YOUNG = NOW - 30 * DAY + 1


def put(path: Path, modified: float) -> Path:
    path.write_text("x")
    os.utime(path, (modified, modified))
    return path


def age(layout: Layout, modified: float) -> None:
    """Give every file of the store one time of change."""
    for directory in (layout.sessions, layout.blobs):
        for path in directory.iterdir():
            os.utime(path, (modified, modified))


def stored(layout: Layout, sid: str, text: str, blob_id: str | None = None) -> None:
    writer = SessionWriter(layout.database(sid), version="v")
    rows = chain([Draft("tool", "tool_result", "R", text)])
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={0: blob_id} if blob_id else {}, at="t")
    writer.close()


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def sweep(layout: Layout, *, now: float = NOW, ttl_days: int = 30, busy: tuple[str, ...] = ()) -> tuple[str, ...]:
    return retention.sweep(layout, ttl_days=ttl_days, now=now, busy=busy)


def test_a_session_goes_with_all_its_files_when_the_newest_is_too_old(layout: Layout) -> None:
    for suffix in (*SUFFIXES, ".db.corrupt-1", ".db.corrupt-1-wal"):
        put(layout.sessions / f"old{suffix}", OLD)
        put(layout.sessions / f"young{suffix}", OLD)
    put(layout.sessions / "young.trim.json", YOUNG)
    assert sweep(layout) == ("old",)
    assert {name.split(".")[0] for name in names(layout.sessions)} == {"young"}
    assert len(names(layout.sessions)) == len(SUFFIXES) + 2


@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != ".db-shm"])
def test_any_file_that_was_written_prolongs_its_session(layout: Layout, suffix: str) -> None:
    put(layout.sessions / "s.db", OLD)
    put(layout.sessions / f"s{suffix}", YOUNG)
    assert sweep(layout) == ()


def test_looking_into_a_session_does_not_prolong_it(layout: Layout) -> None:
    """A reader leaves a `-shm` and an empty `-wal` behind."""
    stored(layout, "s", "text")
    age(layout, OLD)
    reader = schema.open_reader(layout.database("s"))
    assert reader.execute("SELECT count(*) FROM messages").get == 1
    reader.close()
    assert names(layout.sessions) > {"s.db"}
    assert max(path.stat().st_mtime for path in layout.sessions.iterdir()) > OLD
    assert sweep(layout) == ("s",)
    assert names(layout.sessions) == set()


def test_dot_files_and_other_names_are_left_alone(layout: Layout) -> None:
    others = {".hidden", ".s.db", ".json", "notes.txt", "s.db.bak", "s"}
    for name in others:
        put(layout.sessions / name, OLD)
    (layout.sessions / "dir.db").mkdir()
    os.utime(layout.sessions / "dir.db", (OLD, OLD))
    assert sweep(layout) == ()
    assert names(layout.sessions) == others | {"dir.db"}


def test_a_busy_session_and_one_that_has_a_writer_stay(layout: Layout) -> None:
    for sid in ("busy", "locked", "free"):
        put(layout.database(sid), OLD)
    lock = Lock(layout.writers_lock, "locked")
    assert sweep(layout, busy=("busy",)) == ("free",)
    lock.release()
    assert sweep(layout, now=NOW + 2 * DAY) == ("busy", "locked")


def test_a_sweep_runs_once_in_a_day(layout: Layout) -> None:
    put(layout.database("a"), OLD)
    assert sweep(layout) == ("a",)
    assert layout.ttl_stamp.stat().st_mtime == NOW
    assert stat.S_IMODE(layout.ttl_stamp.stat().st_mode) == 0o600
    put(layout.database("b"), OLD)
    assert sweep(layout, now=NOW + DAY) == ()
    assert layout.ttl_stamp.stat().st_mtime == NOW
    assert sweep(layout, now=NOW + DAY + 1) == ("b",)


def test_a_stamp_from_a_wrong_clock_does_not_stop_sweeping(layout: Layout) -> None:
    put(layout.database("a"), OLD)
    put(layout.ttl_stamp, NOW + 400 * DAY)
    assert sweep(layout) == ("a",)
    assert layout.ttl_stamp.stat().st_mtime == NOW


def test_zero_days_keep_everything(layout: Layout) -> None:
    put(layout.database("a"), OLD)
    assert sweep(layout, ttl_days=0) == ()
    assert not layout.ttl_stamp.exists()
    assert names(layout.sessions) == {"a.db"}


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert sweep(Layout(tmp_path / "context")) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_blob_stays_while_a_remaining_session_names_it(layout: Layout) -> None:
    kept, lost, young = (blobs.write(layout, text) for text in ("kept", "lost", "young"))
    stored(layout, "old", "lost", lost)
    stored(layout, "new", "kept", kept)
    age(layout, OLD)
    os.utime(layout.database("new"), (YOUNG, YOUNG))
    os.utime(layout.blob(young), (YOUNG, YOUNG))
    put(layout.blobs / "notes.md", OLD)
    put(layout.blobs / ".keep.txt", OLD)
    assert sweep(layout) == ("old",)
    assert names(layout.blobs) == {f"{kept}.txt", f"{young}.txt", "notes.md", ".keep.txt"}


def damaged(path: Path) -> None:
    path.write_text("no database" * 1_000)


def newer(path: Path) -> None:
    connection = schema.open_writer(path)
    connection.execute("PRAGMA user_version = 4")
    connection.close()


@pytest.mark.parametrize("spoil", [damaged, newer])
def test_no_blob_goes_while_a_session_cannot_be_read(layout: Layout, spoil: Callable[[Path], None]) -> None:
    name = blobs.write(layout, "text")
    age(layout, OLD)
    spoil(layout.database("s"))
    os.utime(layout.database("s"), (YOUNG, YOUNG))
    assert sweep(layout) == ()
    assert blobs.read(layout, name) == "text"


def begun(path: Path) -> None:
    """Leave what a disk that was full at the first request leaves."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


@pytest.mark.parametrize("leave", [Path.touch, begun])
def test_a_database_that_is_still_empty_names_no_blob(layout: Layout, leave: Callable[[Path], None]) -> None:
    name = blobs.write(layout, "text")
    age(layout, OLD)
    leave(layout.database("s"))
    os.utime(layout.database("s"), (YOUNG, YOUNG))
    sweep(layout)
    assert blobs.read(layout, name) is None


def test_what_a_crash_left_half_written_goes_when_it_is_old(layout: Layout) -> None:
    put(layout.sessions / ".s.trim.json.0123abcd", OLD)
    put(layout.blobs / ".0123456789abcdef.txt.0123abcd", OLD)
    put(layout.sessions / ".s.json.0123abcd", YOUNG)
    sweep(layout)
    assert names(layout.sessions) == {".s.json.0123abcd"}
    assert names(layout.blobs) == set()


def test_one_session_that_cannot_be_deleted_does_not_keep_the_others(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sid in ("a", "b", "c"):
        put(layout.database(sid), OLD)
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self.name == "b.db":
            raise PermissionError("not yours")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PermissionError, match="not yours"):
        sweep(layout)
    assert names(layout.sessions) == {"b.db"}


def test_an_open_writer_begins_anew_when_its_idle_session_was_deleted(layout: Layout) -> None:
    writer = SessionWriter(layout.database("s"), version="v")
    rows = chain([Draft("user", "text", None, "a")])
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at="t")
    for path in layout.sessions.iterdir():
        path.unlink()
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at="t")
    writer.close()
    assert schema.open_reader(layout.database("s")).execute("SELECT text FROM messages").get == "a"


def forget(layout: Layout, *sids: str) -> retention.Forgotten:
    return retention.forget(layout, sids, now=NOW)


def test_a_forgotten_session_goes_with_all_its_files_whatever_its_age(layout: Layout) -> None:
    for suffix in (*SUFFIXES, ".db.corrupt-1"):
        put(layout.sessions / f"gone{suffix}", NOW)
        put(layout.sessions / f"stays{suffix}", NOW)
    put(layout.sessions / ".gone.trim.json.0123abcd", NOW)
    put(layout.sessions / ".stays.trim.json.0123abcd", NOW)
    assert forget(layout, "gone").sessions == ("gone",)
    assert {name.lstrip(".").split(".")[0] for name in names(layout.sessions)} == {"stays"}
    assert len(names(layout.sessions)) == len(SUFFIXES) + 2


def test_a_blob_is_forgotten_with_the_last_session_that_names_it(layout: Layout) -> None:
    shared, own, orphan, young = (blobs.write(layout, text) for text in ("shared", "own", "orphan", "young"))
    stored(layout, "a", "shared", shared)
    stored(layout, "b", "shared", shared)
    stored(layout, "c", "own", own)
    age(layout, NOW)
    os.utime(layout.blob(orphan), (NOW - retention.IN_FLIGHT - 1,) * 2)
    assert forget(layout, "a", "c") == retention.Forgotten(("a", "c"), (), 2, blobs_checked=True)
    assert names(layout.blobs) == {f"{shared}.txt", f"{young}.txt"}
    assert forget(layout, "b").blobs == 1
    assert names(layout.blobs) == {f"{young}.txt"}


def test_a_session_that_has_a_writer_is_not_forgotten(layout: Layout) -> None:
    name = blobs.write(layout, "text")
    stored(layout, "s", "text", name)
    lock = Lock(layout.writers_lock, "s")
    before = names(layout.sessions)
    assert forget(layout, "s") == retention.Forgotten((), ("s",), 0, blobs_checked=True)
    assert names(layout.sessions) >= before
    assert blobs.read(layout, name) == "text"
    lock.release()
    assert forget(layout, "s").sessions == ("s",)


@pytest.mark.parametrize("spoil", [damaged, newer])
def test_forgetting_says_when_a_session_that_cannot_be_read_keeps_the_blobs(
    layout: Layout, spoil: Callable[[Path], None]
) -> None:
    name = blobs.write(layout, "text")
    stored(layout, "s", "text", name)
    spoil(layout.database("other"))
    assert forget(layout, "s") == retention.Forgotten(("s",), (), 0, blobs_checked=False)
    assert blobs.read(layout, name) == "text"
    os.utime(layout.blob(name), (OLD, OLD))
    assert forget(layout, "other").blobs == 1


def test_forgetting_goes_on_after_a_file_that_cannot_be_deleted(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sid in ("a", "b", "c"):
        put(layout.registration(sid), NOW)
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self.name == "b.json":
            raise PermissionError("not yours")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PermissionError, match="not yours"):
        forget(layout, "a", "b", "c")
    assert names(layout.sessions) == {"b.json"}


def test_every_session_with_a_file_is_listed_with_its_bytes(layout: Layout) -> None:
    put(layout.registration("b"), NOW)
    put(layout.force("b"), NOW)
    put(layout.trim("a"), NOW)
    put(layout.sessions / "notes.txt", NOW)
    assert retention.stored(layout) == {"a": 1, "b": 2}
