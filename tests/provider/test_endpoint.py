"""What the server and a wire tell each other."""

import pytest

from fixtures.provider.endpoint import Denial, Incoming


def test_a_request_on_its_way_is_frozen():
    incoming = Incoming(body={}, headers={}, path="/v1/messages", number=1, now=0.0)
    with pytest.raises(AttributeError):
        incoming.number = 2


def test_a_denial_may_have_no_rule():
    denial = Denial(status=404, type="not_found_error", message="Not found")
    assert (denial.rule, denial.code, denial.param) == (None, None, None)
