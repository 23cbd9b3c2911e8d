"""Hold the table to what its pages say of the models that agents use, and the bill to plain arithmetic."""

import datetime

import pytest
from openmem_addon.commands import pricing
from openmem_addon.commands.pricing import Counts, Price


@pytest.mark.parametrize(
    ("model", "glob"),
    {
        "claude-opus-5-5": "claude-opus-5-5*",
        "claude-opus-5-5-20260901": "claude-opus-5-5*",
        "claude-opus-5": "claude-opus-5*",
        "anthropic/claude-haiku-4-5": "claude-haiku-4-5*",
        "gpt-5.5": "gpt-5.5*",
    }.items(),
)
def test_the_longest_name_that_matches_holds(model: str, glob: str) -> None:
    assert pricing.price(model) == pricing.PRICES[glob]


@pytest.mark.parametrize("model", [None, "", "local-model", "claude"])
def test_a_model_that_is_not_in_the_table_has_no_price_and_the_usual_window(model: str | None) -> None:
    assert pricing.price(model) is None
    assert pricing.window(model) == pricing.USUAL_WINDOW


def test_each_kind_of_token_has_its_price() -> None:
    known = Price(1, 0.1, 1.25, 5, 200_000)
    million = 1_000_000
    assert pricing.cost(known, Counts(million, 2 * million, 4 * million, million)) == pytest.approx(1 + 0.2 + 5 + 5)


def test_a_long_prompt_costs_its_factor_as_a_whole() -> None:
    known = Price(1, 0.1, 1.25, 5, 200_000, long_from=1000, long_factor=5)
    assert pricing.cost(known, Counts(900, 100, 0, 0)) == pytest.approx(910e-6)
    assert pricing.cost(known, Counts(901, 100, 0, 0)) == pytest.approx(911e-6 * 5)


def test_the_table_is_dated_and_whole() -> None:
    assert datetime.date.fromisoformat(pricing.AS_OF) <= datetime.date(2027, 12, 31)
    for known in pricing.PRICES.values():
        assert 0 < known.read < known.input <= known.write < known.output
        assert known.window >= 128_000
