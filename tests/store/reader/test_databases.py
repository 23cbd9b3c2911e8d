"""Which session files are read, and how one is opened."""

import os
import shutil
from pathlib import Path

import apsw
import pytest
from openmem_store import registration, schema
from openmem_store.layout import Layout
from openmem_store.reader import databases
from openmem_store.reader.answers import RefusedError

from tests.store.reader.conversation import said, store


def test_a_named_session_is_the_only_one(layout: Layout) -> None:
    store(layout, "one", said("x"))
    store(layout, "two", said("x"))
    assert databases.choose(layout, "one", cwd=layout.root).sids == ("one",)


def test_an_unknown_session_is_refused_without_a_path(layout: Layout) -> None:
    with pytest.raises(RefusedError, match="session_id 'gone' has no stored messages") as refusal:
        databases.choose(layout, "gone", cwd=layout.root)
    assert str(layout.root) not in str(refusal.value)


def test_an_empty_store_says_so(layout: Layout) -> None:
    with pytest.raises(RefusedError, match="nothing is stored yet"):
        databases.choose(layout, None, cwd=layout.root)


def test_without_a_name_the_sessions_of_the_workspace_are_read(layout: Layout, tmp_path: Path) -> None:
    """A session belongs to a workspace by where its agent works, anywhere under the same git root."""
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "deep" / "er").mkdir(parents=True)
    for sid, cwd in (("here", repository / "deep"), ("there", tmp_path), ("nowhere", None)):
        store(layout, sid, said("x"))
        if cwd is not None:
            registration.write(layout, registration.Registration(session_id=sid, cwd=str(cwd)))
    choice = databases.choose(layout, None, cwd=repository / "deep" / "er")
    assert choice == databases.Choice(("here",), "the 1 newest sessions of this workspace")


def test_without_registrations_the_newest_sessions_are_read(layout: Layout, tmp_path: Path) -> None:
    for age in range(databases.MOST_SESSIONS + 2):
        os.utime(store(layout, f"s{age:02}", said("x")), (1_000_000 - age, 1_000_000 - age))
    choice = databases.choose(layout, None, cwd=tmp_path)
    assert choice.sids == tuple(f"s{age:02}" for age in range(databases.MOST_SESSIONS))
    assert choice.scope == "no session is registered for this workspace, so the 10 newest of all"


def test_a_commit_in_the_log_makes_a_session_new(layout: Layout) -> None:
    for sid, age in (("old", 5), ("new", 1)):
        os.utime(store(layout, sid, said("x")), (1_000_000 - age, 1_000_000 - age))
    log = layout.sessions / "old.db-wal"
    log.touch()
    assert databases.stored(layout) == ("new", "old"), "a look leaves an empty log, which is no change"
    log.write_bytes(b"frames")
    os.utime(log, (1_000_000, 1_000_000))
    assert databases.stored(layout) == ("old", "new")


def versions(path: Path, version: int) -> Path:
    """Make a session file as an earlier release left it."""
    connection = apsw.Connection(str(path))
    for statement in schema.SCHEMA:
        connection.execute(statement)
    for number, statements in schema.MIGRATIONS.items():
        for statement in statements if number <= version else ():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    return path


@pytest.mark.parametrize("version", [1, 2, 3])
def test_earlier_versions_are_read(tmp_path: Path, version: int) -> None:
    with databases.opened(versions(tmp_path / "s.db", version)) as connection:
        assert schema.user_version(connection) == version


@pytest.mark.parametrize("version", [0, 4])
def test_other_versions_are_not_read(tmp_path: Path, version: int) -> None:
    with pytest.raises(schema.UnsupportedSchema), databases.opened(versions(tmp_path / "s.db", version)):
        pass


def unwritable(monkeypatch: pytest.MonkeyPatch, *, error: type[apsw.Error], refused: Path) -> None:
    """Make SQLite refuse a file as it does in a directory that takes no `-shm`; root may write anywhere."""
    open_reader = schema.open_reader

    def refusing(path: Path, *, immutable: bool = False) -> apsw.Connection:
        if path == refused and not immutable:
            raise error("attempt to write a readonly database")
        return open_reader(path, immutable=immutable)

    monkeypatch.setattr(schema, "open_reader", refusing)


@pytest.mark.parametrize("error", [apsw.ReadOnlyError, apsw.CantOpenError])
def test_a_complete_file_in_a_read_only_directory_is_read(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, error: type[apsw.Error]
) -> None:
    database = store(layout, "s", said("kept"))
    unwritable(monkeypatch, error=error, refused=database)
    with databases.readable(database) as source:
        assert source == databases.Source(str(database), immutable=True)
        connection = databases.connect(source)
        assert connection.execute("SELECT text FROM messages").get == "kept"
        connection.close()


def test_rows_in_the_log_are_read_in_a_read_only_directory(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is told not to change would show only what was checkpointed."""
    live = store(layout, "live", said("kept"))
    writer = schema.open_writer(live)
    writer.execute("UPDATE messages SET name = 'in the log'")
    frozen = tmp_path / "frozen.db"
    shutil.copyfile(live, frozen)
    shutil.copyfile(live.with_name("live.db-wal"), tmp_path / "frozen.db-wal")
    writer.close()
    unwritable(monkeypatch, error=apsw.CantOpenError, refused=frozen)
    with databases.readable(frozen) as source:
        copy = Path(source.path)
        connection = databases.connect(source)
        assert connection.execute("SELECT name FROM messages").get == "in the log"
        connection.close()
    assert copy != frozen
    assert not copy.parent.exists()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError), databases.opened(tmp_path / "none.db"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_workspace_is_the_git_root_or_the_directory(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")
    assert databases.workspace(tmp_path / "a" / "b") == (tmp_path / "a").resolve()
