"""Asking again with the neutral request."""

import json

import pytest
from mitmproxy.test import tflow, tutils

from fixtures.provider import stream
from fixtures.provider.scenario import Call, Step
from fixtures.provider.server import Provider, serve
from fixtures.recording import replay
from fixtures.recording.neutral import Neutral
from tests.provider.bodies import HEADERS, body, changed, result, user

SCRIPTS = {"look": (Step(thinking="a thought", tools=(Call("Read", {"path": "a"}),)), Step(text="Done."))}
FIRST = body(user("You look. SCENARIO:look"), stream=True)


def real(request, content, number):
    """Return a flow as a client and a provider would have made it, with ids of their own."""
    message = {
        "id": f"msg_real{number}",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    events = b"".join(stream.encode(event) for event in stream.events(stream.Answer(message, 1)))
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    sent = tutils.treq(
        method=b"POST",
        path=b"/v1/messages?beta=true",
        headers=[*headers, (b"Accept-Encoding", b"gzip"), (b"Content-Length", b"1")],
        content=json.dumps(request).encode(),
    )
    answer = tutils.tresp(headers=((b"request-id", f"req_real{number}".encode()),), content=events)
    return tflow.tflow(req=sent, resp=answer)


THOUGHT = {"type": "thinking", "thinking": "", "signature": "real-signature"}
CALL = {"type": "tool_use", "id": "toolu_01s0000x0real", "name": "Read", "input": {"path": "a"}}


def test_a_conversation_of_neutral_requests_is_accepted_and_its_ids_fit():
    neutral = Neutral({}, [])
    second = changed(
        FIRST,
        messages=[
            *FIRST["messages"],
            {"role": "assistant", "content": [THOUGHT, CALL]},
            user(result(CALL["id"])),
        ],
        diagnostics={"previous_message_id": "msg_real1"},
    )
    with serve(Provider(SCRIPTS)) as running:
        one = replay.ask(real(FIRST, [THOUGHT, CALL], 1), neutral, running)
        two = replay.ask(real(second, [{"type": "text", "text": "Done."}], 2), neutral, running)
    assert running.provider.refusals == []
    assert (one.status, two.status, two.streamed) == (200, 200, True)
    history = json.dumps(two.body["messages"])
    assert "real" not in history
    assert two.body["messages"][1]["content"][1]["id"].encode() in one.answer
    assert two.body["diagnostics"]["previous_message_id"].encode() in one.answer
    assert b"Done." in two.answer


def test_headers_that_follow_from_the_connection_are_left_out():
    with serve(Provider(SCRIPTS)) as running:
        one = replay.ask(real(FIRST, [THOUGHT, CALL], 1), Neutral({}, []), running)
    assert "Content-Length" not in dict(one.headers)
    assert dict(one.headers)["Accept-Encoding"] == "gzip"
    assert dict(one.answer_headers)["date"] == replay.DATE


def test_another_answer_than_the_real_one_is_an_error():
    with serve(Provider(SCRIPTS)) as running, pytest.raises(RuntimeError, match="other blocks"):
        replay.ask(real(FIRST, [THOUGHT], 1), Neutral({}, []), running)


def test_a_refused_neutral_request_is_an_error():
    refused = changed(FIRST, messages=[user("")])
    with serve(Provider(SCRIPTS)) as running, pytest.raises(RuntimeError, match="not answered like"):
        replay.ask(real(refused, [], 1), Neutral({}, []), running)
