"""What a model's name says."""

import pytest

from fixtures.provider.openai import models

NAMES = {
    "gpt-6.2-sol": (True, True, True, 1_800.0, False, False),
    "openai/gpt-6.2-astra": (True, True, True, 1_800.0, False, False),
    "gpt-6.1-sol": (False, True, True, 1_800.0, False, False),
    "gpt-5.6": (False, True, True, 1_800.0, False, False),
    "gpt-5.5": (False, False, False, 300.0, False, False),
    "gpt-4o": (False, False, False, 300.0, False, False),
    "o3": (False, False, False, 300.0, False, False),
    "deepseek-v4-pro": (False, False, False, 300.0, True, False),
    "anthropic/claude-opus-5-5": (False, False, False, 300.0, True, True),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_how_a_model_is_served(name):
    found = models.traits(name)
    assert NAMES[name] == (
        found.binds_prefix,
        found.keeps_reasoning,
        found.reports_writes,
        found.cache_seconds,
        found.shows_reasoning,
        found.behind_gateway,
    )


def test_what_is_no_name_has_the_oldest_behaviour():
    assert models.traits(None) == models.traits("")
