"""Hold any client to noticing nothing of a refusal that the proxy cures. A test file names one and what it meets."""

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

from openmem_addon.commands import probe

from fixtures.clients import story
from fixtures.clients.driver import Driver
from fixtures.clients.journey import Journey
from fixtures.clients.story import Story
from fixtures.provider.behaviour import Behaviour
from fixtures.provider.server import Provider, serve

PAGES = 8
WIDE = 1_000_000
"""A threshold that no run reaches."""

REFUSED = re.compile(
    r"please retry|overloaded|invalid_request|service unavailable|bad request"
    r"|(?:error|http|status)\W{1,3}(?:400|503)\b",
    re.IGNORECASE,
)
"""How clients show a refusal. The bare numbers are no sign: times, ids and counts of tokens hold them too."""


class Interrupted(Journey):
    """One prompt, in the middle of which the proxy is killed and forgets what it showed the model."""

    def __init__(self, driver: Driver, program: Path, folder: Path, *, behaviour: Behaviour, forgets: bool) -> None:
        settings: Mapping[str, str] = {"CONTEXT_TRIM_TOKENS": str(WIDE)}
        plan = Story(first=PAGES, second=0, annex=0)
        super().__init__(driver, program, folder, plan=plan, settings=settings, kill=forgets)
        self.provider = Provider(plan.scripts(driver, meanwhile=self._meanwhile), behaviour=behaviour)

    def run(self) -> None:
        self.place.make()
        self.plan.write(self.place.work)
        self.driver.settle(self.place)
        with serve(self.provider) as running:
            self._prompt(story.BEGIN, running.port, resume=None)

    def _meanwhile(self, script: str, index: int) -> None:
        if not self._kill or self.killed or index < PAGES // 2:
            return
        alive = probe.health("127.0.0.1", self.port)
        assert alive is not None
        self.killed.append(alive.pid)
        os.kill(alive.pid, signal.SIGKILL)
        for state in (self.place.state / "context" / "sessions").glob("*.trim.json"):
            state.unlink()


def play(driver: Driver, folder: Path, *, behaviour: Behaviour | None = None, forgets: bool = False) -> Interrupted:
    """Run a client from npm through its launcher to a refusal and to the end."""
    variable = f"OPENMEM_TEST_{driver.name.upper()}"
    program = os.environ.get(variable, "")
    assert program, f"{variable} names the client; ./run.sh test installs it"
    journey = Interrupted(driver, Path(program), folder, behaviour=behaviour or Behaviour(), forgets=forgets)
    journey.run()
    return journey


class Cured:
    """The tests; a subclass has a fixture `journey`."""

    REFUSAL: str
    """Rule of the provider that refuses."""
    CURE: tuple[str, str]
    """Remedy and kind of the refusal, as the event says."""

    def test_it_finishes_and_shows_nothing_of_it(self, journey: Interrupted) -> None:
        (ended,) = journey.ended
        assert ended.returncode == 0, journey.said()
        shown = f"{ended.stdout}{ended.stderr}"
        assert "That was part one." in shown
        assert not REFUSED.search(shown), REFUSED.findall(shown)

    def test_the_provider_refused_and_the_proxy_cured(self, journey: Interrupted) -> None:
        refused = [one.rule for one in journey.provider.refusals]
        assert set(refused) == {self.REFUSAL}
        assert journey.rows("SELECT location, error FROM events WHERE kind = 'heal'") == [self.CURE] * len(refused)
        assert journey.log().count("healed a refusal") == len(refused)

    def test_the_client_asked_again_by_itself_and_its_answer_streamed(self, journey: Interrupted) -> None:
        """Each request that was answered was one of the client's; of those killed with the proxy none passed."""
        answered = [one for one in journey.provider.exchanges if one.wire is not None and one.status == 200]
        passed = [one for one in journey.passed() if one.status == 200 and "event-stream" in one.type]
        assert len(passed) == len(answered) - len(journey.killed)
        assert all(one.streams for one in passed)

    def test_no_message_was_lost(self, journey: Interrupted) -> None:
        stored = json.dumps(journey.rows("SELECT text FROM messages"))
        for number in range(PAGES):
            assert f"Page {number}, line 0:" in stored
