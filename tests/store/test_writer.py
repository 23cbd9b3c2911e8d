import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openmem_store import delta, schema
from openmem_store.events import Event, FailOpen, Trim, Usage
from openmem_store.layout import Layout
from openmem_store.rows import Draft, Row, chain
from openmem_store.writer import SessionWriter, WriterBusy

from tests.store.damage import spoil

Say = Callable[..., tuple[Row, ...]]

T1, T2, T3 = (f"2026-10-29T17:00:0{second}Z" for second in (1, 2, 3))


@pytest.fixture
def path(layout: Layout) -> Path:
    return layout.database("s")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def writer(path: Path, log: list[str]) -> Iterator[SessionWriter]:
    made = SessionWriter(path, version="proxy:0123456789ab", log=log.append)
    yield made
    made.close()


def store(
    writer: SessionWriter,
    rows: tuple[Row, ...],
    *,
    dropped: tuple[int, ...] = (),
    cut: int | None = None,
    owned: int = 0,
    blobs: dict[int, str] | None = None,
    at: str = T1,
) -> None:
    writer.sync(rows, dropped=dropped, cut=cut, owned=owned, blobs=blobs or {}, at=at)


def ask(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = schema.open_reader(path)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


def flags(path: Path) -> list[tuple[object, ...]]:
    return ask(path, "SELECT seq, in_context, trimmed_at_seq, trimmed_at FROM messages ORDER BY seq")


def texts(path: Path) -> list[object]:
    return [text for (text,) in ask(path, "SELECT text FROM messages ORDER BY seq")]


def test_a_conversation_is_stored_in_order_with_its_lines(writer: SessionWriter, path: Path) -> None:
    rows = chain(
        [
            Draft("user", "text", None, "first\nsecond\n"),
            Draft("assistant", "tool_use", "Read", '{"path":"a"}'),
            Draft("tool", "tool_result", "Read", ""),
        ]
    )
    store(writer, rows, blobs={2: "0123456789abcdef"})
    names = [row.fingerprint for row in rows]
    assert ask(path, "SELECT * FROM messages") == [
        (1, names[0], names[0], "user", "text", None, "first\nsecond\n", None, 1, None, None, T1),
        (2, names[1], names[0], "assistant", "tool_use", "Read", '{"path":"a"}', None, 1, None, None, T1),
        (3, names[2], names[0], "tool", "tool_result", "Read", "", "0123456789abcdef", 1, None, None, T1),
    ]
    assert ask(path, "SELECT message_seq, line_no, role, text FROM lines ORDER BY id") == [
        (1, 1, "user", "first"),
        (1, 2, "user", "second"),
        (1, 3, "user", ""),
        (2, 1, "assistant", '{"path":"a"}'),
        (3, 1, "tool", ""),
    ]
    assert ask(path, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'path'") == [(2,)]
    assert ask(path, "SELECT rowid FROM lines_fts WHERE lines_fts MATCH 'second'") == [(2,)]


def test_a_resent_history_adds_only_what_is_new(writer: SessionWriter, path: Path, say: Say) -> None:
    for length in range(1, 6):
        store(writer, say(*"abcde"[:length]), at=f"t{length}")
    assert ask(path, "SELECT seq, text, created_at FROM messages") == [
        (place, text, f"t{place}") for place, text in enumerate("abcde", 1)
    ]


def test_a_request_that_changes_nothing_writes_nothing(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say("a", "b", "c", "d")
    store(writer, rows, dropped=(1, 2), cut=3, blobs={1: "x"})
    watcher = schema.open_reader(path)
    wal = path.with_name("s.db-wal")

    def state() -> tuple[object, ...]:
        status = wal.stat()
        return watcher.execute("PRAGMA data_version").get, status.st_size, status.st_mtime_ns

    before = state()
    store(writer, rows, dropped=(1, 2), cut=3, blobs={1: "x"}, at=T2)
    store(writer, rows[:1], at=T2)
    store(writer, (), at=T2)
    writer.retire("nobody", at=T2)
    assert writer.leading_known(rows) == 4
    assert state() == before
    store(writer, rows, at=T2)
    assert state() != before
    watcher.close()


def test_dropped_rows_leave_context_and_name_the_cut_turn(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say(*"abcdef")
    store(writer, rows[:5])
    store(writer, rows, dropped=(1, 2), cut=4, at=T2)
    out = (0, 5, T2)
    assert flags(path) == [(1, 1, None, None), (2, *out), (3, *out), *[(n, 1, None, None) for n in (4, 5, 6)]]
    store(writer, rows, dropped=(1, 2, 3), cut=5, at=T3)
    assert flags(path)[1:4] == [(2, *out), (3, *out), (4, 0, 6, T3)], "rows that were out keep when and where"


def test_rows_first_seen_outside_the_context_are_stored_as_such(writer: SessionWriter, path: Path, say: Say) -> None:
    store(writer, say(*"abc"), dropped=(0, 1), cut=2)
    assert flags(path) == [(1, 0, 3, T1), (2, 0, 3, T1), (3, 1, None, None)]


def test_a_row_that_is_sent_again_is_back_in_context(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say(*"abc")
    store(writer, rows, dropped=(0, 1), cut=2)
    store(writer, rows, dropped=(0,), cut=2, at=T2)
    assert flags(path) == [(1, 0, 3, T1), (2, 1, None, None), (3, 1, None, None)]


def test_rows_of_another_lane_keep_their_flags(writer: SessionWriter, path: Path, say: Say) -> None:
    shared = say("a", "b")
    store(writer, shared, dropped=(0,), cut=1)
    fork = chain([*(Draft(r.role, r.kind, r.name, r.text) for r in shared), Draft("user", "text", None, "side")])
    store(writer, fork, dropped=(1,), cut=2, owned=2, at=T2)
    assert flags(path) == [(1, 0, 2, T1), (2, 1, None, None), (3, 1, None, None)]


def test_a_compaction_takes_a_thread_out_of_context_without_a_cut_turn(
    writer: SessionWriter, path: Path, say: Say
) -> None:
    rows, other = say("a", "b", "c"), say("x")
    store(writer, rows, dropped=(0,), cut=1)
    store(writer, other)
    writer.retire(rows[0].thread, at=T2)
    assert flags(path) == [(1, 0, 2, T1), (2, 0, None, T2), (3, 0, None, T2), (4, 1, None, None)]
    store(writer, rows, at=T3)
    assert flags(path) == [(seq, 1, None, None) for seq in (1, 2, 3, 4)], "the old branch was resumed"


def test_a_blob_is_named_later_but_never_renamed(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say("a", "b")
    store(writer, rows)
    store(writer, rows, blobs={1: "one"})
    store(writer, rows, blobs={0: "two", 1: "three"})
    assert ask(path, "SELECT blob_id FROM messages") == [("two",), ("one",)]


EVENTS: list[tuple[Event, tuple[object, ...]]] = [
    (Trim(120_000, 36_000, 41), ("trim", None, None, 120_000, 36_000, 41, *[None] * 9)),
    (FailOpen("trim.py:12", "KeyError"), ("fail_open", "trim.py:12", "KeyError", *[None] * 12)),
    (
        Usage("some-model", "f" * 32, 2, 10, 20, None, 0, 3, "tools,system,m-1"),
        ("usage", *[None] * 5, "some-model", "f" * 32, 2, 10, 20, None, 0, 3, "tools,system,m-1"),
    ),
]


@pytest.mark.parametrize(("event", "row"), EVENTS, ids=["trim", "fail_open", "usage"])
def test_an_event_is_one_row(writer: SessionWriter, path: Path, event: Event, row: tuple[object, ...]) -> None:
    writer.record(event, at=T1)
    kind, *columns = row
    assert ask(path, "SELECT * FROM events") == [(1, T1, kind, "proxy:0123456789ab", *columns)]


HOSTILE = [
    "nul \0 in the middle",
    "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "\r\n\r\x0b\x0c\x85\u2028\u2029",
    "\ufeffbom 🌤 𝔘 e\u0301 \U0010ffff \uffff",
    "null",
    "1e5",
    '[1, "a"]',
    "\"'\\/",
    "\n",
    "\n" * 1_000,
    "x" * 3_000_000,
    "line of some words\n" * 160_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_comes_back_as_it_was(writer: SessionWriter, path: Path, text: str) -> None:
    store(writer, chain([Draft("user", "text", "a\0b", text)]))
    assert ask(path, "SELECT text, name FROM messages") == [(text, "a\0b")]
    lines = [line for (line,) in ask(path, "SELECT text FROM lines ORDER BY line_no")]
    assert lines == text.split("\n")


def test_a_lone_surrogate_never_raises(writer: SessionWriter, path: Path) -> None:
    rows = chain([Draft("tool", "tool_result", "n\udc80", "a\ud83d\nb")])
    store(writer, rows, blobs={0: "\udfff"})
    store(writer, rows, blobs={0: "\udfff"})
    writer.record(Usage("m\ud800", None, 0, None, None, None, None, None, None), at=T1)
    assert ask(path, "SELECT name, text, blob_id FROM messages") == [("n\ufffd", "a\ufffd\nb", "\ufffd")]
    assert ask(path, "SELECT model FROM events") == [("m\ufffd",)]


def test_the_lines_of_one_request_are_one_segment_of_the_search_index(writer: SessionWriter, path: Path) -> None:
    """Row by row they would be one each, and cost four times the CPU."""
    store(writer, chain(Draft("tool", "tool_result", "R", f"word{n}\n" * 40) for n in range(6)))
    assert ask(path, "SELECT count(DISTINCT segid) FROM lines_fts_idx") == [(1,)]


def test_the_files_are_for_the_owner_alone(writer: SessionWriter, path: Path, say: Say) -> None:
    store(writer, say("a"))
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    assert modes == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}


def test_asking_what_is_known_makes_no_file(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say("a", "b", "c")
    assert writer.leading_known(rows) == 0
    assert not path.exists()
    store(writer, rows[:2])
    assert writer.leading_known(rows) == 2
    assert writer.leading_known(say("a", "other", "c")) == 1
    assert writer.leading_known(()) == 0


def test_a_reader_sees_whole_requests_while_they_are_written(writer: SessionWriter, path: Path, say: Say) -> None:
    store(writer, say("a"))
    reader = schema.open_reader(path)
    count = "SELECT count(*) FROM messages"
    reader.execute("BEGIN")
    assert reader.execute(count).get == 1
    store(writer, say("a", "b", "c"))
    assert reader.execute(count).get == 1
    reader.execute("END")
    assert reader.execute(count).get == 3
    reader.close()


def test_a_commit_of_another_connection_is_noticed(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say("a", "b", "c")
    store(writer, rows[:1])
    other = schema.open_writer(path)
    other.execute(
        "INSERT INTO messages SELECT 2, ?, thread, 'assistant', kind, name, 'b', NULL, 0, 1, 't', 't' FROM messages",
        (rows[1].fingerprint,),
    )
    store(writer, rows)
    assert texts(path) == ["a", "b", "c"]
    assert flags(path) == [(seq, 1, None, None) for seq in (1, 2, 3)]
    other.close()


def test_a_commit_between_looking_and_locking_is_noticed(
    writer: SessionWriter, path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = say("a", "b", "c")
    store(writer, rows[:1])
    compare = delta.compare

    def interrupted(*arguments: object, **options: object) -> delta.Delta:
        monkeypatch.undo()
        other = schema.open_writer(path)
        other.execute(
            "INSERT INTO messages SELECT 2, ?, thread, 'user', kind, name, 'b', NULL, 1, NULL, NULL, 't' FROM messages",
            (rows[1].fingerprint,),
        )
        other.close()
        return compare(*arguments, **options)

    monkeypatch.setattr(delta, "compare", interrupted)
    store(writer, rows)
    assert texts(path) == ["a", "b", "c"]


def test_a_locked_database_is_the_callers_to_know_and_the_next_request_heals_it(
    writer: SessionWriter, path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_MS", 1)
    store(writer, say("a"))
    other = schema.open_writer(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(apsw.BusyError):
        store(writer, say("a", "b"))
    with pytest.raises(apsw.BusyError):
        writer.record(Trim(3, 2, 1), at=T1)
    other.execute("ROLLBACK")
    other.close()
    store(writer, say("a", "b", "c"))
    assert texts(path) == ["a", "b", "c"]


def test_a_full_disk_loses_nothing_stored_and_the_next_request_heals_it(
    writer: SessionWriter, path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener = schema.open_writer

    def small(place: Path) -> apsw.Connection:
        connection = opener(place)
        connection.execute("PRAGMA max_page_count = 40")
        return connection

    monkeypatch.setattr(schema, "open_writer", small)
    store(writer, say("a"))
    large = say("a", "b" * 200_000)
    for _ in range(2):
        with pytest.raises(apsw.FullError):
            store(writer, large)
    assert texts(path) == ["a"]
    monkeypatch.undo()
    store(writer, large)
    assert texts(path) == ["a", "b" * 200_000]


def test_a_deleted_database_is_begun_again_with_the_whole_history(writer: SessionWriter, path: Path, say: Say) -> None:
    store(writer, say("a", "b"))
    path.unlink()
    store(writer, say("a", "b", "c"))
    assert texts(path) == ["a", "b", "c"]


def test_a_deleted_store_is_begun_again_and_still_has_one_writer(
    writer: SessionWriter, layout: Layout, say: Say
) -> None:
    store(writer, say("a"))
    for directory in (layout.sessions, layout.blobs, layout.root):
        for entry in directory.iterdir():
            entry.unlink()
        directory.rmdir()
    store(writer, say("a", "b"))
    assert texts(layout.database("s")) == ["a", "b"]
    assert stat.S_IMODE(layout.sessions.stat().st_mode) == 0o700
    with pytest.raises(WriterBusy):
        SessionWriter(layout.database("s"), version="v")


def test_a_replaced_database_is_the_one_written_from_then_on(
    writer: SessionWriter, path: Path, layout: Layout, say: Say
) -> None:
    store(writer, say("a", "b"))
    other = SessionWriter(layout.database("other"), version="v")
    store(other, say("x"))
    other.close()
    layout.database("other").replace(path)
    store(writer, say("a", "b", "c"))
    assert texts(path) == ["x", "a", "b", "c"]


def test_a_deleted_log_loses_nothing(writer: SessionWriter, path: Path, say: Say) -> None:
    store(writer, say("a", "b"))
    path.with_name("s.db-wal").unlink()
    store(writer, say("a", "b", "c"))
    assert texts(path) == ["a", "b", "c"]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_directory_that_cannot_be_used_is_the_callers_to_know(
    writer: SessionWriter, layout: Layout, say: Say
) -> None:
    layout.sessions.rmdir()
    layout.sessions.write_text("in the way")
    with pytest.raises(FileExistsError):
        store(writer, say("a"))
    layout.sessions.unlink()
    store(writer, say("a"))
    assert texts(layout.database("s")) == ["a"]


def test_a_newer_database_is_left_alone(path: Path, writer: SessionWriter, say: Say) -> None:
    other = apsw.Connection(str(path))
    other.execute("PRAGMA user_version = 4")
    other.close()
    before = path.read_bytes()
    with pytest.raises(schema.UnsupportedSchema):
        store(writer, say("a"))
    assert path.read_bytes() == before


def text_file(path: Path) -> None:
    path.write_text("this is no database at all, and long enough to be read as one\n" * 100)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * 3)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "kept").touch()


def damaged(path: Path, log: list[str]) -> SessionWriter:
    """Return a writer whose database has some pages, all of them in the file and none in the log."""
    writer = SessionWriter(path, version="v", log=log.append)
    store(writer, chain(Draft("user", "text", None, f"{n} " + "words " * 500) for n in range(40)))
    other = schema.open_writer(path)
    other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    other.close()
    return writer


def expect_new(path: Path, log: list[str]) -> None:
    assert texts(path) == ["a", "b"]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert path.with_name("s.db.corrupt-1").exists()
    assert log == ["openmem-context: database damaged, set aside as s.db.corrupt-1; a new one is begun"]


@pytest.mark.parametrize("damage", [text_file, half, garbage, directory])
def test_a_database_damaged_between_runs_is_set_aside_and_a_new_one_begun(
    path: Path, log: list[str], say: Say, damage: Callable[[Path], None]
) -> None:
    damaged(path, log).close()
    damage(path)
    writer = SessionWriter(path, version="v", log=log.append)
    store(writer, say("a", "b"))
    writer.close()
    expect_new(path, log)


@pytest.mark.parametrize("damage", [text_file, half, garbage])
def test_a_database_damaged_while_open_is_set_aside_and_a_new_one_begun(
    path: Path, log: list[str], say: Say, damage: Callable[[Path], None]
) -> None:
    writer = damaged(path, log)
    damage(path)
    store(writer, say("a", "b"))
    writer.close()
    expect_new(path, log)


def test_an_empty_file_is_a_new_database(writer: SessionWriter, path: Path, say: Say, log: list[str]) -> None:
    path.touch()
    store(writer, say("a"))
    assert texts(path) == ["a"]
    assert log == []


@pytest.mark.parametrize("table", ["messages_fts", "lines_fts"])
def test_damage_in_a_search_index_alone_costs_no_message(
    writer: SessionWriter, path: Path, say: Say, log: list[str], table: str
) -> None:
    store(writer, say("alpha", "beta"))
    other = schema.open_writer(path)
    other.execute(f"UPDATE {table}_data SET block = x'ff00ff00ff'")
    other.close()
    store(writer, say("alpha", "beta", "gamma"))
    assert texts(path) == ["alpha", "beta", "gamma"]
    for word, seq in (("alpha", 1), ("gamma", 3)):
        assert ask(path, f"SELECT rowid FROM {table} WHERE {table} MATCH '{word}'") == [(seq,)]
    assert log == ["openmem-context: search index damaged; it is rebuilt"]


@pytest.mark.parametrize("table", ["messages_fts_data", "lines_fts_idx", "lines_fts_config", "lines"])
def test_damaged_pages_outside_the_messages_cost_no_message(
    path: Path, layout: Layout, log: list[str], say: Say, table: str
) -> None:
    """A writer may pass over them, but a reader tells. Rows that no request carries any more are kept too."""
    damaged(path, log).close()
    before = texts(path)
    spoil(path, table)
    writer = SessionWriter(path, version="v", log=log.append)
    layout.mend("s").touch()
    store(writer, say("alpha", "beta"))
    store(writer, say("alpha", "beta", "gamma"))
    writer.close()
    assert texts(path) == [*before, "alpha", "beta", "gamma"]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert ask(path, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'words AND 39'") == [(40,)]
    assert log == [
        "openmem-context: index damaged, database set aside as s.db.corrupt-1; all of its messages are in a new one"
    ]
    assert path.with_name("s.db.corrupt-1").exists()
    assert not layout.mend("s").exists()


def test_an_index_that_lost_its_version_costs_no_message(path: Path, say: Say, log: list[str]) -> None:
    """SQLite calls this an error of the statement."""
    before = damaged(path, log)
    before.close()
    other = schema.open_writer(path)
    other.execute("DELETE FROM messages_fts_config")
    other.close()
    writer = SessionWriter(path, version="v", log=log.append)
    store(writer, say("alpha"))
    writer.close()
    assert len(texts(path)) == 41
    assert ask(path, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'alpha'") == [(41,)]
    assert len(log) == 1


def test_a_wish_for_a_new_index_of_a_session_that_is_gone_makes_no_file(
    writer: SessionWriter, layout: Layout, say: Say, log: list[str]
) -> None:
    layout.mend("s").touch()
    store(writer, say("a"))
    assert not layout.mend("s").exists()
    assert log == []


def test_an_error_of_a_statement_sets_nothing_aside(
    writer: SessionWriter, path: Path, say: Say, log: list[str]
) -> None:
    other = schema.open_writer(path)
    other.execute("DROP TABLE events")
    other.close()
    with pytest.raises(apsw.SQLError):
        writer.record(Trim(3, 2, 1), at=T1)
    assert log == []


def test_a_long_log_moves_into_the_database_when_asked(writer: SessionWriter, path: Path) -> None:
    rows = chain(Draft("user", "text", None, f"{n} " * 100_000) for n in range(30))
    store(writer, rows)
    small = path.stat().st_size
    writer.checkpoint()
    assert path.stat().st_size > small + (4 << 20)
    assert len(texts(path)) == 30


def test_a_checkpoint_never_waits_for_a_reader(writer: SessionWriter, path: Path, say: Say) -> None:
    store(writer, say("a"))
    reader = schema.open_reader(path)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM messages").get == 1
    store(writer, chain(Draft("user", "text", None, f"{n} " * 100_000) for n in range(30)))
    writer.checkpoint()
    assert reader.execute("SELECT count(*) FROM messages").get == 1
    reader.execute("END")
    writer.checkpoint()
    assert reader.execute("SELECT count(*) FROM messages").get == 31
    reader.close()


def test_a_short_log_stays_where_it_is(writer: SessionWriter, path: Path, say: Say) -> None:
    writer.checkpoint()
    store(writer, say("a"))
    before = path.stat().st_size
    writer.checkpoint()
    assert path.stat().st_size == before


def test_closing_leaves_the_database_alone_in_its_directory(path: Path, say: Say) -> None:
    writer = SessionWriter(path, version="v")
    store(writer, say("a"))
    writer.close()
    writer.close()
    assert [entry.name for entry in path.parent.iterdir()] == ["s.db"]


CHILD = """
import sys
from pathlib import Path
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter, WriterBusy

from tests.store.damage import spoil

try:
    writer = SessionWriter(Path(sys.argv[1]), version="child")
except WriterBusy as error:
    sys.exit(f"busy: {error}")
start, drafts = int(sys.argv[2]), []
for number in range(100_000):
    drafts.append(Draft("user", "text", None, f"row {number}\\n" + "some words here\\n" * 40))
    if number >= start:
        writer.sync(chain(drafts[-1:]), dropped=(), cut=None, owned=0, blobs={}, at="t")
        print(number, flush=True)
        writer.checkpoint()
"""


def child(path: Path, start: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(start)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_killed_writer_loses_no_row_it_acknowledged(path: Path) -> None:
    acknowledged = -1
    for target in (7, 40, 90):
        process = child(path, acknowledged + 1)
        assert process.stdout is not None
        for line in process.stdout:  # to its end: what was said before the signal arrived counts
            acknowledged = int(line)
            if acknowledged == target:
                process.send_signal(signal.SIGKILL)
        process.communicate()
        stored = {str(text).split("\n", 1)[0] for text in texts(path)}
        assert stored >= {f"row {number}" for number in range(acknowledged + 1)}
        assert len(stored) <= acknowledged + 2
        assert ask(path, "PRAGMA integrity_check") == [("ok",)]
        assert ask(path, "SELECT count(*) FROM lines") == [(41 * len(stored) + len(stored),)]


def test_a_second_process_becomes_writer_only_when_the_first_has_ended(path: Path, say: Say) -> None:
    process = child(path)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(WriterBusy):
        SessionWriter(path, version="v")
    second = child(path)
    assert "busy" in second.communicate()[1]
    process.kill()
    process.communicate()
    writer = SessionWriter(path, version="v")
    store(writer, say("after"))
    writer.close()
    assert texts(path)[-1] == "after"


def test_one_session_has_one_writer_in_a_process(writer: SessionWriter, path: Path, layout: Layout) -> None:
    with pytest.raises(WriterBusy):
        SessionWriter(path, version="v")
    SessionWriter(layout.database("another"), version="v").close()


class Request:
    """One request of a random history: what it carries and which of it is dropped."""

    def __init__(self, texts: list[str], dropped: frozenset[int], owned: int) -> None:
        self.texts = texts
        self.dropped = dropped
        self.owned = owned

    def __repr__(self) -> str:
        return f"Request({self.texts}, dropped={sorted(self.dropped)}, owned={self.owned})"


@st.composite
def histories(draw: st.DrawFn) -> list[Request]:
    """Draw requests that grow, rewind and fork one conversation, and come back to older branches."""
    seen: list[list[str]] = [[]]
    requests: list[Request] = []
    for _ in range(draw(st.integers(1, 8))):
        base = draw(st.sampled_from(seen))
        kept = base[: draw(st.integers(0, len(base)))]
        texts = kept + draw(st.lists(st.sampled_from("xyz"), max_size=4))
        seen.append(texts)
        places = st.integers(0, max(0, len(texts) - 1))
        if requests and draw(st.booleans()):  # as most do, keep what the request before dropped
            dropped = frozenset(place for place in requests[-1].dropped if place < len(texts))
            owned = min(requests[-1].owned, max(0, len(texts) - 1))
        else:
            dropped, owned = draw(st.frozensets(places)), draw(st.just(0) | places)
        requests.append(Request(texts, dropped, owned))
    return requests


@settings(max_examples=60, deadline=None)
@given(histories())
def test_any_history_of_forks_and_rewinds_is_stored_as_a_simple_model_says(requests: list[Request]) -> None:
    model: dict[tuple[str, ...], tuple[bool, str | None, tuple[str, ...] | None]] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "context/sessions/s.db"
        writer = SessionWriter(path, version="v")
        for number, request in enumerate(requests):
            rows = chain(Draft("user", "text", None, text) for text in request.texts)
            cut = len(rows) - 1 if rows else None
            writer.sync(rows, dropped=request.dropped, cut=cut, owned=request.owned, blobs={}, at=f"t{number}")
            for place in range(len(rows)):
                key = tuple(request.texts[: place + 1])
                stays = place not in request.dropped
                before = model.get(key)
                if before is None or (place >= request.owned and before[0] != stays):
                    model[key] = (stays, *((None, None) if stays else (f"t{number}", tuple(request.texts))))
        writer.close()
        if not model:
            return
        order = {key: seq for seq, key in enumerate(model, 1)}
        expected = [
            (order[key], key[-1], int(stays), order[cut_key] if cut_key else None, at)
            for key, (stays, at, cut_key) in model.items()
        ]
        assert (
            ask(path, "SELECT seq, text, in_context, trimmed_at_seq, trimmed_at FROM messages ORDER BY seq") == expected
        )
        assert ask(path, "SELECT count(*) FROM lines") == [(len(model),)]


def vectors(path: Path) -> list[tuple[object, ...]]:
    return ask(path, "SELECT message_seq, model, dim, blob FROM vectors ORDER BY message_seq, model")


def test_vectors_are_stored_by_their_rows_fingerprints(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say("a", "b", "c")
    store(writer, rows)
    writer.store_vectors("m", {rows[1].fingerprint: bytes(8), rows[2].fingerprint: b"", "f" * 32: bytes(8)})
    writer.store_vectors("other", {rows[1].fingerprint: bytes(4)})
    assert vectors(path) == [(2, "m", 2, bytes(8)), (2, "other", 1, bytes(4)), (3, "m", 0, b"")]
    writer.store_vectors("m", {rows[2].fingerprint: bytes(8)})
    assert vectors(path)[2] == (3, "m", 2, bytes(8))


def test_vectors_of_a_session_that_was_deleted_create_no_file(writer: SessionWriter, path: Path, say: Say) -> None:
    rows = say("a")
    writer.store_vectors("m", {rows[0].fingerprint: bytes(4)})
    assert not path.exists()
    store(writer, rows)
    for file in path.parent.iterdir():
        file.unlink()
    writer.store_vectors("m", {rows[0].fingerprint: bytes(4)})
    assert not path.exists()
