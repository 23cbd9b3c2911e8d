"""The copy of a session database whose indexes cannot be read."""

from pathlib import Path

import apsw
import pytest
from openmem_store import salvage, schema
from openmem_store.events import Trim
from openmem_store.layout import Layout
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

from tests.store.damage import spoil

ROWS = chain(Draft("user", "text", None, f"first {number}\nword{number} \0 木 {'x' * 200}\n") for number in range(60))

EVERYTHING = (
    "SELECT * FROM messages",
    "SELECT * FROM lines",
    "SELECT * FROM vectors",
    "SELECT * FROM events",
    "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'word7'",
    "SELECT rowid FROM lines_fts WHERE lines_fts MATCH 'word7'",
    "SELECT type, name, sql FROM sqlite_master",
    "PRAGMA user_version",
    "PRAGMA integrity_check",
)


@pytest.fixture
def original(layout: Layout) -> Path:
    path = layout.database("s")
    writer = SessionWriter(path, version="proxy:0123456789ab")
    writer.sync(ROWS, dropped=[0, 1], cut=2, owned=0, blobs={}, at="2026-10-29T17:00:00Z")
    writer.store_vectors("m", {ROWS[0].fingerprint: b"\0" * 8})
    writer.record(Trim(3, 2, 1), at="2026-10-29T17:00:00Z")
    writer.close()
    return path


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = schema.open_reader(path)
    try:
        return {statement: list(connection.execute(statement)) for statement in EVERYTHING}
    finally:
        connection.close()


@pytest.mark.parametrize(
    "damaged",
    [
        None, "messages_fts_data", "messages_fts_idx", "messages_fts_docsize", "messages_fts_config",
        "lines_fts_data", "lines_fts_idx", "lines_fts_docsize", "lines_fts_config",
        "sqlite_autoindex_messages_1", "messages_thread", "lines", "sqlite_autoindex_lines_1",
        "sqlite_autoindex_vectors_1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("durable", [True, False])
def test_a_copy_has_every_row_and_whole_indexes(
    original: Path, tmp_path: Path, damaged: str | None, durable: bool
) -> None:
    before = content(original)
    if damaged:
        spoil(original, damaged)
    kept = original.read_bytes()
    salvage.copy(original, tmp_path / "copy.db", durable=durable)
    assert content(tmp_path / "copy.db") == before
    assert original.read_bytes() == kept


@pytest.mark.parametrize("damaged", ["vectors", "events"])
def test_what_is_no_message_stays_behind_where_it_cannot_be_read(original: Path, tmp_path: Path, damaged: str) -> None:
    before = content(original)
    spoil(original, damaged)
    salvage.copy(original, tmp_path / "copy.db")
    assert content(tmp_path / "copy.db") == {**before, f"SELECT * FROM {damaged}": []}


def test_a_message_that_cannot_be_read_is_an_error(original: Path, tmp_path: Path) -> None:
    spoil(original, "messages")
    with pytest.raises(apsw.CorruptError):
        salvage.copy(original, tmp_path / "copy.db")


def test_a_message_that_is_no_text_any_more_is_damage(original: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(original))
    connection.execute("UPDATE messages SET text = CAST(x'ff' AS TEXT) WHERE seq = 3")
    connection.close()
    spoil(original, "lines")
    with pytest.raises(apsw.CorruptError):
        salvage.copy(original, tmp_path / "copy.db")


@pytest.mark.parametrize("version", [1, 2])
def test_an_earlier_version_becomes_the_current_one(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    connection = apsw.Connection(str(path))
    for statement in schema.SCHEMA:
        connection.execute(statement)
    for number, statements in schema.MIGRATIONS.items():
        for statement in statements if number <= version else ():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("INSERT INTO messages VALUES (5, 'f', 't', 'user', 'text', NULL, 'a', NULL, 1, NULL, NULL, '')")
    connection.execute("INSERT INTO lines VALUES (9, 5, 1, 'user', 'a')")
    connection.close()
    salvage.copy(path, tmp_path / "copy.db")
    copied = content(tmp_path / "copy.db")
    assert copied["PRAGMA user_version"] == [(schema.VERSION,)]
    assert copied["SELECT * FROM lines"] == [(9, 5, 1, "user", "a")]


def test_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "new.db"))
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    with pytest.raises(schema.UnsupportedSchema):
        salvage.copy(tmp_path / "new.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_copy_ends_when_it_is_told_to(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salvage, "_STEPS", 1)
    with pytest.raises(apsw.InterruptError):
        salvage.copy(original, tmp_path / "copy.db", stop=lambda: True)


def test_rows_that_are_still_in_the_log_are_copied(layout: Layout, tmp_path: Path) -> None:
    writer = SessionWriter(layout.database("live"), version="v")
    writer.sync(ROWS, dropped=[], cut=None, owned=0, blobs={}, at="2026-10-29T17:00:00Z")
    salvage.copy(layout.database("live"), tmp_path / "copy.db")
    assert content(tmp_path / "copy.db") == content(layout.database("live"))
    writer.close()
