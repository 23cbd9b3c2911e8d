"""Each rule about pairing refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.openai import rule as rules
from fixtures.provider.responses import wire
from fixtures.provider.responses.rules import pairing, table
from tests.provider.responses.bodies import CASES, KEPT, WAITING, body, call, judged, output, user

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


@pytest.mark.parametrize("kind", wire.CALLS)
def test_calls_of_every_type_are_answered_by_their_own_output(kind):
    whole = body(user(), call(kind=kind), output(kind=kind))
    assert rules.refuse(table.RULES, judged(whole)) is None
    alone = pairing.call_unanswered(judged(body(user(), call(kind=kind))))
    assert alone.message == f"No tool output found for {wire.CALLS[kind].noun} call_1."
    orphan = pairing.output_unexpected(judged(body(user(), output(kind=kind))))
    assert orphan.message == f"No tool call found for {wire.CALLS[kind].noun} output with call_id call_1."


def test_an_output_of_another_type_answers_nothing():
    crossed = body(user(), call(), output(kind="custom_tool_call"))
    assert pairing.output_unexpected(judged(crossed)) is not None
    assert pairing.call_unanswered(judged(crossed)) is not None


def test_an_output_comes_after_its_call():
    assert pairing.output_unexpected(judged(body(user(), output(), call()))) is not None


def test_a_stored_call_is_answered_in_the_next_request():
    request = body(output(WAITING), previous_response_id=KEPT)
    assert pairing.output_unexpected(judged(request)) is None
    assert pairing.call_unanswered(judged(body(user("more"), previous_response_id=KEPT))) is not None
