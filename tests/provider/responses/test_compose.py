"""The answer of the responses wire."""

import json

import pytest

from fixtures.provider import tokens
from fixtures.provider.responses import compose, sealed, wire
from fixtures.provider.scenario import Call, Step
from tests.provider.responses.bodies import START, body, call, changed, made, thought, user

STEP = Step(
    thinking="a thought",
    text="Reading.",
    tools=(Call("Read", {"path": "é.txt"}), Call("exec", custom="plain", namespace="notes")),
)
SEED = "0123456789abcdef01234567"


def composed(step=STEP, **fields):
    """Return the answer to a request with some fields changed."""
    request = changed(START, **fields)
    return compose.compose(request, wire.items(request["input"]), step, index=2, seed=SEED)


def test_a_step_becomes_items():
    answer = composed()
    reasoning, message, read, custom = answer.items
    assert (reasoning["type"], reasoning["summary"]) == ("reasoning", [])
    assert message["content"] == [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Reading."}]
    assert {key: read[key] for key in ("type", "status", "name", "arguments", "call_id")} == {
        "type": "function_call",
        "status": "completed",
        "name": "Read",
        "arguments": '{"path":"é.txt"}',
        "call_id": "call_s0002x00123456789ab",
    }
    assert {key: custom[key] for key in ("type", "name", "namespace", "input")} == {
        "type": "custom_tool_call",
        "name": "exec",
        "namespace": "notes",
        "input": "plain",
    }
    assert [item["id"][:4] for item in answer.items] == ["rs_0", "msg_", "fc_0", "ctc_"]
    assert answer.status == "completed"


def test_items_are_issued_with_the_thought_they_came_after():
    items = composed().items
    assert [sealed.issued(item).after for item in items] == [None, 0, 0, 0]
    record = sealed.unseal(items[0]["encrypted_content"])
    assert (record.id, record.tokens) == (items[0]["id"], tokens.text("a thought"))
    assert record.following == sealed.content(items[1])
    assert [sealed.issued(item).after for item in composed(Step(text="x")).items] == [None]


def test_several_thoughts_in_one_answer_name_what_follows_each():
    items = made(START, thought(), thought(), call())
    first, second = (sealed.unseal(item["encrypted_content"]) for item in items[:2])
    assert first.following == sealed.content(items[1])
    assert second.following == sealed.content(items[2])
    assert sealed.issued(items[2]).after == 1


@pytest.mark.parametrize(
    ("reasoning", "summary"),
    [
        ({"summary": "auto"}, [{"type": "summary_text", "text": "a thought"}]),
        ({"effort": "high"}, []),
        (None, []),
    ],
)
def test_a_summary_is_shown_where_it_is_asked_for(reasoning, summary):
    assert composed(reasoning=reasoning).items[0]["summary"] == summary


def test_without_effort_there_is_no_reasoning():
    answer = composed(reasoning={"effort": "none"})
    assert [item["type"] for item in answer.items] == ["message", "function_call", "custom_tool_call"]
    assert answer.reasoning == 0


@pytest.mark.parametrize(
    ("tool", "kind"),
    [(kind.tool, name) for name, kind in wire.CALLS.items() if kind.tool],
)
def test_a_built_in_tool_that_is_offered_is_called_in_its_own_type(tool, kind):
    given = {"commands": ["ls"]}
    step = Step(tools=(Call(tool, given),))
    [item] = composed(step, tools=[{"type": tool}]).items
    assert (item["type"], item[wire.CALLS[kind].field]) == (kind, given)
    added = body({"type": "additional_tools", "role": "developer", "tools": [{"type": tool}]}, user())
    [item] = compose.compose(added, added["input"], step, index=0, seed=SEED).items
    assert item["type"] == kind
    [item] = composed(step).items
    assert (item["type"], json.loads(item["arguments"])) == ("function_call", given)


def test_an_answer_may_run_into_its_limit():
    answer = composed(Step(text="x", stop="length"))
    assert (answer.status, answer.items[-1]["status"]) == ("incomplete", "incomplete")
    assert composed(Step(thinking="only this", stop="length")).status == "incomplete"


def test_an_answer_weighs_what_it_says_and_what_it_thought():
    answer = composed()
    assert answer.reasoning == 2
    assert answer.output > 2 + tokens.text("Reading.") + 2 * tokens.BLOCK_FRAME


def test_a_compaction_is_one_item_that_holds_its_summary():
    answer = compose.compact("all that was", seed=SEED)
    [item] = answer.items
    assert set(item) == {"id", "type", "encrypted_content"}
    assert sealed.unseal(item["encrypted_content"]) == sealed.Compacted(item["id"], "all that was")


BLOCK = {"type": "thinking", "thinking": "a thought", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "sig"}


def test_a_gateway_packs_signed_thinking_into_reasoning():
    content = [BLOCK, HIDDEN, {"type": "text", "text": "look"}]
    content.append({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}})
    message = {"content": content, "stop_reason": "tool_use", "usage": {"output_tokens": 9}}
    answer = compose.from_anthropic(message, seed=SEED)
    reasoning, said, called = answer.items
    assert json.loads(reasoning["encrypted_content"]) == [BLOCK, HIDDEN]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "a thought"}]
    assert wire.text(said) == "look"
    assert (called["call_id"], called["arguments"]) == ("toolu_1", '{"a":1}')
    assert (answer.status, answer.output) == ("completed", 9)
    assert len({item["id"] for item in answer.items}) == 3
