"""The form of an answer."""

import json

import pytest

from fixtures.provider import binding, stream
from fixtures.provider.scenario import Call, Step
from tests.provider.bodies import CHECKED, OLDER, body, changed, user

STEP = Step(thinking="a thought " * 10, text="Reading the file. " * 5, tools=(Call("Read", {"path": "é.txt"}),))
USAGE = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0}


def composed(request, step=STEP, **extra):
    """Return the answer to a request."""
    return stream.compose(request, step, index=2, message_id="msg_1", seed="0" * 24, usage=USAGE, extra=extra)


def rebuilt(events):
    """Put a message together from its events, as a client does."""
    message = next(event["message"] for event in events if event["type"] == "message_start")
    content, inputs = [], {}
    for event in events:
        match event["type"]:
            case "content_block_start":
                content.append(dict(event["content_block"]))
            case "content_block_delta":
                block, delta = content[event["index"]], event["delta"]
                if delta["type"] == "input_json_delta":
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                else:
                    field = delta["type"].removesuffix("_delta")
                    block[field] += delta[field]
            case "message_delta":
                message = {**message, **event["delta"]}
    for index, text in inputs.items():
        content[index]["input"] = json.loads(text)
    return {**message, "content": content}


@pytest.mark.parametrize("model", [CHECKED, OLDER])
def test_events_carry_the_message(model):
    request = body(user("go"), model=model, thinking={"type": "adaptive", "display": "summarized"})
    answer = composed(request)
    built = rebuilt(list(stream.events(answer)))
    assert built["content"] == answer.message["content"]
    assert [block["type"] for block in built["content"]] == ["thinking", "text", "tool_use"]
    assert built["stop_reason"] == "tool_use"


def test_usage_is_whole_at_the_start_and_cumulated_at_the_end():
    answer = composed(body(user("go")))
    events = list(stream.events(answer))
    assert events[0]["message"]["usage"] == {**answer.message["usage"], "output_tokens": 1}
    assert events[-2]["usage"] == {**USAGE, "output_tokens": answer.output_tokens}
    assert answer.output_tokens > 20


def test_thinking_is_omitted_by_default_where_it_is_preserved():
    omitted = composed(body(user("go"), thinking={"type": "adaptive"})).message["content"][0]
    assert omitted["thinking"] == ""
    made = binding.read(omitted)
    assert made is not None
    assert made.tokens > 10


@pytest.mark.parametrize(
    ("model", "thinking", "thinks"),
    [
        (CHECKED, None, True),
        (CHECKED, {"type": "disabled"}, False),
        (OLDER, None, False),
        (OLDER, {"type": "enabled", "budget_tokens": 1024}, True),
    ],
)
def test_when_the_model_thinks(model, thinking, thinks):
    request = changed(body(user("go")), model=model, thinking=thinking)
    kinds = [block["type"] for block in composed(request).message["content"]]
    assert ("thinking" in kinds) is thinks


def test_redacted_thinking_has_data_only():
    block = composed(body(user("go")), Step(thinking="hidden", redacted=True)).message["content"][0]
    assert set(block) == {"type", "data"}
    assert binding.read(block) is not None


def test_what_was_made_is_valid_when_it_is_sent_back():
    request = body(user("go"))
    answer = composed(request)
    back = body(user("go"), {"role": "assistant", "content": answer.message["content"]}, user("more"))
    assert binding.check(back, {}, account="new") == binding.Verdict()


def test_a_script_may_replace_counts():
    message = composed(body(user("go")), Step(text="x", usage={"input_tokens": 990_000})).message
    assert message["usage"]["input_tokens"] == 990_000


def test_an_event_is_one_line_of_json_in_utf_8():
    assert stream.encode({"type": "ping", "x": "é"}) == 'event: ping\ndata: {"type":"ping","x":"é"}\n\n'.encode()


def test_an_answer_may_run_into_its_limit():
    message = composed(body(user("go")), Step(text="x", stop="length")).message
    assert message["stop_reason"] == "max_tokens"


def test_a_call_of_a_custom_tool_in_a_namespace_is_a_plain_call_here():
    step = Step(tools=(Call("search", custom="plain text", namespace="notes"),))
    call = composed(body(user("go")), step).message["content"][-1]
    assert (call["name"], call["input"]) == ("notes__search", {"input": "plain text"})
