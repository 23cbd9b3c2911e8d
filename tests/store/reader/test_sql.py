"""The SQL tool: one SELECT, whatever a model writes."""

from pathlib import Path

import msgspec
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import runner, source, sql
from openmem_store.reader.answers import RefusedError, weight
from openmem_store.reader.echoes import ANSWER_MARKER

from tests.store.reader.attacks import ATTACKS, BOMBS, HEAVY, SLOW
from tests.store.reader.conversation import called, replied, returned, said, store


@pytest.fixture
def database(layout: Layout) -> Path:
    return store(
        layout,
        "s",
        said("the task"),
        replied("ok"),
        said("\n".join(f"SET K{n % 5} = v{n}" for n in range(20))),
        called("smart_compact_sql", '{"sql":"SELECT 1"}'),
        returned("smart_compact_sql", "SET K1 = echo"),
        returned("exec", 'SET K1 = kept\n{"note":"' + ANSWER_MARKER + ' SET K1 = echo"}'),
        dropped=[1],
    )


async def rows(database: Path, statement: str) -> list[list[str | int | float | None]]:
    return (await sql.run(database, statement)).rows


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*) FROM messages WHERE in_context = 0", [[1]]),
        ("SELECT count(*) FROM source_lines WHERE text GLOB 'SET K1 = *'", [[5]]),
        ("SELECT count(*) FROM lines WHERE text GLOB '*SET K1 = *'", [[7]]),
        ("SELECT text FROM source_lines WHERE text LIKE 'SET K1 = %' ORDER BY id DESC LIMIT 1", [["SET K1 = kept"]]),
        ("SELECT text FROM source_messages WHERE name = 'exec'", [["SET K1 = kept"]]),
        ("SELECT count(DISTINCT message_seq) FROM source_lines WHERE text LIKE 'SET K%'", [[2]]),
        ("SELECT count(*) FROM lines_fts WHERE lines_fts MATCH '\"k3\"'", [[4]]),
        ("WITH k AS (SELECT text FROM lines) SELECT count(*) FROM k", [[26]]),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT count(*) FROM r", [[5]]),
        ("SELECT replace('a-b', '-', '+')", [["a+b"]]),
        ("SELECT value FROM json_each('[1, 2]')", [[1], [2]]),
        ("SELECT 'DROP; it' -- a ; comment\n;  ", [["DROP; it"]]),
        ('/* why */ SELECT 1 AS "update"', [[1]]),
        ("SELECT 1 WHERE 0", []),
        ("SELECT NULL, 1.5, 9e999, x'ff00'", None),
    ],
)
async def test_reading_works(database: Path, statement: str, expected: list[list[object]] | None) -> None:
    found = await rows(database, statement)
    if expected is None:
        shown = "[blob of 2 bytes: select hex(substr(value, 1, 100)) to see its start]"
        expected = [[None, 1.5, "inf", shown]]
    assert found == expected


async def test_a_single_count_shows_what_it_counts(database: Path) -> None:
    """The echo, the answer in another tool's result and the values all hold the text."""
    table = await sql.run(database, "SELECT count(*) FROM lines WHERE text LIKE '%SET K1 = %'")
    assert table.rows == [[7]]
    assert table.count_by == {"user, questions": 4, "tool result exec": 2, "your own searches": 1}


@pytest.mark.parametrize("statement", ["SELECT count(*), 1 FROM lines", "SELECT text FROM lines", "SELECT 7"])
async def test_what_is_no_single_count_has_no_breakdown(database: Path, statement: str) -> None:
    assert (await sql.run(database, statement)).count_by == {}


@pytest.mark.parametrize("statement", ATTACKS)
async def test_an_attack_changes_nothing_and_is_refused_without_a_path(database: Path, statement: str) -> None:
    await refused(database, statement)


@pytest.mark.parametrize("statement", BOMBS, ids=range(len(BOMBS)))
async def test_a_size_bomb_is_refused(database: Path, statement: str) -> None:
    await refused(database, statement)


@pytest.mark.parametrize("statement", SLOW, ids=["recursion", "join", "instr", "replace", "patch", "match"])
async def test_a_statement_without_end_is_stopped(
    database: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "SECONDS", 0.5)
    assert "sql was stopped after 0.5 s" in await refused(database, statement)


@pytest.mark.parametrize("statement", HEAVY, ids=range(len(HEAVY)))
async def test_an_answer_keeps_its_size_whatever_is_selected(database: Path, statement: str) -> None:
    table = await sql.run(database, statement)
    assert weight(msgspec.json.encode((table.columns, table.rows)).decode()) <= sql.MOST_CHARACTERS
    assert len(table.rows) >= 1
    assert len(table.columns) == len(table.rows[0])


async def refused(database: Path, statement: str) -> str:
    """Run a statement that must fail; the files stay as they are and the next statement is answered."""
    directory = database.parent
    with source.opened(database):  # a reader leaves a -wal and a -shm behind
        pass
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(RefusedError) as refusal:
        await sql.run(database, statement)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert str(directory) not in str(refusal.value)
    assert "Traceback" not in str(refusal.value)
    assert len(str(refusal.value)) < 400
    assert await rows(database, "SELECT count(*) FROM messages") == [[6]]
    return str(refusal.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM messages", "sql must be one statement that begins with SELECT or WITH"),
        ("SELECT 1; SELECT 2", "sql must be one statement: remove what follows the first ';'"),
        ("WITH x AS (SELECT 1) delete from lines", "sql must only read: remove DELETE"),
        ("SELECT '" + "x" * 100_000 + "'", "sql is too long: compute with the tables"),
        ("SELECT begin FROM lines", "sql must only read: remove BEGIN (a name like this goes in double quotes)"),
    ],
)
def test_the_gate_names_the_mistake(statement: str, message: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        sql.check(statement)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM nowhere", "sql failed: no such table: nowhere"),
        ("SELECT colour FROM lines", "sql failed: no such column: colour"),
        ('SELECT "colour" FROM lines', "sql failed: no such column"),
        ("SELECT * FROM dbstat", "sql failed: the statement asks for something other than reading"),
        ("SELECT cast(x'ff' AS text)", "sql failed: a text value is not valid UTF-8: select hex(value) instead"),
    ],
)
async def test_a_failure_names_its_cause(database: Path, statement: str, message: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        await sql.run(database, statement)
    assert str(refusal.value).startswith(message)


async def test_at_most_200_rows_return(database: Path) -> None:
    numbers = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT {}) SELECT n FROM r"
    table = await sql.run(database, numbers.format(runner.MOST_ROWS))
    assert (len(table.rows), table.truncated, table.columns) == (200, False, ["n"])
    table = await sql.run(database, numbers.format(runner.MOST_ROWS + 1))
    assert (len(table.rows), table.truncated) == (200, True)


async def test_a_long_cell_is_cut_and_said_to_be(database: Path) -> None:
    table = await sql.run(database, "SELECT printf('%.*c', 2000, 'x'), printf('%.*c', 2001, 'y')")
    assert [[len(str(cell)) for cell in row] for row in table.rows] == [[2000, 2000]]
    assert table.truncated


def test_rows_are_halved_until_they_fit() -> None:
    rows: list[list[str | int | float | None]] = [["x" * 1000] for _ in range(100)]
    table = sql.fit(runner.Table(["a"], rows))
    assert (len(table.rows), table.truncated) == (25, True)
    assert sql.fit(runner.Table(["a"], rows[:20])) == sql.Answer(["a"], rows[:20], False)


def test_a_row_too_large_for_an_answer_is_cut_and_not_left_out() -> None:
    table = sql.fit(runner.Table(["a"] * 40, [["x" * 2000] * 40] * 3))
    assert [{len(str(cell)) for cell in row} for row in table.rows] == [{500}]
    assert table.truncated


async def test_a_damaged_file_is_refused_without_its_path(layout: Layout) -> None:
    bad = layout.database("bad")
    bad.write_bytes(b"this is no database, it is text " * 200)
    with pytest.raises(RefusedError) as refusal:
        await sql.run(bad, "SELECT 1")
    assert str(refusal.value) == "session_id: this session is damaged"


async def test_a_session_in_which_nothing_is_stored_yet_is_said_to_be_that(layout: Layout) -> None:
    layout.database("new").touch()
    with pytest.raises(RefusedError) as refusal:
        await sql.run(layout.database("new"), "SELECT 1")
    assert str(refusal.value) == "session_id: this session is empty: nothing was stored in it yet"
