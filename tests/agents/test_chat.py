"""What an agent on the chat wire reads from a stream."""

import json

import pytest

from fixtures.agent import RefusedError
from fixtures.agents.chat import ChatAgent, assembled
from fixtures.provider.chat import stream
from fixtures.provider.chat.compose import Answer

MESSAGE = {
    "role": "assistant",
    "content": "Reading. " * 20,
    "reasoning_content": "a thought " * 20,
    "thinking_blocks": [
        {"type": "thinking", "thinking": "a thought " * 20, "signature": "sig"},
        {"type": "redacted_thinking", "data": "sig"},
        {"type": "thinking", "thinking": "", "signature": "gis"},
    ],
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": '{"cmd":"' + "é" * 90 + '"}'}},
        {"id": "call_2", "type": "custom", "custom": {"name": "exec", "input": "plain " * 30}},
    ],
}


def lines(message):
    """Return the lines of a streamed completion."""
    completion = stream.Completion(answer=Answer(message, "stop"), id="c", created=0, model="m", usage={})
    return iter(b"".join(stream.events(completion, include_usage=True)).decode().split("\n"))


def test_a_message_is_put_together_as_it_was_made():
    assert assembled(lines(MESSAGE)) == MESSAGE


def test_a_message_of_calls_alone_has_null_content():
    alone = {"role": "assistant", "content": None, "tool_calls": MESSAGE["tool_calls"]}
    assert assembled(lines(alone)) == alone


def test_an_error_and_a_cut_stream_are_refusals():
    with pytest.raises(RefusedError, match="busy"):
        assembled(iter(['data: {"error": {"message": "busy"}}']))
    with pytest.raises(RefusedError, match="ended before"):
        assembled(line for line in lines(MESSAGE) if "[DONE]" not in line)


def test_a_request_names_its_session_and_asks_for_usage_unless_told_not_to():
    agent = ChatAgent(None, None, session="s-1")
    assert agent.body()["stream_options"] == {"include_usage": True}
    assert agent._identity()["x-session-id"] == "s-1"
    assert "stream_options" not in ChatAgent(None, None, session="s-1", include_usage=False).body()
    assert json.dumps(agent.body())
