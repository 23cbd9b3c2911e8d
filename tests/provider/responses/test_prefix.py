"""The prefix of reasoning: what changes it, and what then is dropped."""

import copy

import pytest

from fixtures.provider.responses import compose, prefix, wire
from tests.provider.responses.bodies import (
    COMPACTED,
    OLDER,
    READ,
    answered,
    assistant,
    body,
    call,
    changed,
    grown,
    thought,
    user,
)

START = body({"role": "developer", "content": "be brief"}, user(), instructions="now", reasoning={"effort": "low"})
THREE = answered(
    grown(answered(grown(answered(START, thought(), call()), user("more")), thought(), assistant()), user("and?")),
    thought(),
    call("call_3"),
)
"""Three answers that thought."""

IDS = [item["id"] for item in THREE["input"] if wire.kind(item) == "reasoning"]


def edited(change, request=THREE):
    """Return the request with its items changed in place."""
    other = copy.deepcopy(request)
    change(other["input"])
    return other


def dropped(request):
    """Return the ids the check drops."""
    return list(prefix.check(request, wire.items(request["input"])).ids)


def _remove(at):
    return lambda items: items.pop(at)


def _put(at, field, value):
    return lambda items: items[at].__setitem__(field, value)


KEPT = {
    "nothing changed": THREE,
    "an item was appended": grown(THREE, user("last")),
    "a text became a part": edited(_put(1, "content", [{"type": "input_text", "text": "go"}])),
    "an id was left out": edited(lambda items: items[3].pop("id")),
    "a status came": edited(_put(3, "status", "completed")),
    "instructions changed": changed(THREE, instructions="later"),
    "effort changed": changed(THREE, reasoning={"effort": "high"}),
    "a tool that is loaded later was added": changed(THREE, tools=[READ, {**READ, "name": "b", "defer_loading": True}]),
    "the oldest thought was left out": edited(_remove(2)),
}

CHANGED = {
    "the developer message": (edited(_put(0, "content", "be briefer")), IDS),
    "the first result": (edited(_put(4, "output", "d…e")), IDS[1:]),
    "arguments rewritten": (edited(_put(3, "arguments", '{ "path":"a.txt" }')), IDS[1:]),
    "a message in the middle": (edited(_remove(7)), IDS[2:]),
    "a tool": (changed(THREE, tools=[READ, {**READ, "name": "Write"}]), IDS),
    "the schema of the answer": (changed(THREE, text={"format": {"type": "json_object"}}), IDS),
}


@pytest.mark.parametrize("name", KEPT)
def test_reasoning_is_kept_when(name):
    assert dropped(KEPT[name]) == []


@pytest.mark.parametrize("name", CHANGED)
def test_reasoning_after_a_change_is_dropped(name):
    request, gone = CHANGED[name]
    assert dropped(request) == gone


def test_the_order_of_tools_is_part_of_the_prefix():
    two = body(user(), tools=[READ, {**READ, "name": "Write"}])
    made = answered(two, thought(), call())
    assert dropped(made) == []
    assert len(dropped(changed(made, tools=two["tools"][::-1]))) == 1


def test_what_is_dropped_is_reported_with_its_reason():
    verdict = prefix.check(CHANGED["a tool"][0], CHANGED["a tool"][0]["input"])
    assert verdict.transformations[0] == {
        "type": "reasoning",
        "id": IDS[0],
        "action": "removed",
        "reason": "prefix_mismatch",
    }
    assert len(verdict.dropped) == len(verdict.ids) == 3


def test_an_older_model_drops_nothing():
    request = changed(CHANGED["the developer message"][0], model=OLDER)
    assert dropped(request) == []


def test_thinking_after_an_edit_is_kept_while_the_edit_is_repeated():
    request = answered(grown(CHANGED["the first result"][0], user("go on")), thought(), call("call_4"))
    assert dropped(request) == IDS[1:]
    assert len(dropped(edited(_put(4, "output", "done"), request))) == 1


def test_a_compaction_keeps_what_was_thought_before_it():
    """The provider made it, so the changed prefix is its own doing."""
    kept = changed(THREE, input=[COMPACTED, *THREE["input"][5:]])
    assert dropped(kept) == []
    after = answered(grown(kept, user("go on")), thought(), call("call_4"))
    assert dropped(after) == []
    assert len(dropped(edited(_put(1, "content", "changed"), after))) == 1


def test_a_chain_has_a_digest_before_each_item_and_one_at_the_end():
    items = THREE["input"]
    found = prefix.chain(THREE, items)
    assert len(found) == len(items) + 1
    assert found[2] == found[3], "reasoning is no part of its prefix"
    assert prefix.chain(THREE, [*items, {"type": "compaction_trigger"}])[-1] == found[-1]


def test_an_answer_with_two_thoughts_is_bound_step_by_step():
    request = answered(START, thought(), assistant("look"), thought(), call())
    assert dropped(request) == []
    second = request["input"][4]["id"]
    assert dropped(edited(_put(3, "content", "looked"), request)) == [second]


def test_ids_of_compactions_are_compared():
    [other] = compose.compact("all that was", seed="1" * 24).items
    assert prefix.plain(COMPACTED) != prefix.plain(other)
