"""Hold the shared values: which tool is our search, and what makes two items the same one."""

import pytest
from openmem_addon.core import anthropic
from openmem_addon.core.model import is_search_tool, mark

from tests.conversations import MARK, assistant, body, encode, result, text, thinking, use, user


@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("smart_compact_search", True),
        ("mcp__openmem__smart_compact_search", True),
        ("openmem_smart_compact_search", True),
        ("mcp__openmem__smart_compact_get", False),
        ("mcp__smart_compact_search__other", False),
        ("", False),
    ],
)
def test_our_search_is_known_by_the_end_of_its_name(name: str, search: bool) -> None:
    assert is_search_tool(name) == search


def _mark(message: dict) -> str:
    return mark(anthropic.parse(encode(body(user("go"), assistant(use("toolu_1")), message))).items[2])


def test_an_item_is_the_same_without_its_reasoning_and_its_markers() -> None:
    with_reasoning = assistant(thinking("hm"), text("yes", cache_control=MARK))
    assert _mark(with_reasoning) == _mark({"role": "assistant", "content": "yes"})


def test_a_result_is_the_same_one_when_its_client_clears_it() -> None:
    assert _mark(user(result("toolu_1", "x"))) == _mark(user(result("toolu_1", "cleared")))
    assert _mark(user(result("toolu_1", "x"), "and this")) != _mark(user(result("toolu_1", "x"), "and that"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("go"), user("go on")),
        (user("go"), assistant("go")),
        (user("go", "on"), user("goon")),
        (user(result("toolu_1", "x")), user("x")),
        (user(result("toolu_1", "x")), user(result("toolu_2", "x"))),
    ],
)
def test_items_that_say_another_thing_are_others(one: dict, other: dict) -> None:
    assert _mark(one) != _mark(other)
