"""Each rule about content refuses what breaks it and lets its neighbour through."""

import pytest

from fixtures.provider.chat.rules import content, table
from fixtures.provider.openai import rule as rules
from tests.provider.chat.bodies import CASES, assistant, body, judged, user

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


BROKEN_CALLS = [
    {"id": "call_1", "type": "shell", "shell": {}},
    {"id": "call_1", "type": "function", "function": {"name": "Read"}},
    {"id": "call_1", "type": "custom", "custom": {"name": "Note", "arguments": "{}"}},
    {"type": "function", "function": {"name": "Read", "arguments": "{}"}},
]


@pytest.mark.parametrize("broken", BROKEN_CALLS)
def test_a_call_has_its_types_fields(broken):
    assert content.call_form(judged(body(user("go"), assistant(None, broken)))) is not None


@pytest.mark.parametrize("role", ["user", "system", "developer", "tool"])
def test_only_an_assistant_with_calls_may_say_nothing(role):
    assert content.null_content(judged(body({"role": role, "content": None}))) is not None
    assert content.null_content(judged(body({"role": role}))) is not None


def test_messages_are_a_list():
    assert content.no_messages(judged(body(messages="hello"))).param == "messages"


def test_reasoning_sent_back_is_ignored():
    """Whatever a back end once called its reasoning: unknown fields of a message break no rule."""
    more = {"reasoning_content": "a thought", "reasoning_details": [{"x": 1}], "reasoning": "b"}
    request = body(user("go"), assistant("yes", **more), user("more"))
    assert rules.refuse(table.RULES, judged(request)) is None
    assert judged(request).prompt_tokens == judged(body(user("go"), assistant("yes"), user("more"))).prompt_tokens
