"""The forms of a response."""

import pytest

from fixtures.provider.responses import compose, stream
from fixtures.provider.scenario import Call, Failure, Step
from tests.provider.responses.bodies import START, changed

STEPS = {
    "everything": Step(
        thinking="a thought " * 10,
        text="Reading. " * 20,
        tools=(Call("Read", {"path": "é" * 90}), Call("exec", custom="plain " * 30, namespace="notes")),
    ),
    "a shell": Step(tools=(Call("shell", {"commands": ["ls"]}),)),
    "a limit": Step(text="words " * 30, stop="length"),
}
USAGE = {"input_tokens": 40, "output_tokens": 9, "total_tokens": 49}
REQUEST = changed(START, tools=[{"type": "shell"}], reasoning={"summary": "auto"}, store=None)


def response(name, **more):
    """Return a finished response."""
    seed = "0123456789abcdef01234567"
    answer = compose.compose(REQUEST, REQUEST["input"], STEPS[name], index=0, seed=seed)
    given = {"answer": answer, "body": REQUEST, "id": "resp_1", "created": 7, "usage": USAGE, "transformations": None}
    return stream.Response(**given | more)


def rebuilt(events):
    """Put the items together from the events, as a client does that trusts only deltas."""
    items = {}
    for event in events:
        kind, index = event["type"], event.get("output_index")
        match kind.removeprefix("response."):
            case "output_item.added":
                items[index] = dict(event["item"])
            case "reasoning_summary_part.added":
                items[index]["summary"] = [*items[index]["summary"], dict(event["part"])]
            case "reasoning_summary_text.delta":
                items[index]["summary"][event["summary_index"]]["text"] += event["delta"]
            case "content_part.added":
                items[index]["content"] = [*items[index]["content"], dict(event["part"])]
            case "output_text.delta":
                items[index]["content"][event["content_index"]]["text"] += event["delta"]
            case "function_call_arguments.delta":
                items[index]["arguments"] += event["delta"]
            case "custom_tool_call_input.delta":
                items[index]["input"] += event["delta"]
            case "output_item.done":
                for field in ("status", "action"):
                    if field in event["item"]:
                        items[index][field] = event["item"][field]
                assert items[index] == event["item"]
    return list(items.values())


@pytest.mark.parametrize("name", STEPS)
def test_events_carry_the_items(name):
    finished = response(name)
    events = list(stream.events(finished))
    assert rebuilt(events) == finished.answer.items
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["response"] == stream.whole(finished)


def test_what_a_response_says_at_its_start_and_at_its_end():
    events = list(stream.events(response("everything")))
    start, end = events[0]["response"], events[-1]["response"]
    assert (start["status"], start["output"], start["usage"]) == ("in_progress", [], None)
    assert (events[-1]["type"], end["status"], end["usage"]) == ("response.completed", "completed", USAGE)
    assert (end["store"], end["created_at"], end["object"]) == (True, 7, "response")
    assert "input_transformations" not in end


def test_an_incomplete_response_names_its_reason():
    last = list(stream.events(response("a limit")))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit_exceeded"), (500, "server_error")])
def test_a_failed_response_has_an_error_and_no_usage(status, code):
    event = stream.failed(response("a shell"), Failure(status=status, message="Too busy"), 4)
    assert (event["type"], event["sequence_number"]) == ("response.failed", 4)
    assert event["response"]["error"] == {"code": code, "message": "Too busy"}
    assert (event["response"]["status"], event["response"]["usage"]) == ("failed", None)


def test_transformations_are_in_every_object_of_a_model_that_has_them():
    entry = {"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "prefix_mismatch"}
    events = list(stream.events(response("a shell", transformations=[entry])))
    assert events[0]["response"]["input_transformations"] == [entry]
    assert events[-1]["response"]["input_transformations"] == [entry]


def test_a_request_that_stores_nothing_is_told_so():
    assert stream.whole(response("a shell", body=START))["store"] is False


def test_an_event_has_its_type_as_name_and_one_line_of_json():
    assert stream.encode({"type": "response.x", "a": "é"}) == (
        'event: response.x\ndata: {"type":"response.x","a":"é"}\n\n'.encode()
    )
