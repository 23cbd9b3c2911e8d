"""The locks of the SQL child, tried one by one on a connection of this process."""

import json
import subprocess
import sys

import apsw
import msgspec
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import child, echoes, runner, sql
from openmem_store.reader.answers import RefusedError
from openmem_store.reader.source import Source, connect

from tests.store.reader.attacks import ATTACKS, BOMBS, HEAVY, SLOW
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


PEAKS = """
import json, os, subprocess, sys, threading
command, jobs = json.load(sys.stdin)
peaks = []
for job, seconds in jobs:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    child.stdin.write(job.encode())
    child.stdin.close()
    assert child.stdout.readline() == b"ready\\n"
    clock = threading.Timer(seconds, child.kill)
    clock.start()
    child.stdout.read()
    _, child.returncode, usage = os.wait4(child.pid, 0)
    clock.cancel()
    peaks.append(usage.ru_maxrss // (1 if sys.platform == "linux" else 1024))
print(json.dumps(peaks))
"""
"""A parent of little memory of its own: what it had before counts as its child's."""


def passes_the_gate(statement: str) -> bool:
    try:
        sql.check(statement)
    except RefusedError:
        return False
    return True


def test_no_attack_takes_much_memory(layout: Layout) -> None:
    source = Source(str(store(layout, "s", said("\n".join(f"SET K{n % 5} = v{n}" for n in range(20))))), False)
    statements = ["SELECT 1", *filter(passes_the_gate, ATTACKS + BOMBS + HEAVY + SLOW)]
    # What ends by itself has all the time it needs, so that a busy machine hides none of its memory.
    jobs = [
        (msgspec.json.encode(runner.Job(source, statement)).decode(), sql.SECONDS if statement in SLOW else 120)
        for statement in statements
    ]
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PEAKS],
        input=json.dumps((child.command("openmem_store.reader.runner"), jobs)).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    usual, *peaks = json.loads(ended.stdout)
    grown = {statement[:100]: (peak - usual) // 1024 for statement, peak in zip(statements[1:], peaks, strict=True)}
    assert max(grown.values()) < 200, grown
    assert grown[HEAVY[0][:100]] > 100, "one wide cell shows that the measure works"


def test_a_file_that_another_took_the_place_of_meanwhile_is_named(layout: Layout) -> None:
    """It was looked at before the child had its job."""
    path = layout.database("s")
    path.touch()
    (table,) = runner.run(runner.Job(Source(str(path), immutable=False), "SELECT 1"))
    assert table.error == "the session database cannot be read (NothingStored)"
    assert not table.damaged
