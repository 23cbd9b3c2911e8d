"""Types of fields, on every wire: nothing a client sends makes the provider stumble."""

import msgspec
import pytest

from fixtures.provider import shape
from fixtures.provider.anthropic import Messages
from fixtures.provider.behaviour import Behaviour
from fixtures.provider.chat.endpoint import Chat
from fixtures.provider.endpoint import Denial, Incoming
from fixtures.provider.exchange import TYPES
from fixtures.provider.responses.endpoint import Responses
from fixtures.provider.scenario import Call, Step
from tests.provider import bodies as messages
from tests.provider.chat import bodies as chat
from tests.provider.mutations import mutated
from tests.provider.responses import bodies as responses

WIRES = {"messages": (Messages, messages), "chat": (Chat, chat), "responses": (Responses, responses)}
STEP = Step(thinking="a", text="b", tools=(Call("Read"),))
SEEDS = 8
"""Mutations of each request of the tables of cases."""


def opened(name, body):
    """Return what a wire says to a body."""
    endpoint, table = WIRES[name]
    incoming = Incoming(body=body, headers=table.HEADERS, path=f"/v1/{name}", number=1, now=0.0)
    return endpoint(Behaviour()).open(incoming)


@pytest.mark.parametrize("name", WIRES)
def test_every_legal_request_has_its_types(name):
    for case in WIRES[name][1].CASES.values():
        for body in (case.broken, case.legal):
            said = opened(name, body)
            assert not isinstance(said, Denial) or said.rule != TYPES, body


@pytest.mark.parametrize("name", WIRES)
def test_a_request_of_any_shape_is_answered_or_refused(name):
    refused = 0
    for case in WIRES[name][1].CASES.values():
        for body in (case.broken, case.legal):
            for seed in range(SEEDS):
                said = opened(name, mutated(body, seed))
                if isinstance(said, Denial):
                    refused += said.rule == TYPES
                elif said.counted is None:
                    assert all(said.answer(said.side or STEP, 0).events())
    assert refused > SEEDS


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("messages", {"messages": [{"role": []}]}, "messages.0.role: Input should be a valid str | null, not array"),
        (
            "chat",
            {"messages": [{"role": 1}]},
            "Invalid type for 'messages[0].role': expected str | null, but got int instead.",
        ),
        ("responses", {"tools": {}}, "Invalid type for 'tools': expected array | null, but got object instead."),
    ],
)
def test_the_field_is_named_in_the_wires_words(name, body, message):
    said = opened(name, body)
    assert (said.rule, said.status, said.message) == (TYPES, 400, message)


def test_a_lone_surrogate_is_a_text():
    assert shape.wrong({"model": "\ud800", "messages": [{"content": "a\udc97b"}]}, shape.Messages) is None
    assert shape.wrong({"model": "\ud800", "messages": 1}, shape.Messages).path == "messages"


class _Small(msgspec.Struct):
    kind: str


def test_a_problem_of_another_kind_is_told_as_it_is():
    assert shape.wrong({}, _Small).wanted.startswith("Object missing required field")
