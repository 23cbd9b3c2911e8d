import stat
from pathlib import Path

import apsw
import pytest
from openmem_store import schema

GOLDEN = (Path(__file__).parents[2] / "fixtures/schema.sql").read_text().split("\n\n", 1)[1]
STATEMENTS = [statement.removesuffix(";") for statement in GOLDEN.rstrip("\n").split(";\n\n")]
EVENTS_2 = """CREATE TABLE events (id INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL,
  location TEXT, error TEXT, tokens_before INTEGER, tokens_after INTEGER, dropped INTEGER)"""

OLDER = {1: STATEMENTS[:-1], 2: [*STATEMENTS[:-1], EVENTS_2]}
"""What a file of an older version was made of."""


def own_objects(connection: apsw.Connection) -> list[object]:
    """Return the statements of `sqlite_master`, without automatic indexes and FTS5's shadow tables.

    FTS5 quotes the names of the tables it makes; the contract quotes none.
    """
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT LIKE 'CREATE TABLE ''%' ORDER BY rowid")
    return [sql for (sql,) in rows]


def make(path: Path, version: int, statements: list[str]) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_new_database_has_the_contracts_objects_in_its_order(tmp_path: Path) -> None:
    connection = schema.open_writer(tmp_path / "s.db")
    assert own_objects(connection) == STATEMENTS
    assert schema.user_version(connection) == 3


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_becomes_the_same_and_keeps_its_rows(tmp_path: Path, version: int) -> None:
    path = tmp_path / "s.db"
    make(path, version, OLDER[version])
    old = apsw.Connection(str(path))
    old.execute("INSERT INTO messages VALUES (1,'f','f','user','text',NULL,'hello',NULL,1,NULL,NULL,'t')")
    if version == 2:
        old.execute("INSERT INTO events VALUES (1,'t','trim','v',NULL,NULL,9,4,2)")
    old.close()
    connection = schema.open_writer(path)
    assert own_objects(connection) == STATEMENTS
    assert schema.user_version(connection) == 3
    assert connection.execute("SELECT seq, text FROM messages").fetchall() == [(1, "hello")]
    events = connection.execute("SELECT kind, tokens_before, dropped, model, breakpoint_at FROM events").fetchall()
    assert events == ([("trim", 9, 2, None, None)] if version == 2 else [])


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    schema.open_writer(path).close()
    before = path.read_bytes()
    schema.open_writer(path).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_newer_database_is_refused_and_stays_byte_for_byte(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "s.db"
    make(path, 4, [f"PRAGMA journal_mode = {mode}", "CREATE TABLE future (x)"])
    before = path.read_bytes()
    with pytest.raises(schema.UnsupportedSchema, match="version 4"):
        schema.open_writer(path)
    with pytest.raises(schema.UnsupportedSchema, match="version 4"):
        schema.open_reader(path)
    assert path.read_bytes() == before


def test_the_log_of_a_newer_database_stays_too(tmp_path: Path) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    make(path, 0, ["PRAGMA journal_mode = wal"])
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE future (x); PRAGMA user_version = 4")
    before = path.read_bytes(), log.read_bytes()
    theirs.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    theirs.close()
    with pytest.raises(schema.UnsupportedSchema):
        schema.open_writer(path)
    assert (path.read_bytes(), log.read_bytes()) == before


def test_a_failed_migration_leaves_the_older_version_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make(path, 1, [*OLDER[1], "CREATE TABLE events (mine)"])
    connection = apsw.Connection(str(path))
    with pytest.raises(apsw.SQLError, match="already exists"):
        schema.migrate(connection)
    assert schema.user_version(connection) == 1
    assert not connection.in_transaction


def test_the_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = schema.open_writer(path)
    names = ["s.db", "s.db-shm", "s.db-wal"]
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names] == [0o600] * 3
    connection.close()


def test_a_file_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    schema.open_writer(path).close()
    path.chmod(0o644)
    schema.open_writer(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_writer_uses_the_log_synchronously_and_checkpoints_by_hand(tmp_path: Path) -> None:
    connection = schema.open_writer(tmp_path / "s.db")
    pragmas = (
        "journal_mode",
        "synchronous",
        "wal_autocheckpoint",
        "journal_size_limit",
        "foreign_keys",
        "busy_timeout",
    )
    assert [connection.execute(f"PRAGMA {name}").get for name in pragmas] == ["wal", 2, 0, 4 << 20, 1, 1000]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_reader_takes_every_version_it_knows(tmp_path: Path, version: int) -> None:
    path = tmp_path / "s.db"
    make(path, version, OLDER.get(version, STATEMENTS))
    assert schema.user_version(schema.open_reader(path)) == version


def test_a_file_without_tables_is_known_as_that(tmp_path: Path) -> None:
    """A full disk leaves one."""
    make(tmp_path / "s.db", 0, [])
    with pytest.raises(schema.NothingStored):
        schema.open_reader(tmp_path / "s.db")


@pytest.mark.parametrize("version", [0, 4])
def test_a_reader_refuses_a_version_it_does_not_know(tmp_path: Path, version: int) -> None:
    path = tmp_path / "s.db"
    make(path, version, ["CREATE TABLE x (y)"])
    with pytest.raises(schema.UnsupportedSchema, match="reads 1 to 3"):
        schema.open_reader(path)


def test_a_reader_cannot_write_and_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError):
        schema.open_reader(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "s?#.db"
    schema.open_writer(path).close()
    with pytest.raises(apsw.ReadOnlyError):
        schema.open_reader(path).execute("DELETE FROM messages")


def test_a_reader_may_take_a_database_as_unchanging(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    schema.open_writer(path).close()
    schema.open_reader(path, immutable=True).execute("SELECT * FROM messages")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.db"]
