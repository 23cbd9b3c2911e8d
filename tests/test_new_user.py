"""A new user on a clean home, with the real agents and our real commands: install, work, look, turn off, undo."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from openmem_addon.commands import wiring
from process import call

from fixtures.clients import story
from fixtures.clients.claude import Claude
from fixtures.clients.codex import Codex
from fixtures.clients.driver import Driver
from fixtures.clients.journey import Journey
from fixtures.clients.opencode import OpenCode
from fixtures.clients.place import ROOT
from fixtures.clients.story import NUMBER, Story

PLAN = Story(first=5, second=1, annex=0, lines=90)
"""Pages long enough that the last of the first part leave no room."""


def skipped(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(name in os.environ.get("OPENMEM_TEST_SKIP", "").split(","), reason="OPENMEM_TEST_SKIP")


class Arrival(Journey):
    """Set up by `install` alone; a third prompt, with all turned off, asks for the first pages again."""

    def __init__(self, driver: Driver, folder: Path, *, threshold: int, install: Sequence[str]) -> None:
        variable = f"OPENMEM_TEST_{driver.name.upper()}"
        program = os.environ.get(variable, "")
        assert program, f"{variable} names the client; ./run.sh test installs it"
        settings = {"CONTEXT_TRIM_TOKENS": str(threshold)}
        super().__init__(driver, Path(program), folder, plan=PLAN, settings=settings, kill=False)
        self.before: dict[str, bytes] = {}
        """The files of the home that were there first."""
        self.trims: list[int] = []
        """How many there were before `off`, and after what followed it."""
        self._install = install

    def _settle(self) -> None:
        self.driver.configure(self.place)
        self.before = self.files()
        done = self.command("install", "--agent", self.driver.name, *self._install)
        assert done.returncode == 0, done.stderr

    def _prompts(self, provider: int) -> None:
        super()._prompts(provider)
        self.trims.append(self._count())
        assert self.command("off").stdout == "off: all sessions\n"
        self._prompt(story.BEGIN, provider, resume=self.session)
        self.trims.append(self._count())

    def files(self) -> dict[str, bytes]:
        """Return every file of the home by its path."""
        home = self.place.home
        return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}

    def status(self) -> dict[str, Any]:
        done = self.command("status", "--json", "--port", str(self.port))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _count(self) -> int:
        return self.rows("SELECT count(*) FROM events WHERE kind = 'trim'")[0][0]


class NewUser:
    """What each agent's user finds; a subclass has a fixture `journey`. The tests go on from each other, in order."""

    TITLE: str
    OURS: tuple[str, ...]
    """Files that `install` changes, in the home."""
    CALL: str
    """The tool that read a page."""

    def test_the_question_was_answered_by_search(self, journey: Arrival) -> None:
        assert [ended.returncode for ended in journey.ended] == [0, 0, 0], journey.said()
        assert NUMBER in journey.ended[1].stdout

    def test_status_shows_the_trim_and_why_says_what_left(self, journey: Arrival) -> None:
        [shown] = journey.status()["sessions"]
        assert shown["trims"] == journey.trims[0] >= 1
        assert shown["cache_hit_rate"] > 0.5
        said = journey.command("why", journey.session).stdout
        assert f"result of {self.CALL}" in said
        assert "looked up afterwards: 1 time" in said

    def test_doctor_finds_the_agent_in_order(self, journey: Arrival) -> None:
        said = journey.command("doctor", "--port", str(journey.port)).stdout
        assert f"{self.TITLE} has the search tools" in said
        assert "ok      search      the search server answers" in said

    def test_off_left_the_next_prompts_as_long_as_they_were(self, journey: Arrival) -> None:
        assert journey.trims[1] == journey.trims[0]
        assert journey.status()["switched_off"] is True
        assert journey.command("on").stdout == "on: all sessions\n"
        assert journey.status()["switched_off"] is False

    def test_handoff_introduces_the_session(self, journey: Arrival) -> None:
        said = journey.command("handoff", journey.session).stdout
        assert f"session, {journey.session}" in said
        assert story.BEGIN in said

    def test_uninstall_leaves_the_home_as_it_was(self, journey: Arrival) -> None:
        assert journey.command("uninstall").returncode == 0
        left = journey.files()
        ours = {name: left.get(name) for name in self.OURS if not self.is_written_by_the_agent(name)}
        assert ours == {name: journey.before.get(name) for name in ours}
        for name in self.OURS:
            assert wiring.HOOK_PROGRAM.encode() not in left.get(name, b"")
            assert wiring.MCP_PROGRAM.encode() not in left.get(name, b"")
        assert not (journey.place.state / "install").exists()

    @staticmethod
    def is_written_by_the_agent(name: str) -> bool:
        return False


class Hooked(NewUser):
    """Agents with hooks of ours, whose own history is read."""

    AGENT: str
    """What the hooks register a session as."""

    def test_the_hooks_registered_the_session(self, journey: Arrival) -> None:
        path = journey.place.state / "context" / "sessions" / f"{journey.session}.json"
        known = json.loads(path.read_text())
        assert (known["agent"], known["cwd"]) == (self.AGENT, str(journey.place.work))
        assert journey.status()["sessions"][0]["agent"] == self.AGENT

    def test_importing_its_history_adds_only_the_last_answers(self, journey: Arrival) -> None:
        stored = journey.rows("SELECT count(*) FROM messages")
        flags = journey.rows("SELECT seq, in_context FROM messages ORDER BY seq")
        done = journey.command("import")
        assert done.returncode == 0, done.stderr
        added = journey.rows("SELECT role, kind FROM messages ORDER BY seq")[stored[0][0] :]
        assert set(added) <= {("assistant", "text")}
        assert len(added) <= len(journey.ended)
        assert journey.rows("SELECT seq, in_context FROM messages ORDER BY seq")[: len(flags)] == flags

    async def test_an_import_alone_is_enough_for_the_search(self, journey: Arrival) -> None:
        """Without the proxy, and without a word about which session: the folder is enough."""
        other = journey.place.folder / "imported"
        done = journey.command("import", OPENMEM_STATE_DIR=str(other))
        assert done.returncode == 0, done.stderr
        assert "of 1 session into" in done.stdout
        environment = journey.environment(OPENMEM_STATE_DIR=str(other))
        server = StdioServerParameters(
            command=str(ROOT / "run.sh"), args=["mcp"], env=environment, cwd=str(journey.place.work)
        )
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            found = await call(session, "smart_compact_search", query=story.QUERY)
            for number in range(PLAN.first + PLAN.second):
                page = await call(session, "smart_compact_search", query=f"Page {number}, line 1")
                assert page["line_matches"] >= 1
        assert story.SECRET in str(found["results"])
        assert {each["session_id"] for each in found["results"]} == {journey.session}


class Watched(Claude):
    """It prints, besides its answers, what a hook says to the person."""

    def words(self, prompt: str, *, resume: str | None) -> tuple[str, ...]:
        words = super().words(prompt, resume=resume)
        return (*("stream-json" if word == "json" else word for word in words), "--verbose")


@pytest.mark.agent
@skipped("claude")
class TestClaudeCode(Hooked):
    TITLE, AGENT, CALL = "Claude Code", "claude-code", "Bash"
    OURS = (".claude.json", ".claude/settings.json")

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Arrival:
        folder = tmp_path_factory.mktemp("new-claude")
        arrived = Arrival(Watched(), folder, threshold=24_500, install=("--at-once",))
        arrived.run()
        return arrived

    @staticmethod
    def is_written_by_the_agent(name: str) -> bool:
        return name == ".claude.json"

    def test_the_prompt_after_the_trim_says_what_it_moved(self, journey: Arrival) -> None:
        said = [
            re.findall(r"openmem: \d+k tokens moved to search, \d+ messages kept", one.stdout) for one in journey.ended
        ]
        assert [len(set(each)) for each in said] == [0, 1, 0]

    def test_its_file_has_no_empty_place_of_ours(self, journey: Arrival) -> None:
        assert "mcpServers" not in json.loads((journey.place.home / ".claude.json").read_text())


class Agreed(Codex):
    """Its person agreed to our hooks under `/hooks`; for a run without a screen that is a word."""

    def words(self, prompt: str, *, resume: str | None) -> tuple[str, ...]:
        return (*super().words(prompt, resume=resume), "--dangerously-bypass-hook-trust")


@pytest.mark.agent
@skipped("codex")
class TestCodex(Hooked):
    TITLE, AGENT, CALL = "Codex", "codex", "exec"
    OURS = (".codex/config.toml", ".codex/hooks.json")

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Arrival:
        arrived = Arrival(Agreed(), tmp_path_factory.mktemp("new-codex"), threshold=26_500, install=())
        arrived.run()
        return arrived


@pytest.mark.agent
@skipped("opencode")
class TestOpenCode(NewUser):
    TITLE, CALL = "OpenCode", "bash"
    OURS = (".config/opencode/opencode.jsonc",)

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Arrival:
        driver = OpenCode("anthropic/claude-opus-5-5")
        arrived = Arrival(driver, tmp_path_factory.mktemp("new-opencode"), threshold=18_000, install=())
        arrived.run()
        return arrived

    def test_there_is_nothing_of_its_history_to_import(self, journey: Arrival) -> None:
        done = journey.command("import")
        assert done.returncode == 1
        assert done.stderr == "openmem-context: no transcripts of Claude Code or Codex were found here\n"
