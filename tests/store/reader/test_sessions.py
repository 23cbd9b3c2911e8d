"""Session files that stay open between calls: they are always the ones that their paths lead to."""

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
from openmem_store import quarantine, retention, schema
from openmem_store.layout import Layout
from openmem_store.reader import search, sessions
from openmem_store.reader.known import Known
from openmem_store.reader.results import Answer
from openmem_store.reader.scope import Scope
from openmem_store.reader.sessions import Sessions
from openmem_store.writer import SessionWriter

from tests.store.reader.conversation import Draft, returned, said, store

EVERYTHING = Scope(("user", "assistant", "tool"), None, include_echoes=False)


@pytest.fixture
def kept(layout: Layout) -> Generator[Sessions]:
    made = Sessions(layout.sessions, idle_seconds=3600.0)
    yield made
    made.close()


def used(kept: Sessions, path: Path) -> Known:
    """Open a file for a moment, and return what was given out for it."""
    with kept.opened(path) as known:
        known.connection.execute("SELECT count(*) FROM messages").fetchall()
    return known


def closed(known: Known) -> bool:
    try:
        known.connection.execute("SELECT 1").fetchall()
    except apsw.ConnectionClosedError:
        return True
    return False


def found(kept: Sessions, *paths: Path, query: str = "needle") -> Answer:
    request = search.Request(EVERYTHING, 8)
    return search.search(query, request, {path.stem: path for path in paths}, why="test", opened=kept.opened)


def test_a_file_is_open_for_the_next_call(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"))
    assert used(kept, path) is used(kept, path)


def test_two_callers_at_a_time_have_a_file_each(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"))
    with kept.opened(path) as one, kept.opened(path) as other:
        assert one is not other
    assert sorted((closed(one), closed(other))) == [False, True], "one is kept"


def test_what_is_stored_between_two_calls_is_found(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"))
    known = used(kept, path)
    assert [result.seq for result in found(kept, path).results] == [1]
    store(
        layout, "s", said("needle"), returned("Bash", "a needle\nand a needle"), returned("smart_compact_get", "needle")
    )
    answer = found(kept, path)
    assert used(kept, path) is known, "the file is the same"
    assert (answer.total_matches, answer.line_matches, answer.echoes_excluded) == (2, 3, 1)


def test_a_writer_and_its_checkpoint_never_wait_for_a_kept_file(layout: Layout, kept: Sessions) -> None:
    writer = schema.open_writer(store(layout, "s", said("needle")))
    known = used(kept, layout.database("s"))
    assert known.connection.txn_state("main") == apsw.SQLITE_TXN_NONE
    writer.execute("UPDATE messages SET in_context = 0")
    frames, moved = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert (frames, moved) == (0, 0)
    writer.close()
    assert found(kept, layout.database("s")).results[0].in_context is False


def test_a_deleted_session_is_gone(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"))
    known = used(kept, path)
    path.unlink()
    answer = found(kept, path)
    assert (answer.results, answer.skipped) == ((), {"s": "not readable (CantOpenError)"})
    assert closed(known)
    assert not path.exists()


def test_a_deleted_session_is_let_go_of_by_a_search_in_another(layout: Layout, kept: Sessions) -> None:
    deleted, other = (store(layout, sid, said("needle")) for sid in ("deleted", "other"))
    known = used(kept, deleted)
    assert retention.forget(layout, ["deleted"], now=0.0).sessions == ("deleted",)
    found(kept, other)
    assert closed(known)


def test_a_session_that_was_deleted_and_begun_anew_is_the_new_one(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"), said("needle"))
    used(kept, path)
    for file in layout.sessions.glob("s.db*"):
        file.unlink()
    store(layout, "s", said("one needle"))
    assert [result.excerpt for result in found(kept, path).results] == ["one needle"]


def test_a_session_that_another_took_the_place_of_is_the_other(layout: Layout, kept: Sessions) -> None:
    path, other = store(layout, "s", said("needle")), store(layout, "other", said("another needle"))
    used(kept, path)
    other.rename(path)
    assert [result.excerpt for result in found(kept, path).results] == ["another needle"]


def test_a_log_that_was_made_anew_is_read(layout: Layout, kept: Sessions) -> None:
    """Whoever takes only the log away leaves a reader with one that nobody writes to any more."""
    path = store(layout, "s", said("needle"))
    known = used(kept, path)
    for tail in ("-wal", "-shm"):
        path.with_name(path.name + tail).unlink()
    store(layout, "s", said("needle"), said("needle"))
    assert found(kept, path).total_matches == 2
    assert closed(known)


def test_a_session_that_was_set_aside_is_not_searched_under_its_name(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"))
    used(kept, path)
    quarantine.set_aside(path)
    store(layout, "s", said("a new needle"))
    assert [result.excerpt for result in found(kept, path).results] == ["a new needle"]


def test_a_session_that_is_damaged_later_is_named(layout: Layout, kept: Sessions) -> None:
    path, good = store(layout, "s", said("needle")), store(layout, "good", said("needle"))
    used(kept, path)
    path.write_bytes(b"this is no database, it is text " * 2000)
    answer = found(kept, path, good)
    assert (answer.skipped, [result.session_id for result in answer.results]) == ({"s": "damaged"}, ["good"])


def test_a_session_that_a_newer_program_migrated_is_left_alone(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("needle"))
    used(kept, path)
    newer = apsw.Connection(str(path))
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    assert found(kept, path).skipped.keys() == {"s"}


def test_a_reader_that_stopped_half_way_is_not_kept(layout: Layout, kept: Sessions) -> None:
    path = store(layout, "s", said("one"), said("two"))
    with kept.opened(path) as known:
        cursor = known.connection.execute("SELECT seq FROM messages")
        assert next(cursor) == (1,)
    assert closed(known)


def test_those_used_last_are_kept(layout: Layout, kept: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST", 2)
    paths = [store(layout, sid, said("needle")) for sid in "abc"]
    first, second, third = (used(kept, path) for path in paths)
    assert [closed(each) for each in (first, second, third)] == [True, False, False]
    assert used(kept, paths[1]) is second
    used(kept, paths[0])
    assert [closed(each) for each in (second, third)] == [False, True]


def test_large_sessions_are_kept_while_there_is_room(
    layout: Layout, kept: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_ROWS", 3)
    small, large = store(layout, "small", said("a")), store(layout, "large", *map(said, "abc"))
    first = used(kept, small)
    assert used(kept, large) is used(kept, large)
    assert closed(first)


def test_a_file_from_elsewhere_is_read_once(layout: Layout, tmp_path: Path, kept: Sessions) -> None:
    path = tmp_path / "copy.db"
    store(layout, "s", said("needle")).rename(path)
    assert closed(used(kept, path))


def test_everything_is_closed_when_nobody_asks_for_a_while(layout: Layout) -> None:
    idle = Sessions(layout.sessions, idle_seconds=0.0)
    known = used(idle, store(layout, "s", said("needle")))
    idle.idle.wait()
    assert closed(known)


def test_a_writer_that_keeps_writing_is_followed(layout: Layout, kept: Sessions) -> None:
    """A session is searched while it grows, flag by flag and row by row; each answer equals a fresh one."""
    path = layout.database("s")
    drafts: list[Draft] = []
    for number in range(12):
        drafts.append(returned("Bash" if number % 3 else "o__smart_compact_search", f"needle {number}"))
        store(layout, "s", *drafts, dropped=list(range(number // 2)))
        request = search.Request(Scope(("user", "tool"), number % 2 == 0 or None, False), 50)
        warm = search.search("needle 3 5", request, {"s": path}, why="test", opened=kept.opened)
        assert warm == search.search("needle 3 5", request, {"s": path}, why="test")


def test_a_writer_that_holds_the_session_goes_on_with_a_kept_reader(layout: Layout, kept: Sessions) -> None:
    store(layout, "s", said("needle"))
    used(kept, layout.database("s"))
    writer = SessionWriter(layout.database("s"), version="proxy:0123456789ab")
    writer.retire("none", at="2026-01-01T00:00:00Z")
    writer.close()
    assert found(kept, layout.database("s")).total_matches == 1
