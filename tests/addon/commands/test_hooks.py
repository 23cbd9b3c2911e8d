"""The hook as an agent runs it: an event on standard input, one JSON object or nothing on standard output."""

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon import notices
from openmem_addon.commands import hooks
from openmem_addon.notices import Trimmed, Untrimmed
from openmem_store import registration, settings, sid
from openmem_store.layout import Layout
from openmem_store.registration import Registration
from process import environment

SID = "0b7e-11"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "state" / "context")


def run(layout: Layout, event: object, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    given = event if isinstance(event, str) else json.dumps(event)
    done = subprocess.run(
        [sys.executable, "-m", "openmem_addon.commands.hooks", *(words or ("claude-code",))],
        env=environment(layout.root.parent, **variables),
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    return done


def started(**more: object) -> dict[str, object]:
    return {"session_id": SID, "cwd": "/project", "hook_event_name": "SessionStart", "source": "startup", **more}


def prompted(prompt: str = "Good morning.") -> dict[str, object]:
    return {"session_id": SID, "cwd": "/project", "hook_event_name": "UserPromptSubmit", "prompt": prompt}


def line(done: subprocess.CompletedProcess[str]) -> str:
    return json.loads(done.stdout)["systemMessage"]


def test_the_start_of_a_session_registers_it(layout: Layout) -> None:
    done = run(layout, started())
    assert (done.stdout, done.stderr) == ("", "")
    found = registration.read(layout, SID)
    assert found is not None
    at = found.registered_at or ""
    assert found == Registration(SID, agent="claude-code", cwd="/project", bank=None, registered_at=at)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", at)
    path = layout.registration(SID)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (layout.root, layout.sessions, path)]
    assert modes == [0o700, 0o700, 0o600]
    assert [each.name for each in layout.sessions.iterdir()] == [path.name]


def test_a_session_that_began_before_the_hooks_is_registered_by_its_next_prompt(layout: Layout) -> None:
    assert run(layout, prompted()).stdout == ""
    first = registration.read(layout, SID)
    assert first is not None
    assert first.cwd == "/project"
    run(layout, prompted() | {"cwd": "/project/below"})
    assert registration.read(layout, SID) == first


def test_the_file_is_named_by_the_sanitised_id(layout: Layout) -> None:
    run(layout, started(session_id=" a/b "))
    found = registration.read(layout, "a_b")
    assert found is not None
    assert found.session_id == " a/b "


def test_the_bank_is_that_of_the_environment_before_that_of_the_file(layout: Layout) -> None:
    layout.root.mkdir(parents=True)
    (layout.root.parent / "config.toml").write_text('[compaction]\nbank = "from-file"\n')
    for variables, bank in (({}, "from-file"), ({"CONTEXT_COMPACTION_BANK": " mine "}, "mine")):
        run(layout, started(), **variables)
        found = registration.read(layout, SID)
        assert found is not None
        assert found.bank == bank


def test_a_file_that_is_no_toml_names_no_bank(layout: Layout) -> None:
    layout.root.mkdir(parents=True)
    (layout.root.parent / "config.toml").write_text("[compaction\n")
    run(layout, started())
    found = registration.read(layout, SID)
    assert found is not None
    assert found.bank is None


@pytest.mark.parametrize("prompt", ["/smart-compact", "Go on. /smart-compact\nThen test it."])
def test_smart_compact_in_a_prompt_asks_for_a_trim_and_says_so(layout: Layout, prompt: str) -> None:
    assert line(run(layout, prompted(prompt))) == hooks.RAISED
    assert layout.force(SID).read_bytes() == b""
    assert stat.S_IMODE(layout.force(SID).stat().st_mode) == 0o600


@pytest.mark.parametrize("prompt", ["What does docs/smart-compact.md say?", "/smart-compacting", "smart-compact"])
def test_other_words_ask_for_nothing(layout: Layout, prompt: str) -> None:
    assert run(layout, prompted(prompt)).stdout == ""
    assert not layout.force(SID).exists()


def test_a_flag_that_cannot_be_raised_is_said(layout: Layout) -> None:
    layout.force(SID).mkdir(parents=True)
    assert line(run(layout, prompted("/smart-compact"))) == hooks.NOT_RAISED.format(reason="Is a directory")


def test_the_prompt_after_a_trim_says_what_it_moved_and_the_next_nothing(layout: Layout) -> None:
    layout.prepare()
    notices.leave(layout, SID, Trimmed(moved=84_213, kept=312))
    assert line(run(layout, prompted())) == "openmem: 84k tokens moved to search, 312 messages kept"
    assert run(layout, prompted()).stdout == ""
    assert not layout.notice(SID).exists()


def test_several_trims_are_one_line() -> None:
    said = hooks.said([{"moved": 40_000, "kept": 9}, {"untrimmed": 1}, {"moved": 600, "kept": 1}])
    assert said == "openmem: 41k tokens moved to search, 1 message kept"


def test_a_session_that_cannot_be_trimmed_is_told_why(layout: Layout) -> None:
    layout.prepare()
    notices.leave(layout, SID, Untrimmed(untrimmed=131_000))
    said = line(run(layout, prompted()))
    assert said.startswith(
        "openmem: this session is at 131k tokens and is not trimmed, because its agent has no search"
    )


@pytest.mark.parametrize("event", ["", "{", "[]", '"text"', "{}", '{"session_id": null}', '{"session_id": " "}'])
def test_an_event_that_is_none_stops_no_agent(layout: Layout, event: str) -> None:
    assert run(layout, event).stdout == ""


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
@pytest.mark.parametrize("event", ["[]", json.dumps(prompted("/smart-compact"))])
def test_a_stream_that_is_closed_or_full_stops_no_agent(layout: Layout, streams: str, event: str) -> None:
    script = f'"$0" -m openmem_addon.commands.hooks claude-code {streams}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable],
        env=environment(layout.root.parent),
        input=event,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout in ("", json.dumps({"systemMessage": hooks.RAISED}) + "\n")
    assert done.stderr in (
        "",
        *(f"openmem-context-hook: {name}\n" for name in ("AttributeError", "TypeError", "OSError")),
    )


def test_a_store_that_cannot_be_written_stops_no_agent(layout: Layout) -> None:
    layout.root.parent.write_text("a file where the folder should be")
    done = run(layout, started())
    assert (done.stdout, done.stderr) == ("", "openmem-context-hook: NotADirectoryError\n")


def test_it_finds_the_store_where_the_settings_do() -> None:
    for value in ("", " /state\n", "~/state", "~", "relative", "\u00a0/x"):
        environ = {"OPENMEM_STATE_DIR": value, "HOME": "/home/someone"}
        assert hooks.state_directory(environ) == str(settings.state_directory(environ))


@given(st.text() | st.text(alphabet="aZ9._-/ \t\u00a0é", min_size=195, max_size=260))
def test_it_names_a_session_as_the_store_does(raw: str) -> None:
    assert hooks.sanitize(raw) == (sid.sanitize(raw) or "")


def test_it_imports_nothing_heavy() -> None:
    heavy = {
        "mitmproxy",
        "mcp",
        "apsw",
        "msgspec",
        "pathlib",
        "tomllib",
        "sqlite3",
        "hashlib",
        "typing",
        "openmem_store",
    }
    code = f"import sys; import openmem_addon.commands.hooks; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
