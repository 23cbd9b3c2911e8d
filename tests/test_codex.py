"""The real Codex, headless, through `./run.sh codex` on the strict fake provider."""

import json

import pytest
from process import call, reader

from fixtures.clients import story
from fixtures.clients.codex import Codex
from fixtures.clients.journey import Journey
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
