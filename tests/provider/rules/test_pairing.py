"""Each rule about pairing refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.rules import pairing, table
from tests.provider.bodies import CASES, judged

RULES = [rule for rule in table.RULES if rule.check.__module__ == pairing.__name__]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_request_that_breaks_it_is_refused_with_the_providers_message(rule):
    case = CASES[rule.name]
    message = rule.check(judged(case.broken, case.headers, context_tokens=case.context_tokens))
    assert message is not None
    assert case.message in message


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_its_legal_neighbour_passes_every_rule(rule):
    case = CASES[rule.name]
    assert table.refuse(judged(case.legal, case.legal_headers, context_tokens=case.context_tokens)) is None
