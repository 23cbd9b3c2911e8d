"""What a rule of the chat wire sees."""

import pytest

from tests.provider.chat.bodies import CLAUDE, body, judged, user


def test_a_request_is_frozen():
    with pytest.raises(AttributeError):
        judged(body(user("go"))).prompt_tokens = 1


def test_only_an_anthropic_model_is_behind_a_gateway():
    assert judged(body(user("go"))).upstream is None
    assert judged(body(user("go"), model=CLAUDE)).upstream is not None
