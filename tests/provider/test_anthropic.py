"""The messages wire without HTTP."""

import pytest

from fixtures.provider.anthropic import Messages
from fixtures.provider.behaviour import Behaviour
from fixtures.provider.endpoint import Denial, Incoming
from fixtures.provider.scenario import Failure, Place, Step
from tests.provider.bodies import HEADERS, body, changed, user


def incoming(request, path="/v1/messages", headers=HEADERS):
    """Return a request on its way to the wire."""
    return Incoming(body=request, headers=headers, path=path, number=1, now=0.0)


@pytest.fixture
def wire():
    return Messages(Behaviour())


@pytest.mark.parametrize(
    ("path", "serves"),
    [("/v1/messages", True), ("/api/v1/messages/count_tokens", True), ("/v1/messages/x", False), ("/v1/models", False)],
)
def test_it_serves_two_paths_under_any_prefix(wire, path, serves):
    assert wire.serves(path) is serves


def test_a_broken_rule_is_a_denial_in_the_wires_form(wire):
    denial = wire.open(incoming(body()))
    assert isinstance(denial, Denial)
    assert (denial.status, denial.rule) == (400, "required")
    assert wire.error(denial, "req_1") == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "messages: at least one message is required"},
        "request_id": "req_1",
    }


def test_a_count_needs_no_answer(wire):
    opened = wire.open(incoming(changed(body(user("go")), max_tokens=None), "/v1/messages/count_tokens"))
    assert opened.counted["input_tokens"] > 300


@pytest.mark.parametrize(
    ("fields", "headers", "text"),
    [
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "integer"}}}}, {}, "0"),
        ({"max_tokens": 1}, {}, "#"),
        ({}, {"x-claude-code-request-class": "compaction"}, "SCENARIO:build@0"),
    ],
)
def test_requests_outside_the_script_are_known(wire, fields, headers, text):
    request = changed(body(user("SCENARIO:build")), **fields)
    opened = wire.open(incoming(request, headers={**HEADERS, **headers}))
    assert opened.place == Place("build", 0)
    assert text in opened.side.text


def test_an_answer_is_whole_and_in_events(wire):
    made = wire.open(incoming(body(user("go")))).answer(Step(text="done"), 0)
    assert made.content == made.whole["content"] == [{"type": "text", "text": "done"}]
    events = list(made.events())
    assert events[made.opening - 1].startswith(b"event: ping")
    assert made.broken(Failure(), 3).startswith(b'event: error\ndata: {"type":"error"')
