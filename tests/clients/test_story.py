"""Hold the story to being the same for every client, long enough, and answerable."""

from pathlib import Path
from typing import Any

import pytest

from fixtures.clients import story
from fixtures.clients.__main__ import DRIVERS
from fixtures.clients.driver import Driver
from fixtures.clients.story import Story
from fixtures.provider.scenario import Asked, Step

TOOLS = [{"name": "Read"}]


def asked(name: str, index: int, *results: str, **body: Any) -> Asked:
    return Asked(
        {"tools": TOOLS, "messages": [{"role": "user", "content": text} for text in results], **body}, {}, name, index
    )


def play(driver: Driver, plan: Story, name: str) -> list[Step]:
    """Return the steps of one script up to the first without a call."""
    model = plan.scripts(driver, meanwhile=lambda *_: None)[name]
    assert callable(model)
    steps: list[Step] = []
    while not steps or steps[-1].tools:
        steps.append(model(asked(name, len(steps), story.SECRET)))
    return steps


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_every_page_is_read_once_and_the_run_is_long_enough(driver: Driver) -> None:
    plan = Story()
    steps = [step for name in ("begin", "reader", "end") for step in play(driver, plan, name)]
    said = str(steps)
    pages = plan.first + plan.second + plan.annex
    assert [said.count(f"cat {number}.txt") for number in range(pages)] == [1] * pages
    assert len(steps) >= 40


def test_the_answer_is_right_only_where_the_search_found_it() -> None:
    plan = Story()
    last = plan.second + 1
    model = plan.scripts(DRIVERS["claude"], meanwhile=lambda *_: None)["end"]
    assert callable(model)
    assert model(asked("end", last, "an answer with HL-7731")).text == "The number is HL-7731."
    assert model(asked("end", last, "an answer without it", "and a reminder")).text == "It was not found."


def test_a_title_moves_nothing() -> None:
    heard: list[tuple[str, int]] = []
    model = Story().scripts(DRIVERS["opencode"], meanwhile=lambda name, index: heard.append((name, index)))["begin"]
    assert callable(model)
    assert model(asked("begin", 0, tools=[])).tools == ()
    assert heard == []
    model(asked("begin", 3))
    assert heard == [("begin", 3)]


def test_the_secret_stands_on_one_page_that_leaves(tmp_path: Path) -> None:
    Story(first=3, second=1, annex=1, lines=4).write(tmp_path)
    pages = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(pages) == 5
    assert [name for name, text in pages.items() if story.SECRET in text] == [f"{story.SECRET_PAGE}.txt"]


def test_a_story_may_make_its_client_compact() -> None:
    steps = play(DRIVERS["codex"], Story(first=3, second=1, annex=0, compacts=1), "begin")
    assert [step.usage for step in steps] == [{}, {"input_tokens": story.FULL}, {}, {}]
