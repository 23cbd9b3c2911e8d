"""The commands as a person runs them, on the store of a home of its own."""

import io
from pathlib import Path

import pytest
from openmem_addon import switch
from openmem_addon.commands import power
from openmem_store.events import Usage
from openmem_store.layout import Layout
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter


@pytest.fixture
def layout(empty_home: Path) -> Layout:
    return Layout(empty_home / ".local/share/openmem/context")


def large(layout: Layout, sid: str) -> None:
    layout.prepare()
    writer = SessionWriter(layout.database(sid), version="v")
    rows = chain([Draft("user", "text", None, "x" * 600_000), Draft("user", "text", None, "now")])
    writer.sync(rows, dropped=(0,), cut=1, owned=0, blobs={}, at="t")
    writer.record(Usage(None, rows[0].thread, 1, 10, 0, 0, 1, None, None), at="t")
    writer.close()


def test_off_and_on_of_all(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert power.main("off", []) == 0
    assert switch.read(layout, "any") == "off"
    assert power.main("off", []) == 0
    assert power.main("on", []) == 0
    assert switch.read(layout, "any") == "on"
    assert capsys.readouterr().out == "off: all sessions\noff: all sessions (as before)\non: all sessions\n"


def test_off_of_one_session(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert power.main("off", ["a b", "c"]) == 0
    assert [switch.read(layout, each) for each in ("a_b", "c", "d")] == ["off", "off", "on"]
    power.main("off", [])
    capsys.readouterr()
    assert power.main("on", ["c"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "All sessions are still off: ./run.sh on turns them on."


def test_raw_lists_what_would_break_and_takes_only_a_yes(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    large(layout, "big")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert power.main("off", ["--raw"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "These sessions will be refused by their model, sent whole:",
        "  big: about 240,010 tokens, its model reads 200,000",
    ]
    assert switch.read(layout, "big") == "on"
    assert power.main("off", ["--raw", "--yes"]) == 0
    assert switch.read(layout, "big") == "raw"


def test_raw_of_another_session_has_nothing_to_ask(layout: Layout) -> None:
    large(layout, "big")
    assert power.main("off", ["small", "--raw"]) == 0
    assert (switch.read(layout, "small"), switch.read(layout, "big")) == ("raw", "on")


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("off", ["--rwa"], "off takes no --rwa"),
        ("on", ["--raw"], "on takes no --raw"),
        ("off", ["--yes"], "give both"),
        ("off", ["a/b"], "session_id must not"),
    ],
)
def test_words_that_are_none_of_ours_are_refused(
    name: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert power.main(name, words) == 2
    assert said in capsys.readouterr().err
