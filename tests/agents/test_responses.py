"""What an agent on the responses wire reads from a stream, and how it answers calls of each type."""

import json

import httpx
import pytest

from fixtures.agent import RefusedError
from fixtures.agents.responses import ResponsesAgent, assembled
from fixtures.provider.responses import wire
from fixtures.provider.scenario import Call, Step
from fixtures.provider.server import Provider, serve
from tests.agents.sessions import run

BUILT_IN = [kind.tool for kind in wire.CALLS.values() if kind.tool]


def event(kind, **more):
    """Return a line of a stream."""
    return f"data: {json.dumps({'type': kind, **more})}"


def test_items_come_from_their_last_events():
    lines = [
        "event: response.output_item.added",
        event("response.output_item.added", item={"type": "message", "content": []}),
        event("response.output_item.done", item={"type": "message", "content": [{"text": "a"}]}),
        event("response.completed", response={"id": "resp_1"}),
    ]
    assert assembled(iter(lines)) == ("resp_1", [{"type": "message", "content": [{"text": "a"}]}])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (event("response.failed", response={"error": {"message": "busy"}}), "busy"),
        (event("error", message="busy"), "busy"),
        (event("response.created"), "ended before"),
    ],
)
def test_an_error_and_a_cut_stream_are_refusals(line, message):
    with pytest.raises(RefusedError, match=message):
        assembled(iter([line]))


@pytest.mark.parametrize("tool", BUILT_IN)
def test_calls_of_built_in_tools_are_answered_in_their_own_type(tool):
    provider = Provider({"use": (Step(thinking="so", tools=(Call(tool, {"a": 1}),)), Step(text="Done."))})
    with serve(provider) as running, httpx.Client(trust_env=False) as client:
        url = f"{running.url}/v1/responses"
        agent = ResponsesAgent(client, run, session="s-1", url=url, tools=({"type": tool},))
        assert agent.ask("SCENARIO:use") == "Done."
    assert [seen.rule for seen in provider.exchanges] == [None, None]
    call, output = agent.history[3:5]
    assert wire.OUTPUTS[output["type"]] == call["type"]
    assert wire.CALLS[call["type"]].tool == tool


def test_a_request_names_its_session():
    agent = ResponsesAgent(None, None, session="s-1")
    assert (agent.body()["prompt_cache_key"], agent.body()["store"]) == ("s-1", False)
    assert agent._identity()["session-id"] == "s-1"
