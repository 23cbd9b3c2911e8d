"""Types of the fields of a chat request."""

import pytest

from fixtures.provider import shape
from fixtures.provider.chat.shape import Chat
from tests.provider.chat.bodies import CASES, assistant, body, call, user


@pytest.mark.parametrize("name", CASES)
def test_legal_requests_have_their_types(name):
    assert shape.wrong(CASES[name].legal, Chat) is None


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (body(user(1)), "messages[0].content"),
        (body(user("go"), assistant(None, {**call(), "id": 1})), "messages[1].tool_calls[0].id"),
        (body(user("go"), tools={}), "tools"),
        (body(user("go"), stream="yes"), "stream"),
    ],
)
def test_a_field_of_another_type_is_named(request_, path):
    assert shape.wrong(request_, Chat).path == path
