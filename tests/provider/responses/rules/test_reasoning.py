"""Each rule about reasoning refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.openai import rule as rules
from fixtures.provider.responses.rules import reasoning, table
from tests.provider.responses.bodies import (
    CASES,
    KEPT,
    SIGNED,
    START,
    WAITING,
    answered,
    assistant,
    body,
    call,
    changed,
    judged,
    output,
    thought,
    user,
    without,
)

RULES = [rule for rule in table.RULES if rule.check.__module__ == reasoning.__name__]


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


LONG = answered(START, thought(), assistant("look"), thought(), call(), call("call_2"))
"""A thought and a message, then a thought and two calls."""

FIRST, MESSAGE, SECOND, ONE, TWO = LONG["input"][1:6]
RESULTS = LONG["input"][6:]


def test_an_answer_with_several_thoughts_is_accepted_as_it_was_made():
    assert rules.refuse(table.RULES, judged(LONG)) is None


@pytest.mark.parametrize(
    "items",
    [
        [FIRST, SECOND, ONE, TWO, *RESULTS],
        [FIRST, ONE, TWO, *RESULTS],
        [FIRST, {**MESSAGE, "content": "another text"}],
        [SECOND, TWO, RESULTS[1]],
        [FIRST],
    ],
)
def test_reasoning_is_followed_by_the_item_it_was_made_with(items):
    refusal = reasoning.following(judged(body(user(), *items)))
    assert "was provided without its required following item." in refusal.message


@pytest.mark.parametrize("items", [[SECOND, ONE, RESULTS[0]], [FIRST, MESSAGE], [SECOND, ONE, TWO, *RESULTS]])
def test_a_whole_part_of_an_answer_may_stand_alone(items):
    assert rules.refuse(table.RULES, judged(body(user(), *items))) is None


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([MESSAGE], "message"),
        ([ONE, TWO, *RESULTS], "function_call"),
        ([FIRST, MESSAGE, TWO, RESULTS[1]], "function_call"),
    ],
)
def test_an_item_needs_the_reasoning_it_was_made_with(items, kind):
    refusal = reasoning.required(judged(body(user(), *items)))
    assert f"of type '{kind}' was provided without its required 'reasoning' item: 'rs_" in refusal.message


def test_without_ids_the_pair_is_known_by_its_content_only():
    bare = [without(item, "id") for item in (SECOND, ONE, TWO)]
    assert rules.refuse(table.RULES, judged(body(user(), *bare, *RESULTS))) is None
    assert reasoning.following(judged(body(user(), bare[0], user()))) is not None
    assert rules.refuse(table.RULES, judged(body(user(), *bare[1:], *RESULTS))) is None


def test_reasoning_in_a_stored_response_counts():
    request = body(output(WAITING), previous_response_id=KEPT)
    assert reasoning.required(judged(request)) is None


def test_a_gateway_knows_no_pairs():
    """Signed thinking may be taken out, and the call that came with it stays."""
    request = changed(SIGNED, input=[SIGNED["input"][0], *SIGNED["input"][2:]])
    assert rules.refuse(table.RULES, judged(request)) is None
