"""Each rule about pairing refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.chat.rules import pairing, table
from fixtures.provider.openai import rule as rules
from tests.provider.chat.bodies import CASES, FUNCTION, LEGACY, PAIR, assistant, body, call, judged, tool, user

RULES = [rule for rule in table.RULES if rule.check.__module__ == pairing.__name__]


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


def test_an_id_may_be_used_again_by_a_later_message():
    again = body(*PAIR, assistant(None, call()), tool())
    assert rules.refuse(table.RULES, judged(again)) is None


def test_two_calls_of_one_message_have_two_ids():
    twice = body(user("go"), assistant(None, call(), call()), tool())
    assert pairing.tool_twice(judged(twice)).param == "messages.[1].tool_calls"


def test_a_function_message_needs_a_call_before_it():
    assert pairing.function_unexpected(judged(body(FUNCTION, user("go")))) is not None


def test_a_call_at_the_end_waits_for_its_result():
    assert pairing.call_unanswered(judged(body(user("go"), assistant(None, call())))) is not None
    assert pairing.function_unanswered(judged(body(user("go"), LEGACY))) is not None
