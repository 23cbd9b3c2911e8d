"""The table of refusals of the responses wire as a whole."""

import pytest

from fixtures.provider.openai import rule as rules
from fixtures.provider.responses.rules import table
from tests.provider.responses.bodies import CASES, judged


def test_every_rule_has_a_case_that_provokes_it():
    assert [rule.name for rule in table.RULES if rule.name not in CASES] == []
    assert len({rule.name for rule in table.RULES}) == len(table.RULES) == len(CASES)


@pytest.mark.parametrize("rule", table.RULES, ids=lambda rule: rule.name)
def test_every_rule_names_the_title_and_the_address_of_a_page(rule):
    title, _, address = rule.page.rpartition(", ")
    assert title
    assert address.startswith("https://")


@pytest.mark.parametrize("name", CASES)
def test_the_rule_that_speaks_first_is_the_one_that_was_broken(name):
    case = CASES[name]
    denial = rules.refuse(table.RULES, judged(case.broken, case.headers, context_tokens=case.context_tokens))
    assert denial is not None
    assert denial.rule == name
