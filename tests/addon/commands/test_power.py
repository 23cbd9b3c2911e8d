"""The commands as a person runs them, on the store of a home of its own."""

import io
from pathlib import Path

import pytest
from openmem_addon import switch
from openmem_addon.commands import power
from openmem_store import registration
from openmem_store.events import Usage
from openmem_store.layout import Layout
from openmem_store.registration import Registration
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


def small(layout: Layout, sid: str) -> None:
    layout.prepare()
    writer = SessionWriter(layout.database(sid), version="v")
    writer.sync(chain([Draft("user", "text", None, "now")]), dropped=(), cut=None, owned=0, blobs={}, at="t")
    writer.close()


def test_off_and_on_of_all(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert power.main("off", []) == 0
    assert switch.read(layout, "any") == "off"
    assert power.main("off", []) == 0
    assert power.main("on", []) == 0
    assert switch.read(layout, "any") == "on"
    assert capsys.readouterr().out == "off: all sessions\noff: all sessions (as before)\non: all sessions\n"


def test_off_of_one_session(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a_b", "c"):
        small(layout, name)
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
    small(layout, "small")
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


def test_the_first_characters_name_a_session_where_no_other_begins_so(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("0f3c-1", "0f3c-2", "1111-4c1d"):
        small(layout, name)
    assert power.main("off", ["1111", "1111-4c1d"]) == 0
    assert capsys.readouterr().out == "off: session 1111-4c1d\n"
    assert switch.read(layout, "1111-4c1d") == "off"
    assert power.main("off", ["0f3c", "nosuch", "1"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "off: session 1111-4c1d (as before)\n"
    assert shown.err == (
        "openmem-context: 2 sessions begin with '0f3c': 0f3c-1, 0f3c-2\n"
        "openmem-context: no session 'nosuch' is stored\n"
    )
    assert power.main("on", ["11"]) == 0
    assert capsys.readouterr().out == "on: session 1111-4c1d\n"
    assert power.main("on", ["nosuch"]) == 1
    assert list(layout.sessions.glob("*.off")) == [], "and nothing is left behind for an id that is none"


def test_a_session_that_a_hook_registered_can_be_switched_off_before_its_first_request(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.prepare()
    registration.write(layout, Registration("0f3c-1", agent="codex"))
    assert power.main("off", ["0f"]) == 0
    assert power.main("on", ["0f"]) == 0
    assert capsys.readouterr().out == (
        "off: session 0f3c-1; it is not stored yet: it will apply when it appears\non: session 0f3c-1\n"
    )
