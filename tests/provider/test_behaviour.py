"""What differs between accounts and models."""

from fixtures.provider.behaviour import Behaviour


def test_the_defaults_are_a_new_account_that_answers_at_once():
    assert Behaviour() == Behaviour(account="new", allow_prefill=False, context_tokens=1_000_000, pace=0.0)
