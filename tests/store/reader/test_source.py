"""How a session file is opened without the right to change it."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest
from openmem_store import schema
from openmem_store.layout import Layout
from openmem_store.reader import source
from openmem_store.rows import chain
from openmem_store.writer import SessionWriter

from tests.store import unprivileged
from tests.store.reader.conversation import AT, said, store


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
    with source.opened(versions(tmp_path / "s.db", version)) as connection:
        assert schema.user_version(connection) == version


@pytest.mark.parametrize("version", [0, 4])
def test_other_versions_are_not_read(tmp_path: Path, version: int) -> None:
    with pytest.raises(schema.UnsupportedSchema), source.opened(versions(tmp_path / "s.db", version)):
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
    with source.readable(database) as found:
        assert found == source.Source(str(database), immutable=True)
        connection = source.connect(found)
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
    with source.readable(frozen) as found:
        copy = Path(found.path)
        connection = source.connect(found)
        assert connection.execute("SELECT name FROM messages").get == "in the log"
        connection.close()
    assert copy != frozen
    assert not copy.parent.exists()


ASK_EVERY_TOOL = """
import asyncio, json
from openmem_store.layout import Layout
from openmem_store.reader.tools import Tools

tools = Tools(Layout(Path(sys.argv[1])), Path(sys.argv[1]))

async def answers():
    return [
        json.loads(await each)
        for each in (
            tools.smart_compact_search("alpha", session_id="s"),
            tools.smart_compact_search(pattern="^alpha", session_id="s"),
            tools.smart_compact_sql("s", "SELECT count(*) FROM source_lines WHERE text LIKE 'alpha%'"),
            tools.smart_compact_get(session_id="s", seq=2),
            tools.context_status(),
        )
    ]

print(json.dumps(asyncio.run(answers())))
"""


def closed(layout: Layout) -> None:
    store(layout, "s", said("alpha one"), said("alpha two"))


def live(layout: Layout, files: tuple[str, ...]) -> None:
    """Leave a session as a writer that was killed leaves it: its last row is in the log alone."""
    path = store(layout, "live", said("alpha one"))
    writer = SessionWriter(path, version="v")
    writer.sync(
        chain([said("alpha one"), said("alpha two")]),
        dropped=[],
        cut=None,
        owned=0,
        blobs={},
        at=AT,
    )
    for suffix in files:
        shutil.copyfile(layout.sessions / f"live{suffix}", layout.sessions / f"s{suffix}")
    writer.close()
    path.unlink()


@pytest.mark.parametrize(
    "leave",
    [
        closed,
        partial(live, files=(".db", ".db-wal", ".db-shm")),
        partial(live, files=(".db", ".db-wal")),
    ],
    ids=["closed", "killed", "without-shm"],
)
@pytest.mark.parametrize("mode", [0o500, 0o700], ids=["read-only", "writable"])
def test_every_tool_reads_a_folder_that_may_not_be_written(
    layout: Layout, leave: Callable[[Layout], None], mode: int
) -> None:
    leave(layout)
    for folder in (layout.blobs, layout.sessions, layout.root):
        folder.chmod(mode)
    try:
        before = {file.name: file.read_bytes() for file in layout.sessions.iterdir()}
        query, pattern, table, page, status = unprivileged.run(ASK_EVERY_TOOL, str(layout.root))
        after = {file.name: file.read_bytes() for file in layout.sessions.iterdir()}
    finally:
        for folder in (layout.root, layout.sessions, layout.blobs):
            folder.chmod(0o700)
    assert (query["total_matches"], query["line_matches"]) == (2, 2)
    assert (pattern["total_matches"], pattern["line_matches"]) == (2, 2)
    assert table["rows"] == [[2]]
    assert page["text"] == "alpha two"
    assert (status["sessions"], status["messages"], status["unreadable"]) == (1, 2, 0)
    if mode == 0o500:
        assert after.keys() == before.keys()
        assert after["s.db"] == before["s.db"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError), source.opened(tmp_path / "none.db"):
        pass
    assert list(tmp_path.iterdir()) == []
