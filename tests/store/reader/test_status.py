"""The summary of a store."""

import os

import apsw
import pytest
from openmem_store import events, registration, version
from openmem_store.layout import Layout
from openmem_store.reader import status
from openmem_store.writer import SessionWriter

from tests.store.reader.conversation import VERSION, replied, said, store
from tests.store.reader.embedded import EAST, embed
from tests.store.reader.test_source import versions

NOW = 2_000_000.0


def usage(read: int | None, written: int | None, fresh: int | None) -> events.Usage:
    return events.Usage("m", None, 0, fresh, read, written, 5, None, None)


def test_an_empty_store_has_zeros_and_no_rates(layout: Layout) -> None:
    summary = status.summary(layout, now=NOW)
    assert (summary.sessions, summary.messages, summary.trims, summary.usage) == (0, 0, 0, status.Usage())
    assert (summary.cache_hit_rate, summary.proxy_version, summary.proxy_runs_this_code) == (None, None, None)
    assert (summary.seconds_since_write, summary.newest, summary.vectors) == (None, (), {})
    assert summary.code_version == version.code_hash()


def test_a_store_that_does_not_exist_is_empty(layout: Layout) -> None:
    missing = Layout(layout.root / "none")
    assert status.summary(missing, now=NOW).sessions == 0
    assert not missing.root.exists()


def test_sessions_are_summed_up(layout: Layout) -> None:
    database = store(layout, "one", said("a"), replied("b"), said("c"), dropped=[0, 1])
    registration.write(layout, registration.Registration(session_id="one", cwd="/project"))
    writer = SessionWriter(database, version=VERSION)
    for at, event in (
        ("2026-10-29T17:00:01Z", events.Trim(100, 40, 2)),
        ("2026-10-29T17:00:02Z", events.FailOpen("trim.py:1", "ValueError")),
        ("2026-10-29T17:00:03Z", usage(600, 300, 100)),
        ("2026-10-29T17:00:04Z", usage(None, None, 0)),
    ):
        writer.record(event, at=at)
    writer.close()
    os.utime(store(layout, "two", said("x")), (NOW - 90, NOW - 90))
    os.utime(database, (NOW - 30, NOW - 30))
    summary = status.summary(layout, now=NOW)
    assert (summary.sessions, summary.messages, summary.in_context) == (2, 4, 2)
    assert (summary.trims, summary.fail_opens, summary.heals, summary.unreadable) == (1, 1, 0, 0)
    assert summary.usage == status.Usage(2, 100, 600, 300, 10)
    assert summary.cache_hit_rate == 0.6
    assert summary.seconds_since_write == 30.0
    assert summary.bytes > 0
    assert summary.newest == (
        status.Session("one", 3, 1, 1, 1, "/project"),
        status.Session("two", 1, 1, 0, 0, None),
    )


@pytest.mark.parametrize(("writer_version", "same"), [("0123456789ab", False), (version.code_hash(), True)])
def test_the_newest_proxy_event_tells_whether_the_proxy_runs_this_code(
    layout: Layout, writer_version: str, same: bool
) -> None:
    database = store(layout, "s", said("a"))
    for number, name in enumerate((f"proxy:{writer_version}", "proxy:ffffffffffff", "opencode:9.9.9")):
        writer = SessionWriter(database, version=name)
        writer.record(
            events.Trim(1, 1, 1), at=f"2026-10-29T17:00:{50 - number:02}Z" if number < 2 else "2027-01-01T00:00:00Z"
        )
        writer.close()
    summary = status.summary(layout, now=NOW)
    assert (summary.proxy_version, summary.proxy_runs_this_code) == (writer_version, same)


def test_rows_that_were_embedded_are_counted_by_model(layout: Layout) -> None:
    embed(store(layout, "one", said("a"), said("b")), {1: EAST, 2: b""}, model="small")
    embed(store(layout, "two", said("a")), {1: EAST}, model="small")
    embed(layout.database("two"), {1: EAST}, model="large")
    assert status.summary(layout, now=NOW).vectors == {"small": 3, "large": 1}


@pytest.mark.parametrize("number", [1, 2])
def test_earlier_versions_are_counted(layout: Layout, number: int) -> None:
    connection = apsw.Connection(str(versions(layout.database("s"), number)))
    connection.execute(
        "INSERT INTO messages VALUES (1, 'f', 'f', 'user', 'text', NULL, 'x', NULL, 1, NULL, NULL, 'now')"
    )
    connection.close()
    summary = status.summary(layout, now=NOW)
    assert (summary.messages, summary.trims, summary.usage, summary.unreadable) == (1, 0, status.Usage(), 0)


def test_unreadable_sessions_are_counted_apart(layout: Layout) -> None:
    layout.database("bad").write_bytes(b"this is no database, it is text " * 200)
    versions(layout.database("newer"), 4)
    store(layout, "good", said("a"))
    summary = status.summary(layout, now=NOW)
    assert (summary.sessions, summary.unreadable, summary.messages) == (3, 2, 1)
