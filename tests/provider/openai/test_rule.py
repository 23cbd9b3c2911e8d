"""Rules and errors of the OpenAI wires."""

import msgspec
import pytest

from fixtures.provider.openai import rule
from fixtures.provider.openai.rule import Refusal, Rule

RULES = (
    Rule("first", "A page, https://example.com", lambda request: Refusal("no", "a", "b") if request == 1 else None),
    Rule("second", "A page, https://example.com", lambda request: Refusal("never"), status=401, type="other"),
)


def test_the_first_rule_that_speaks_decides():
    denial = rule.refuse(RULES, 1)
    assert denial is not None
    assert (denial.rule, denial.status, denial.type) == ("first", 400, "invalid_request_error")
    assert rule.error(denial) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "a", "code": "b"}
    }
    assert rule.refuse(RULES, 2).status == 401
    assert rule.refuse(RULES[:1], 2) is None


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, True),
        ({"authorization": "Basic x"}, True),
        ({"authorization": "Bearer x"}, False),
        ({"api-key": "x"}, False),
    ],
)
def test_a_key_is_needed(headers, refused):
    assert (rule.authentication(headers) is not None) is refused


def test_a_closed_set_is_listed():
    assert rule.unsupported("a", "x", "b", "c", "d").message == (
        "Invalid value: 'x'. Supported values are: 'b', 'c', and 'd'."
    )
    assert rule.unsupported("a", "x", "b", "c").message == "Invalid value: 'x'. Supported values are: 'b' and 'c'."
    assert rule.unsupported("a", "x", "b").message == "Invalid value: 'x'. Supported values are: 'b'."


def test_a_missing_field_and_an_empty_list_name_their_place():
    assert rule.missing("model") == Refusal(
        "Missing required parameter: 'model'.", "model", "missing_required_parameter"
    )
    assert rule.empty_array("messages").code == "empty_array"


def test_a_path_that_is_not_served_is_named():
    denial = rule.unknown_url("GET", "/v1/responses/x")
    assert (denial.status, denial.message) == (404, "Invalid URL (GET /v1/responses/x)")


class _Small(msgspec.Struct):
    kind: str


def test_a_field_of_another_type_is_an_error_of_its_own():
    denial = rule.wrong_type({"kind": 1}, _Small)
    assert denial is not None
    assert (denial.code, denial.param) == ("invalid_type", "kind")
    assert rule.wrong_type({"kind": "a"}, _Small) is None
