"""Hold each session's line to what its events and rows say."""

from pathlib import Path

import apsw
import pytest
from openmem_addon import switch
from openmem_addon.commands import report
from openmem_addon.commands.report import Report
from openmem_addon.commands.savings import Savings
from openmem_store import registration
from openmem_store.events import FailOpen, Heal, Trim, Usage
from openmem_store.layout import Layout
from openmem_store.registration import Registration
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

ROWS = chain([Draft("user", "text", None, text) for text in ("one", "two", "three")])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.prepare()
    return made


def stored(layout: Layout, sid: str) -> None:
    writer = SessionWriter(layout.database(sid), version="v")
    writer.sync(ROWS, dropped=(0, 1), cut=2, owned=0, blobs={}, at="t")
    writer.record(Trim(tokens_before=1000, tokens_after=400, dropped=2), at="t")
    for trimmed, counts in ((2, (10, 0, 390, 5)), (1, (10, 390, 0, 5)), (1, (None, None, None, None))):
        writer.record(Usage("claude-opus-5-5", ROWS[0].thread, trimmed, *counts, None, None), at="t")
    writer.record(FailOpen("a.py:1", "OSError"), at="t")
    writer.record(Heal("valve", "binding"), at="t")
    writer.store_vectors("m", {ROWS[0].fingerprint: b"\0\0\0\0", ROWS[1].fingerprint: b""})
    writer.close()


def test_a_sessions_figures_are_those_of_its_file(layout: Layout) -> None:
    stored(layout, "s-1")
    registration.write(layout, Registration("s-1", agent="codex", cwd="/p"))
    [found] = report.sessions(layout)
    assert found == Report(
        session_id="s-1",
        agent="codex",
        cwd="/p",
        messages=3,
        in_context=1,
        trims=1,
        tokens_before=1000,
        tokens_after=400,
        calls=2,
        compressed=0,
        cache_hit_rate=round(390 / 800, 3),
        saved=found.saved,
        fail_opens=1,
        heals=1,
        vectors=1,
        switch="on",
    )
    assert found.saved.tokens == 1200


def test_a_session_says_which_switch_holds_for_it(layout: Layout) -> None:
    for sid in ("s-1", "s-2"):
        stored(layout, sid)
    switch.turn(layout, "s-1", "off")
    assert {each.session_id: each.switch for each in report.sessions(layout)} == {"s-1": "off", "s-2": "on"}
    switch.turn(layout, None, "raw")
    assert {each.session_id: each.switch for each in report.sessions(layout)} == {"s-1": "off", "s-2": "raw"}


def test_an_older_file_without_events_is_reported_all_the_same(layout: Layout) -> None:
    stored(layout, "s-1")
    connection = apsw.Connection(str(layout.database("s-1")))
    connection.execute("DROP TABLE events")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    [found] = report.sessions(layout)
    assert (found.messages, found.trims, found.calls, found.cache_hit_rate, found.saved) == (3, 0, 0, None, Savings())


def test_a_file_that_cannot_be_read_is_passed_over(layout: Layout) -> None:
    layout.database("broken").write_text("no database" * 1000)
    stored(layout, "s-1")
    assert [each.session_id for each in report.sessions(layout)] == ["s-1"]
    assert report.sessions(layout, most=0) == []
