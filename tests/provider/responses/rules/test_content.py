"""Each rule about content refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.openai import rule as rules
from fixtures.provider.responses.rules import content, table
from tests.provider.responses.bodies import CASES, START, body, changed, judged, user

RULES = [rule for rule in table.RULES if rule.check.__module__ == content.__name__]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_request_that_breaks_it_is_refused_with_the_providers_message(rule):
    case = CASES[rule.name]
    refusal = rule.check(judged(case.broken, case.headers, context_tokens=case.context_tokens))
    assert refusal is not None
    assert case.message in refusal.message
    assert refusal.param == case.param


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_its_legal_neighbour_passes_every_rule(rule):
    case = CASES[rule.name]
    assert rules.refuse(table.RULES, judged(case.legal, context_tokens=case.context_tokens)) is None


@pytest.mark.parametrize("fields", [{"input": 3}, {"input": {"role": "user"}}, {"instructions": ["be brief"]}])
def test_fields_have_their_types(fields):
    assert content.types(judged(changed(START, **fields))).code == "invalid_type"


def test_a_message_says_something_if_only_nothing():
    assert content.part_types(judged(body({"role": "user"}))).param == "input[0].content"
    assert content.part_types(judged(body(user("")))) is None


def test_items_of_unknown_types_are_let_through():
    """A type that is new to this provider is not new to the real one."""
    later = {"type": "something_new", "id": "sn_1", "data": [1]}
    assert rules.refuse(table.RULES, judged(body(user(), later, user("more")))) is None
