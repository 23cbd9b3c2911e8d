"""Hold what is measured of a run to small runs whose measures are plain."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fixtures.clients import findings
from fixtures.clients.journey import Journey, Passed
from fixtures.provider.exchange import Exchange
from fixtures.provider.wire import Json


def exchange(messages: int, usage: Json) -> Exchange:
    body = {"messages": [{"role": "user", "content": f"{number}"} for number in range(messages)]}
    return Exchange(
        number=messages,
        method="POST",
        path="/v1/messages",
        wire="messages",
        headers=(),
        body=body,
        status=200,
        usage=usage,
    )


def usage(read: int, written: int) -> Json:
    return {"input_tokens": 0, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}


def run(*main: Exchange, passed: tuple[Passed, ...] = ()) -> Journey:
    provider = SimpleNamespace(refusals=[])
    return cast(Journey, SimpleNamespace(main=list(main), passed=lambda: list(passed), provider=provider))


def passing(**more: Any) -> Passed:
    given = {"path": "/v1/responses", "http": "HTTP/1.1", "encoding": "", "upgrade": "", "agent": "a/1"}
    return Passed(**{**given, "status": 200, "type": "text/event-stream", "streams": True, **more})


def test_a_request_that_is_shorter_than_the_one_before_made_a_cut() -> None:
    journey = run(*(exchange(length, usage(0, 0)) for length in (1, 3, 5, 3, 5, 7, 2)))
    assert findings.trims(journey) == [3, 6]


def test_the_first_request_of_an_epoch_writes_the_cache_and_is_left_out() -> None:
    lengths = [(1, usage(0, 100)), (3, usage(90, 10)), (2, usage(0, 80)), (4, usage(70, 30))]
    assert findings.cache_share(run(*(exchange(length, counts) for length, counts in lengths))) == 160 / 200


def test_a_call_without_its_result_is_broken_and_so_is_the_reverse() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]}
    whole, half, other = (exchange(1, {}) for _ in range(3))
    for one, messages in ((whole, [call, answer]), (half, [call]), (other, [answer])):
        one.body["messages"] = messages
    assert findings.broken([whole]) == []
    assert findings.broken([half]) == findings.broken([other]) == [(1, "toolu_1")]


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        ([passing()], "HTTP/1.1"),
        ([passing(upgrade="websocket", status=426), passing()], "HTTP/1.1 after a refused WebSocket"),
        ([passing(http="HTTP/2.0", encoding="zstd")], "HTTP/2.0 zstd"),
        ([passing(path="/v1/models", http="HTTP/3"), passing()], "HTTP/1.1"),
    ],
)
def test_the_transport_is_that_of_the_answers(passed: list[Passed], said: str) -> None:
    assert findings.transport(run(passed=tuple(passed))) == said


def test_an_answer_that_was_held_back_did_not_stream() -> None:
    assert findings.streamed(run(passed=(passing(),)))
    assert not findings.streamed(run(passed=(passing(), passing(streams=False))))
    assert not findings.streamed(run(passed=(passing(type="application/json"),)))
    assert not findings.streamed(run())


def test_a_refused_websocket_is_no_refusal_and_a_refused_request_is() -> None:
    assert findings.refusals(run(passed=(passing(upgrade="websocket", status=426), passing()))) == []
    assert findings.refusals(run(passed=(passing(status=400),))) == [("/v1/responses", 400)]
