import json
from pathlib import Path

import msgspec
import pytest
from openmem_addon import switch
from openmem_addon.commands import pricing, probe, status
from openmem_addon.commands.probe import Health, Holder
from openmem_addon.switch import Switch
from openmem_store.events import Trim, Usage
from openmem_store.layout import Layout
from openmem_store.reader.status import Summary
from openmem_store.reader.status import Usage as Used
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

OWN = "0123456789ab"
SUMMARY = Summary(
    sessions=12,
    messages=1234,
    in_context=345,
    trims=6,
    fail_opens=1,
    heals=0,
    usage=Used(),
    cache_hit_rate=None,
    proxy_version=None,
    code_version=OWN,
    proxy_runs_this_code=None,
    seconds_since_write=None,
    bytes=0,
    unreadable=0,
    vectors={},
    newest=(),
)

PROXIES = {
    Holder("other"): "down: port 8080 is taken by another program",
    Holder("free"): "down: nothing of ours answers on port 8080; start it with ./run.sh",
    Holder("ours", Health("openmem-context", OWN, 7)): f"up on port 8080, process 7, on this code ({OWN})",
    Holder("ours", Health("openmem-context", "ba9876543210", 7)): (
        f"up on port 8080, process 7, on other code (ba9876543210; here is {OWN}): restart it"
    ),
}


@pytest.mark.parametrize(("holder", "said"), PROXIES.items())
def test_the_first_line_says_who_holds_the_port_and_whether_it_runs_this_code(holder: Holder, said: str) -> None:
    first = status.lines(holder, SUMMARY, port=8080, place="~/store", own=OWN)[0]
    assert first == f"proxy       {said}"


def test_the_other_four_lines_say_what_is_stored() -> None:
    assert status.lines(Holder("free"), SUMMARY, port=8080, place="~/store", own=OWN)[1:] == [
        "sessions    12 in ~/store",
        "messages    1,234 stored, 345 of them in context",
        "trims       6",
        "fail-opens  1",
    ]


def test_a_session_file_that_cannot_be_read_is_not_hidden() -> None:
    damaged = msgspec.structs.replace(SUMMARY, unreadable=2)
    assert (
        status.lines(Holder("free"), damaged, port=8080, place="~/store", own=OWN)[1]
        == "sessions    12 in ~/store, 2 unreadable"
    )


@pytest.mark.usefixtures("empty_home")
def test_an_empty_machine_gets_its_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main("status", ["--port", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5
    assert out[1].startswith("sessions    0 in ~/")


@pytest.mark.parametrize(
    "words", [["--watch", "--json"], ["--port"], ["--port", "x"], ["--port", "9", "more"], ["--wath"]]
)
def test_words_that_are_none_of_ours_show_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main("status", words) == 2
    assert status.HELP in capsys.readouterr().err


@pytest.mark.usefixtures("empty_home")
def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXT_TRIM_TOKENS", "many")
    assert status.main("status", []) == 2
    assert "CONTEXT_TRIM_TOKENS" in capsys.readouterr().err


@pytest.fixture
def layout(empty_home: Path) -> Layout:
    """A store with one session."""
    made = Layout(empty_home / ".local/share/openmem/context")
    made.prepare()
    writer = SessionWriter(made.database("s-1"), version="v")
    writer.sync(chain([Draft("user", "text", None, "hello")]), dropped=(), cut=None, owned=0, blobs={}, at="t")
    writer.close()
    return made


@pytest.mark.usefixtures("layout")
def test_below_the_five_lines_each_session_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main("status", ["--port=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[5] == ""
    assert lines[6].split()[:3] == ["session", "agent", "folder"]
    assert lines[7].split()[:4] == ["s-1", "-", "-", "1"]
    assert len(lines) == 8, "nothing was saved, and nothing is to explain"


def test_what_was_saved_is_summed_up_below(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    writer = SessionWriter(layout.database("s-1"), version="v")
    writer.record(Trim(tokens_before=91_000, tokens_after=31_000, dropped=1), at="t")
    writer.record(Usage("mine", "t", 2, 100, 30_000, 0, 5, None, None), at="t")
    writer.close()
    assert status.main("status", ["--port=1"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "",
        "saved: 60k tok in these sessions, net of cache rewrites and look-ups, without the provider's own caching; "
        f"prices of {pricing.AS_OF}; no price for mine",
    ]


def test_more_sessions_than_are_listed_are_counted(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(status.MOST + 2):
        writer = SessionWriter(layout.database(f"more-{number}"), version="v")
        writer.sync(chain([Draft("user", "text", None, "hello")]), dropped=(), cut=None, owned=0, blobs={}, at="t")
        writer.close()
    assert status.main("status", ["--port", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "and 3 more: ./run.sh status --json names all"
    assert len(lines) == 5 + 1 + 1 + status.MOST + 1


def test_a_switch_that_is_off_is_said(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[Switch, str] = {
        "off": "; switched off for all sessions (./run.sh on)",
        "raw": "; raw: everything is sent whole and nothing is stored (./run.sh on)",
    }
    for held, words in said.items():
        switch.turn(layout, None, held)
        status.main("status", ["--port", "1"])
        assert capsys.readouterr().out.splitlines()[0].endswith(words)
        status.main("status", ["--port", "1", "--json"])
        found = json.loads(capsys.readouterr().out)
        assert (found["switch"], found["switched_off"], found["sessions"][0]["switch"]) == (held, True, held)


def test_a_session_that_is_switched_off_is_marked(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    switch.turn(layout, "s-1", "off")
    status.main("status", ["--port", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert "switched off" not in lines[0]
    assert lines[7].rstrip().endswith("switched off")
    status.main("status", ["--port", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["switch"], found["switched_off"], found["sessions"][0]["switch"]) == ("on", False, "off")


def test_a_program_reads_it_as_json(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    port = probe.free_port("127.0.0.1")
    assert status.main("status", ["--json", "--port", str(port)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["port"] == {"number": port, "held": "free"}
    assert found["proxy"] is None
    assert found["switched_off"] is False
    assert found["store"]["sessions"] == 1
    assert [each["session_id"] for each in found["sessions"]] == ["s-1"]
    assert found["prices_of"]


@pytest.mark.usefixtures("layout")
def test_watching_shows_it_again_until_it_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    assert status.main("status", ["--watch", "--port", "1"], wait=wait) == 0
    out = capsys.readouterr().out
    assert out.count("proxy       down") == 3
    assert "\x1b" not in out, "nobody reads it on a terminal"
