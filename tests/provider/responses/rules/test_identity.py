"""Each rule about identity refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.openai import rule as rules
from fixtures.provider.responses import wire
from fixtures.provider.responses.rules import identity, table
from tests.provider.responses.bodies import (
    CALL,
    CASES,
    CLAUDE,
    COMPACTED,
    REASONING,
    RESULT,
    START,
    body,
    call,
    changed,
    judged,
    made,
    output,
    thought,
    user,
    without,
)

RULES = [rule for rule in table.RULES if rule.check.__module__ == identity.__name__]


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


def test_an_unknown_response_has_its_own_code():
    refusal = identity.previous_response(judged(CASES["previous_response"].broken))
    assert refusal.code == "previous_response_not_found"


def test_a_request_that_stores_is_not_told_to_store():
    request = changed(CASES["stored_item"].broken, store=None)
    assert identity.stored_item(judged(request)).message == "Item with id 'rs_unknown' not found."


def test_reasoning_without_its_content_must_have_been_stored():
    stored = body(user(), without(REASONING, "encrypted_content"), CALL, RESULT)
    assert rules.refuse(table.RULES, judged(stored)) is None
    other = made(body(user("other")), thought(), call())
    missing = body(user("other"), without(other[0], "encrypted_content"), other[1], output())
    assert identity.stored_item(judged(missing)) is not None


def test_encrypted_content_belongs_to_its_item():
    other = made(body(user("other")), thought(), call())[0]
    swapped = body(user(), {**REASONING, "encrypted_content": other["encrypted_content"]}, CALL, RESULT)
    refusal = identity.encrypted_content(judged(swapped))
    assert refusal.message == (
        f"The encrypted content for item {REASONING['id']} could not be verified. Reason: Encrypted content item_id "
        "did not match the target item id."
    )
    assert refusal.code == "invalid_encrypted_content"


def test_content_without_an_id_is_named_by_its_ends():
    broken = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAnothing=="}
    message = identity.encrypted_content(judged(body(user(), broken, call(), output()))).message
    assert message.startswith("The encrypted content gAAA...ng== could not be verified.")


@pytest.mark.parametrize("item", [{**COMPACTED, "encrypted_content": "gAAAA"}, {**COMPACTED, "id": "cmp_other"}])
def test_a_compaction_stays_as_it_was(item):
    assert identity.encrypted_content(judged(body(item, user()))) is not None


@pytest.mark.parametrize("kind", wire.CALLS)
def test_the_id_of_a_call_of_any_type_belongs_to_its_content(kind):
    [own] = made(START, call(kind=kind))
    assert own["id"].startswith(f"{wire.CALLS[kind].prefix}_")
    assert identity.item_id(judged(body(user(), own, output(kind=kind)))) is None
    other = {**own, wire.CALLS[kind].field: "changed"}
    assert identity.item_id(judged(body(user(), other, output(kind=kind)))) is not None


def test_a_gateway_checks_no_ids():
    foreign = body(user(), {**call(), "id": "toolu_1"}, output(), model=CLAUDE)
    assert rules.refuse(table.RULES, judged(foreign)) is None
