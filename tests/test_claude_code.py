"""The real Claude Code, headless, through `./run.sh claude` on the strict fake provider."""

import pytest

from fixtures.clients.claude import Claude
from fixtures.clients.journey import Journey
from tests import cured
from tests.cured import Cured, Interrupted
from tests.whole import Whole, play

pytestmark = pytest.mark.agent


class TestClaudeCode(Whole):
    """Its subagents share its session id, its requests carry a text about themselves."""

    THRESHOLD = 24_500

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Journey:
        return play(Claude(), tmp_path_factory.mktemp("claude"), title="Claude Code", threshold=cls.THRESHOLD)

    def test_its_threads_are_lanes_of_one_session(self, journey: Journey) -> None:
        assert {journey.owner(one) for one in (*journey.main, *journey.subagent)} == {journey.session}
        assert all(one.header("x-claude-code-agent-id") for one in journey.subagent)

    def test_the_text_about_a_request_leaves_as_it_came_and_first(self, journey: Journey) -> None:
        """We neither recompute nor remove it."""
        for exchange in journey.main:
            first = exchange.body["system"][0]
            assert first["text"].startswith("x-anthropic-billing-header:")
            assert "cache_control" not in first


class TestClaudeCodeRefused(Cured):
    """Its reasoning was given under an instruction that a proxy without its state does not send any more."""

    REFUSAL = "thinking_binding"
    CURE = ("valve", "binding")

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
        return cured.play(Claude(), tmp_path_factory.mktemp("claude-refused"), forgets=True)
