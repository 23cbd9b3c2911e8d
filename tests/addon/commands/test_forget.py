"""The command as a person runs it, in a process of its own."""

import os
import pty
import re
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from openmem_addon.commands import forget
from openmem_store import blobs
from openmem_store.layout import Layout
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter
from process import environment, running_proxy

from fixtures.agent import Agent
from fixtures.provider.scenario import Step
from fixtures.provider.server import Provider, serve


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return the store that `run` works on."""
    made = Layout(tmp_path / "state" / "context")
    made.prepare()
    (tmp_path / "state" / "config.toml").touch()
    return made


def run(layout: Layout, *words: str, answer: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command; with an answer, typed at a terminal."""
    typing, terminal = pty.openpty() if answer is not None else (-1, subprocess.DEVNULL)
    try:
        if answer is not None:
            os.write(typing, answer.encode())
        return subprocess.run(
            [sys.executable, "-m", "openmem_addon.commands.cli", "forget", *words],
            env=environment(layout.root.parent) | {"HOME": str(layout.root.parent.parent)},
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        if answer is not None:
            os.close(typing)
            os.close(terminal)


def stored(layout: Layout, sid: str, text: str = "text") -> None:
    writer = SessionWriter(layout.database(sid), version="v")
    blob_id = blobs.write(layout, text)
    rows = chain([Draft("tool", "tool_result", "R", text)])
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={0: blob_id}, at="t")
    writer.close()


def sessions(layout: Layout) -> set[str]:
    return {path.name.split(".")[0] for path in layout.sessions.iterdir()}


def test_a_named_session_goes_without_a_question(layout: Layout) -> None:
    stored(layout, "one", "of one")
    stored(layout, "two", "of two")
    done = run(layout, "one")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("deleted 1 session (0.")
    assert done.stdout.endswith("MB), and 1 text of compressed tool results\n")
    assert sessions(layout) == {"two"}
    assert [path.stem for path in layout.blobs.iterdir()] == [blobs.blob_id("of two")]


def test_an_id_is_taken_as_the_agent_gave_it(layout: Layout) -> None:
    stored(layout, "caf__1")
    assert run(layout, " café 1 ").returncode == 0
    assert sessions(layout) == set()


def test_the_first_characters_delete_only_what_they_alone_name(layout: Layout) -> None:
    for sid in ("0f3c-1", "0f3c-2", "1111-4c1d"):
        stored(layout, sid)
    refused = run(layout, "0f3c", "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "openmem-context: 2 sessions begin with '0f3c': 0f3c-1, 0f3c-2\nopenmem-context: no session 'x' is stored\n"
    )
    assert sessions(layout) == {"0f3c-1", "0f3c-2", "1111-4c1d"}
    done = run(layout, "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "deleted session 1111-4c1d, which '1' names"
    assert done.stdout.splitlines()[1].startswith("deleted 1 session (0.")
    assert sessions(layout) == {"0f3c-1", "0f3c-2"}


def test_all_asks_first_and_takes_only_a_yes(layout: Layout) -> None:
    stored(layout, "one")
    stored(layout, "two")
    for answer in ("\n", "\x04", "all\n"):
        asked = run(layout, "--all", answer=answer)
        assert asked.returncode == 1
        assert asked.stdout.strip() == "Delete all 2 stored sessions in ~/state/context? [y/N]"
        assert asked.stderr == "openmem-context: nothing was deleted\n"
    assert sessions(layout) == {"one", "two"}
    assert run(layout, "--all", answer="yes\n").returncode == 0
    assert sessions(layout) == set()


def test_where_nobody_can_answer_all_deletes_nothing_without_a_yes(layout: Layout) -> None:
    stored(layout, "one")
    words = [sys.executable, "-m", "openmem_addon.commands.cli", "forget", "--all"]
    surroundings = environment(layout.root.parent)
    piped = subprocess.run(words, env=surroundings, input="yes\n", capture_output=True, text=True, timeout=60)
    for done in (run(layout, "--all"), piped):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            "openmem-context: forget --all asks first, and nobody can answer here: add --yes",
            "openmem-context: nothing was deleted",
        ]
    assert sessions(layout) == {"one"}


def test_yes_answers_the_question(layout: Layout) -> None:
    stored(layout, "one")
    done = run(layout, "--all", "--yes")
    assert done.returncode == 0
    assert "?" not in done.stdout
    assert sessions(layout) == set()
    assert list(layout.blobs.iterdir()) == []


def test_all_of_an_empty_store_is_nothing_to_ask_about(tmp_path: Path) -> None:
    done = run(Layout(tmp_path / "state" / "context"), "--all")
    assert (done.returncode, done.stdout) == (0, "deleted 0 sessions (0.0 MB)\n")


def test_a_session_in_use_by_a_running_proxy_is_refused_and_the_others_go(tmp_path: Path, layout: Layout) -> None:
    """The proxy has the session's database open; deleted under it, the next request would store it again."""
    provider = Provider({"talk": [Step(text="Good morning.")]})
    with serve(provider) as running, running_proxy(tmp_path, running.port) as proxy:
        stored(layout, "idle")
        trust = ssl.create_default_context(cafile=str(proxy.certificate))
        with httpx.Client(timeout=60, trust_env=False, proxy=proxy.url, verify=trust) as client:
            Agent(client, lambda name, given: "", session="live").ask("SCENARIO:talk Good morning.")
        done = run(layout, "--all", "--yes")
        assert done.returncode == 1
        assert done.stdout.startswith("deleted 1 session ")
        assert done.stderr == (
            "openmem-context: session 'live' is in use: stop its agent and its proxy, then forget it\n"
        )
        assert sessions(layout) == {"live"}
    assert run(layout, "live").returncode == 0
    assert sessions(layout) == set()


def test_a_session_that_is_not_stored_is_named(layout: Layout) -> None:
    stored(layout, "one")
    done = run(layout, "one", "tow")
    assert done.returncode == 1
    assert done.stderr == "openmem-context: no session 'tow' is stored\n"
    assert sessions(layout) == set()


def test_without_a_word_it_lists_what_could_be_forgotten(layout: Layout) -> None:
    stored(layout, "older")
    stored(layout, "newer")
    os.utime(layout.database("older"), (1.0, 1.0))
    asked = run(layout)
    assert (asked.returncode, asked.stdout) == (2, "")
    lines = asked.stderr.splitlines()
    assert lines[0] == "usage: ./run.sh forget SESSION ..."
    assert [line.split()[0] for line in lines[-3:]] == ["Stored", "newer", "older"]
    assert sessions(layout) == {"newer", "older"}


def test_a_long_list_is_cut() -> None:
    lines = forget.listed({f"s{number:02}": 1_500_000 for number in range(23)}, {})
    assert lines[:2] == ["Stored sessions, the newest first:", "s00  1.5 MB"]
    assert lines[-1] == "and 3 more"


@pytest.mark.parametrize(
    ("words", "said"),
    {
        ("--al",): "forget takes no --al",
        ("--yes",): "forget takes session ids, or --all",
        ("--all", "one"): "forget takes session ids, or --all",
        ("a/b",): "session_id must not be",
        ("..",): "session_id must not be",
    }.items(),
)
def test_words_that_are_none_of_ours_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        forget.parse(words)


def test_a_refused_word_deletes_nothing(layout: Layout) -> None:
    stored(layout, "one")
    done = run(layout, "one", "--force")
    assert done.returncode == 2
    assert done.stderr.startswith("openmem-context: forget takes no --force\nusage: ")
    assert sessions(layout) == {"one"}


def test_what_could_not_be_checked_is_said(layout: Layout) -> None:
    stored(layout, "one")
    layout.database("other").write_text("no database" * 1000)
    done = run(layout, "one")
    assert done.returncode == 1
    assert "texts of compressed tool results were kept" in done.stderr
    assert sessions(layout) == {"other"}
