"""The locks of the SQL child, tried one by one on a connection of this process."""

import apsw
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import echoes, runner
from openmem_store.reader.source import Source, connect

from tests.store.reader.conversation import said, store


@pytest.fixture
def locked(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    """Return a locked connection; the heap limit holds for a process, so it stays as it is here."""
    monkeypatch.setattr(apsw, "hard_heap_limit", lambda limit: limit)
    source = Source(str(store(layout, "s", said("x"))), immutable=False)
    connection = connect(source)
    echoes.prepare(connection)
    runner.lock(connection)
    yield connection, source
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH 'x' AS y", "VACUUM INTO 'x'", "DELETE FROM messages", "CREATE TEMP TABLE t(x)", "PRAGMA query_only=0",
        "BEGIN", "SELECT * FROM dbstat", "SELECT load_extension('x')", "DROP VIEW temp.source_lines",
        "INSERT INTO temp.echo_rows VALUES (1)", "DELETE FROM messages_fts_data", "SAVEPOINT s",
    ],
)  # fmt: skip
def test_the_authorizer_alone_refuses(locked: tuple[apsw.Connection, Source], statement: str) -> None:
    """The text gate is not in the way here."""
    connection, source = locked
    table = runner.execute(connection, runner.Job(source, statement))
    assert table.error in (
        "the statement asks for something other than reading this session's tables",
        "not authorized to use function: load_extension",
        "table messages_fts_data may not be modified",
    )


def test_a_second_statement_does_not_run(locked: tuple[apsw.Connection, Source]) -> None:
    connection, source = locked
    table = runner.execute(connection, runner.Job(source, "SELECT 1; SELECT 2"))
    assert table.error == "only one statement may be run"


def test_what_the_full_text_index_needs_is_allowed(locked: tuple[apsw.Connection, Source]) -> None:
    connection, source = locked
    statement = "SELECT snippet(messages_fts, 0, '', '', '', 5) FROM messages_fts WHERE messages_fts MATCH 'x'"
    assert runner.execute(connection, runner.Job(source, statement)).rows == [["x"]]
    assert runner.execute(connection, runner.Job(source, "SELECT name FROM sqlite_master LIMIT 1")).rows == [
        ["messages"]
    ]


@pytest.mark.parametrize("limit", runner.LIMITS)
def test_every_limit_is_set(locked: tuple[apsw.Connection, Source], limit: int) -> None:
    assert locked[0].limit(limit) == runner.LIMITS[limit]
