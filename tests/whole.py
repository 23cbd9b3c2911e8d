"""Hold any client to the whole job: what is expected of each is expected of all. A test file names one and its run."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from fixtures.clients import findings, story
from fixtures.clients.driver import Driver
from fixtures.clients.journey import Journey
from fixtures.clients.story import Story
from fixtures.provider import canonical, wire
from fixtures.provider.exchange import Exchange

RESULTS = "OPENMEM_TEST_RESULTS"
"""Names a folder where each run leaves its findings; `make compatibility` makes a table of them."""

Play = Callable[[], Journey]


def play(
    driver: Driver, folder: Path, *, title: str, threshold: int, plan: Story | None = None, kill: bool = True
) -> Journey:
    """Run a client from npm through its launcher, its proxy killed in the middle, and keep what was found."""
    variable = f"OPENMEM_TEST_{driver.name.upper()}"
    program = os.environ.get(variable, "")
    assert program, f"{variable} names the client; ./run.sh test installs it"
    settings = {"CONTEXT_TRIM_TOKENS": str(threshold)}
    journey = Journey(driver, Path(program), folder, plan=plan or Story(), settings=settings, kill=kill)
    journey.run()
    if RESULTS in os.environ:
        found = findings.find(journey, title)
        name = title.lower().replace(" ", "-")
        Path(os.environ[RESULTS], f"{name}.json").write_bytes(findings.encoded(found))
    return journey


class Whole:
    """The tests; a subclass has a fixture `journey`."""

    THRESHOLD: int
    """`CONTEXT_TRIM_TOKENS` of the run: some 7,000 above the client's first prompt."""

    REQUESTS = 40
    """The run has no fewer."""

    def test_it_finishes_although_its_proxy_was_killed(self, journey: Journey) -> None:
        assert [ended.returncode for ended in journey.ended] == [0, 0], journey.said()
        assert journey.killed
        assert f"The number is {story.NUMBER}." in journey.ended[-1].stdout

    def test_no_request_was_refused_and_none_failed_open(self, journey: Journey) -> None:
        assert [(one.rule, one.error) for one in journey.provider.refusals] == []
        assert findings.refusals(journey) == []
        assert journey.rows("SELECT location, error FROM events WHERE kind IN ('fail_open', 'heal')") == []
        assert "openmem-context:" not in journey.log()

    def test_every_call_was_sent_with_its_result(self, journey: Journey) -> None:
        assert findings.broken([*journey.main, *journey.subagent]) == []

    def test_a_long_session_was_trimmed_again_and_again_and_stayed_under_the_threshold(self, journey: Journey) -> None:
        asked = [one for one in journey.provider.exchanges if one.wire is not None]
        assert len(asked) >= self.REQUESTS
        assert len(findings.trims(journey)) >= 2
        assert journey.rows("SELECT count(*) FROM events WHERE kind = 'trim'") == [(len(findings.trims(journey)),)]
        largest = max(findings.prompt(exchange)[0] for exchange in journey.main)
        assert largest <= self.THRESHOLD * 1.02

    def test_between_trims_the_prompt_only_grew_and_was_read_from_the_cache(self, journey: Journey) -> None:
        cuts = {0, *findings.trims(journey)}
        for index, exchange in enumerate(journey.main):
            if index not in cuts:
                before, now = (shown(one) for one in journey.main[index - 1 : index + 1])
                assert now[: len(before)] == before, f"request {exchange.number} does not extend the one before"
        assert findings.cache_share(journey) >= 0.95

    def test_no_reasoning_was_lost_but_by_a_trim(self, journey: Journey) -> None:
        """A provider refuses, or leaves out, reasoning whose prefix changed."""
        cuts = {0, *findings.trims(journey)}
        for index, exchange in enumerate(journey.main):
            before = set(journey.main[index - 1].dropped) if index else set()
            assert index in cuts or set(exchange.dropped) <= before, f"request {exchange.number} lost reasoning"
            assert exchange.wire != "messages" or not exchange.transformations

    def test_its_session_file_holds_every_message_of_the_last_request_and_each_page(self, journey: Journey) -> None:
        assert findings.missing(journey) == []

    def test_its_own_mcp_client_was_answered_from_a_row_that_had_left(self, journey: Journey) -> None:
        assert findings.searched(journey)
        assert journey.rows(
            f"SELECT count(*) > 0 FROM messages WHERE text LIKE '%{story.SECRET}%' AND NOT in_context"
        ) == [(1,)]

    def test_every_answer_streamed_through(self, journey: Journey) -> None:
        assert findings.streamed(journey)

    def test_a_subagent_had_its_own_thread(self, journey: Journey) -> None:
        assert findings.delegated(journey)
        assert len(journey.subagent) == journey.plan.annex + 1

    def test_the_session_was_resumed(self, journey: Journey) -> None:
        assert findings.resumed(journey)


def shown(exchange: Exchange) -> list[str]:
    """Return what a model was shown, piece by piece, in the equality under which a cached prefix is one."""
    if exchange.wire == "messages":
        body = exchange.body
        head = [canonical.without_markers(wire.system(body)), canonical.offered(body)]
        parts = [*head, *(canonical.message(message, thinking=True) for message in body["messages"])]
    else:
        parts = [exchange.body.get("instructions"), exchange.body.get("tools"), *findings.items(exchange)]
    return [json.dumps(part, sort_keys=True) for part in parts]
