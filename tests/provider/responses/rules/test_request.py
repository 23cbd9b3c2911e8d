"""What a rule of the responses wire sees."""

import pytest

from tests.provider.responses.bodies import CLAUDE, KEPT, WAITING, body, judged, output, user


def test_a_request_is_frozen():
    with pytest.raises(AttributeError):
        judged(body(user())).prompt_tokens = 1


def test_paths_count_the_items_of_the_request_alone():
    request = judged(body(output(WAITING), user("more"), previous_response_id=KEPT))
    assert [place for place, _ in request.sent()] == ["input[0]", "input[1]"]
    assert len(request.history) == 5


def test_only_an_anthropic_model_is_behind_a_gateway():
    assert judged(body(user())).upstream is None
    assert judged(body(user(), model=CLAUDE)).upstream is not None
