"""The real OpenCode, headless, through `./run.sh opencode` on the strict fake provider."""

import pytest

from fixtures.clients.journey import Journey
from fixtures.clients.opencode import OpenCode
from fixtures.clients.story import Story
from fixtures.provider.behaviour import Behaviour
from tests import cured
from tests.cured import Cured, Interrupted
from tests.whole import Whole, play

pytestmark = pytest.mark.agent


class TestOpenCode(Whole):
    """With Anthropic's models: a refused reasoning block would end its session."""

    THRESHOLD = 19_500

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Journey:
        driver = OpenCode("anthropic/claude-opus-5-5")
        folder = tmp_path_factory.mktemp("opencode")
        return play(driver, folder, title="OpenCode with Anthropic", threshold=cls.THRESHOLD)

    def test_a_title_is_no_part_of_the_session(self, journey: Journey) -> None:
        assert len(journey.side) == 1
        stored = str(journey.rows("SELECT text FROM messages"))
        assert "Generate a title" not in stored

    def test_a_subagent_is_a_session_of_its_own(self, journey: Journey) -> None:
        assert {journey.owner(one) for one in journey.subagent} & {journey.session} == set()
        assert {one.header("x-parent-session-id") for one in journey.subagent} == {journey.session}


class TestOpenCodeWithOpenAI(Whole):
    """Over the Responses API: items without an id, messages without a type, arguments written anew."""

    THRESHOLD = 14_500
    REQUESTS = 25

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Journey:
        return play(
            OpenCode("openai/gpt-6-sol"),
            tmp_path_factory.mktemp("opencode-openai"),
            title="OpenCode with OpenAI",
            threshold=cls.THRESHOLD,
            plan=Story(first=11, second=10, lines=20),
        )

    def test_its_items_have_no_ids_and_its_messages_no_types(self, journey: Journey) -> None:
        items = journey.main[-1].body["input"]
        assert not any("id" in item for item in items)
        assert {item["role"] for item in items if "type" not in item} == {"developer", "user", "assistant"}


class TestOpenCodeRefused(Cured):
    """Its prompt outgrows the provider's window. Reasoning of another prefix it asks the provider itself to drop."""

    WINDOW = 16_000
    REFUSAL = "prompt_length"
    CURE = ("trim", "long")

    @pytest.fixture(scope="class")
    @classmethod
    def journey(cls, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
        driver, behaviour = OpenCode("anthropic/claude-opus-5-5"), Behaviour(context_tokens=cls.WINDOW)
        return cured.play(driver, tmp_path_factory.mktemp("opencode-refused"), behaviour=behaviour)
