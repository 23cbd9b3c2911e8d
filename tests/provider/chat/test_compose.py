"""The answer of the chat wire."""

import pytest

from fixtures.provider import tokens
from fixtures.provider.chat import compose
from fixtures.provider.scenario import Call, Step
from tests.provider.chat.bodies import MODEL, body, changed, user

GO = body(user("go"))
STEP = Step(thinking="a thought", text="Reading.", tools=(Call("Read", {"path": "é.txt"}), Call("Note", custom="x")))


def composed(step=STEP, **fields):
    """Return the answer to a request with some fields changed."""
    return compose.compose(changed(GO, **fields), step, index=2, seed="0" * 24)


def test_a_step_becomes_a_message():
    answer = composed()
    assert answer.finish == "tool_calls"
    assert answer.message == {
        "role": "assistant",
        "content": "Reading.",
        "refusal": None,
        "tool_calls": [
            {
                "id": "call_s0002x0000000000000",
                "type": "function",
                "function": {"name": "Read", "arguments": '{"path":"é.txt"}'},
            },
            {"id": "call_s0002x1000000000000", "type": "custom", "custom": {"name": "Note", "input": "x"}},
        ],
    }


def test_calls_alone_leave_the_content_null():
    assert composed(Step(tools=(Call("Read"),))).message["content"] is None


@pytest.mark.parametrize(("model", "shown"), [(MODEL, None), ("deepseek-v4-pro", "a thought")])
def test_reasoning_is_shown_by_back_ends_that_are_not_openai(model, shown):
    assert composed(model=model).message.get("reasoning_content") == shown


@pytest.mark.parametrize(
    ("step", "finish"), [(Step(text="x"), "stop"), (Step(text="x", stop="length"), "length"), (STEP, "tool_calls")]
)
def test_an_answer_says_why_it_ends(step, finish):
    assert composed(step).finish == finish


def test_functions_are_called_in_the_form_before_tool_calls():
    legacy = {"tools": None, "functions": [{"name": "Read"}]}
    answer = composed(Step(tools=(Call("Read", {"a": 1}, namespace="files"),)), **legacy)
    assert answer.finish == "function_call"
    assert answer.message["function_call"] == {"name": "files__Read", "arguments": '{"a":1}'}
    with pytest.raises(ValueError, match="one call"):
        composed(STEP, **legacy)


def test_an_answer_weighs_what_it_says_and_what_it_thought():
    weight = compose.weigh(STEP, composed())
    assert weight.reasoning == tokens.text("a thought") == 2
    assert weight.output > 2 + tokens.text("Reading.") + 2 * tokens.BLOCK_FRAME
    legacy = {"tools": None, "functions": [{"name": "Read"}]}
    step = Step(tools=(Call("Read"),))
    assert compose.weigh(step, composed(step, **legacy)).output == compose.weigh(step, composed(step)).output


SIGNED = {"type": "thinking", "thinking": "a thought", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "sig"}


def test_a_gateway_carries_signed_thinking_in_a_field_of_its_own():
    content = [SIGNED, HIDDEN, {"type": "text", "text": "look"}]
    content.append({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}})
    answer = compose.from_anthropic({"content": content, "stop_reason": "tool_use"})
    assert answer.finish == "tool_calls"
    assert answer.message == {
        "role": "assistant",
        "content": "look",
        "reasoning_content": "a thought",
        "thinking_blocks": [SIGNED, HIDDEN],
        "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "Read", "arguments": '{"a":1}'}}],
    }


@pytest.mark.parametrize(("reason", "finish"), [("end_turn", "stop"), ("max_tokens", "length")])
def test_a_gateway_translates_the_reason(reason, finish):
    answer = compose.from_anthropic({"content": [{"type": "text", "text": "x"}], "stop_reason": reason})
    assert (answer.finish, "thinking_blocks" in answer.message) == (finish, False)
