"""Types of the fields of a Responses request."""

import pytest

from fixtures.provider import shape
from fixtures.provider.responses.shape import Responses
from tests.provider.responses.bodies import CASES, body, call, user


@pytest.mark.parametrize("name", CASES)
def test_legal_requests_have_their_types(name):
    assert shape.wrong(CASES[name].legal, Responses) is None


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (body(user(1)), "input[0].content"),
        (body(user(), {**call(), "call_id": 1}), "input[1].call_id"),
        (body(user(), instructions=["x"]), "instructions"),
        (body(user(), store="no"), "store"),
    ],
)
def test_a_field_of_another_type_is_named(request_, path):
    assert shape.wrong(request_, Responses).path == path
