"""A new user on a clean home, with the real Claude Code and our real commands: install, work, look, turn off, undo."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from openmem_addon.commands import wiring

from fixtures.clients.claude import Claude
from fixtures.clients.journey import Journey
from fixtures.clients.place import ROOT, Place
from fixtures.clients.story import NUMBER, Story
from tests.whole import play

pytestmark = [
    pytest.mark.agent,
    pytest.mark.skipif("claude" in os.environ.get("OPENMEM_TEST_SKIP", "").split(","), reason="OPENMEM_TEST_SKIP"),
]

THRESHOLD = 24_500
PLAN = Story(first=10, second=10, annex=0)


class Installed(Claude):
    """Claude Code, set up by `install` alone."""

    def settle(self, place: Place) -> None:
        done = run(place, "install", "--agent", "claude", "--at-once")
        assert done.returncode == 0, done.stderr


def run(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(os.environ["OPENMEM_TEST_CLAUDE"])
    return subprocess.run(
        [str(ROOT / "run.sh"), *words],
        cwd=place.work,
        env=place.environment(program, Claude().environment()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    folder = tmp_path_factory.mktemp("new-user")
    return play(Installed(), folder, title="New user", threshold=THRESHOLD, plan=PLAN, kill=False)


def status(journey: Journey) -> dict[str, Any]:
    done = run(journey.place, "status", "--json", "--port", str(journey.port))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_question_was_answered_by_search(journey: Journey) -> None:
    assert [ended.returncode for ended in journey.ended] == [0, 0], journey.said()
    assert NUMBER in journey.ended[-1].stdout


def test_the_hooks_registered_the_session(journey: Journey) -> None:
    path = journey.place.state / "context" / "sessions" / f"{journey.session}.json"
    known = json.loads(path.read_text())
    assert (known["agent"], known["cwd"]) == ("claude-code", str(journey.place.work))


def test_status_shows_the_trim_and_why_says_what_left(journey: Journey) -> None:
    [shown] = status(journey)["sessions"]
    assert shown["trims"] >= 1
    assert shown["agent"] == "claude-code"
    assert shown["cache_hit_rate"] > 0.5
    said = run(journey.place, "why", journey.session).stdout
    assert "result of Bash" in said
    assert "looked up afterwards: 1 time" in said


def test_doctor_finds_the_agent_in_order(journey: Journey) -> None:
    said = run(journey.place, "doctor", "--port", str(journey.port)).stdout
    assert "ok      claude      Claude Code has the search tools, and hooks" in said
    assert "ok      search      the search server answers" in said


def test_importing_its_transcript_adds_only_the_last_answers(journey: Journey) -> None:
    stored = journey.rows("SELECT count(*) FROM messages")
    flags = journey.rows("SELECT seq, in_context FROM messages ORDER BY seq")
    done = run(journey.place, "import")
    assert done.returncode == 0, done.stderr
    added = journey.rows("SELECT role, kind FROM messages ORDER BY seq")[stored[0][0] :]
    assert set(added) <= {("assistant", "text")}
    assert len(added) <= 2
    assert journey.rows("SELECT seq, in_context FROM messages ORDER BY seq")[: len(flags)] == flags
    assert f"session, {journey.session}" in run(journey.place, "handoff", journey.session).stdout


def test_off_and_on_are_followed(journey: Journey) -> None:
    assert run(journey.place, "off").stdout == "off: all sessions\n"
    assert status(journey)["switched_off"] is True
    assert run(journey.place, "on").stdout == "on: all sessions\n"
    assert status(journey)["switched_off"] is False


def test_afterwards_nothing_of_ours_is_left_in_the_home(journey: Journey) -> None:
    """Claude Code has written its own file meanwhile: there, only our entry leaves."""
    home = journey.place.home
    assert run(journey.place, "uninstall").returncode == 0
    for path in (home / ".claude.json", home / ".claude" / "settings.json"):
        text = path.read_text() if path.exists() else ""
        assert wiring.HOOK_PROGRAM not in text
        assert wiring.MCP_PROGRAM not in text
    assert "mcpServers" not in json.loads((home / ".claude.json").read_text())
    assert not (journey.place.state / "install").exists()
