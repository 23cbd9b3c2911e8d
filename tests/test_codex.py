"""The real Codex, headless, through `./run.sh codex` on the strict fake provider."""

import json

import pytest
from process import call, reader

from fixtures.clients import findings, story
from fixtures.clients.codex import Codex, CodexWithLogin
from fixtures.clients.journey import Journey
from fixtures.clients.story import Story
from fixtures.provider.behaviour import Behaviour
from tests import cured
from tests.cured import Cured, Interrupted
from tests.whole import Whole, play

pytestmark = pytest.mark.agent


class TestCodex(Whole):
    """Over HTTP, after its WebSocket was refused; its one tool runs JavaScript."""

    THRESHOLD = 27_500

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Journey:
        return play(Codex(), tmp_path_factory.mktemp("codex"), title="Codex", threshold=cls.THRESHOLD)

    def test_it_goes_on_over_http_at_once_and_without_a_word(self, journey: Journey) -> None:
        """Once for each process, and once for the thread of the subagent."""
        asked = [one for one in journey.passed() if one.upgrade]
        assert [one.status for one in asked] == [426] * 3
        said = [json.loads(line) for line in journey.ended[-1].stdout.splitlines()]
        assert [event for event in said if "error" in (event["type"], event.get("item", {}).get("type"))] == []

    def test_no_tool_of_ours_is_in_its_requests_and_it_is_known_to_have_them(self, journey: Journey) -> None:
        """All it shows of an MCP server is the beginning of its instructions, in a developer message."""
        read = journey.read(journey.main[0])
        assert not any("smart_compact" in name for name in read.tools)
        assert read.offers_tools()

    def test_its_threads_are_lanes_of_one_session(self, journey: Journey) -> None:
        assert {journey.owner(one) for one in (*journey.main, *journey.subagent)} == {journey.session}
        assert journey.subagent[0].header("thread-id") != journey.main[0].header("thread-id")

    async def test_what_a_search_inside_a_script_answered_is_not_found_again(self, journey: Journey) -> None:
        async with reader(journey.place.state) as session:
            answer = await call(session, "smart_compact_search", query=story.QUERY, session_id=journey.session)
        assert answer["line_matches"] == 1
        assert journey.rows(f"SELECT count(*) FROM messages WHERE text LIKE '%{story.NUMBER}%'") >= [(2,)]


class TestCodexWithALogin:
    """Another host, compressed bodies, HTTP/2, and a compaction of its own in the middle of a turn."""

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Journey:
        return play(
            CodexWithLogin(),
            tmp_path_factory.mktemp("codex-login"),
            title="Codex with a login",
            threshold=2 * story.FULL,
            plan=Story(first=4, second=2, annex=0, compacts=2),
            kill=False,
        )

    def test_it_finishes_with_no_refusal(self, journey: Journey) -> None:
        assert [ended.returncode for ended in journey.ended] == [0, 0], journey.said()
        assert findings.refusals(journey) == []
        assert findings.resumed(journey)
        assert findings.missing(journey) == []
        assert "openmem-context:" not in journey.log()

    def test_its_bodies_are_compressed_and_its_streams_end_when_it_has_heard_enough(self, journey: Journey) -> None:
        """Over HTTP/2 it cancels a stream after the last event: usage is booked all the same."""
        assert findings.transport(journey) == "HTTP/2.0 zstd after a refused WebSocket"
        assert findings.streamed(journey)
        asked = [exchange for exchange in journey.provider.exchanges if exchange.wire is not None]
        counted = journey.rows("SELECT input_tokens + cache_read_tokens FROM events WHERE kind = 'usage' ORDER BY id")
        assert [tokens for (tokens,) in counted] == [findings.prompt(exchange)[0] for exchange in asked]

    def test_its_own_compaction_begins_another_window_and_takes_the_rows_before_it_out(self, journey: Journey) -> None:
        windows = [str(exchange.header("x-codex-window-id")).rpartition(":")[2] for exchange in journey.main]
        assert set(windows) == {"0", "1"}
        assert windows == sorted(windows)
        left = "SELECT DISTINCT in_context, trimmed_at_seq IS NULL FROM messages WHERE text LIKE '%Page 0, line 0:%'"
        assert journey.rows(left) == [(0, 1)]
        kept = journey.read(journey.main[-1]).items
        texts = {draft.text for item in kept if item.stored for draft in item.drafts}
        shown = {str(text) for (text,) in journey.rows("SELECT text FROM messages WHERE in_context")}
        assert shown == texts


class TestCodexRefused(Cured):
    """Its prompt outgrows the provider's window before it outgrows the threshold."""

    WINDOW = 24_000
    REFUSAL = "prompt_length"
    CURE = ("trim", "long")

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
        behaviour = Behaviour(context_tokens=cls.WINDOW)
        return cured.play(Codex(), tmp_path_factory.mktemp("codex-refused"), behaviour=behaviour)
