"""What a rule sees."""

import pytest

from fixtures.provider.rules import table
from tests.provider.bodies import CASES, body, judged, user


def test_a_request_is_frozen():
    with pytest.raises(AttributeError):
        judged(body(user("go"))).counting = True


def test_counting_tokens_needs_no_limit_for_the_answer():
    request = body(user("go"))
    del request["max_tokens"]
    assert table.refuse(judged(request, counting=True)) is None


def test_an_older_model_continues_a_final_assistant_message():
    assert table.refuse(judged(CASES["prefill"].broken, allow_prefill=True)) is None
