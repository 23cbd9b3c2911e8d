"""Hold the figure to what it says: never the provider's own caching, and every rewrite of the cache counted in full."""

import pytest
from openmem_addon.commands import pricing
from openmem_addon.commands.pricing import Counts
from openmem_addon.commands.savings import Call, Savings, Trim, saved

MODEL = "claude-opus-5-5"
PRICE = pricing.PRICES["claude-opus-5-5*"]


def call(
    read: int, written: int, *, trimmed: int = 1, input: int = 0, model: str | None = MODEL, thread: str = "t"
) -> Call:
    return Call(model, thread, trimmed, Counts(input, read, written, 100), cached=True)


def dollars(read: int = 0, written: int = 0, input: int = 0) -> float:
    return (read * PRICE.read + written * PRICE.write + input * PRICE.input) / 1e6


def test_without_a_trim_nothing_was_saved_however_well_the_cache_works() -> None:
    calls = [call(0, 90_000, trimmed=0), call(90_000, 1_000, trimmed=0), call(91_000, 1_000, trimmed=0)]
    assert saved(calls) == Savings()


def test_what_a_trim_removed_counts_as_a_cache_read_per_call() -> None:
    """100,000 tokens, of which 70,000 leave; the last call grew by 1,000 and both would have read the rest."""
    events = [
        call(99_000, 1_000, trimmed=0),
        Trim(101_000, 31_000),
        call(0, 31_000, trimmed=2),
        call(31_000, 1_000),
    ]
    found = saved(events)
    assert found.tokens == 140_000
    cut = dollars(read=100_000, written=1_000) - dollars(written=31_000)
    assert found.dollars == pytest.approx(cut + dollars(read=70_000))


def test_a_trim_that_is_never_used_again_costs() -> None:
    found = saved([call(99_000, 1_000, trimmed=0), Trim(101_000, 31_000), call(0, 31_000, trimmed=2)])
    assert found.dollars < 0


def test_where_the_cache_had_expired_the_whole_would_have_been_written_again() -> None:
    found = saved([Trim(100_000, 30_000), call(0, 30_000, trimmed=2), call(0, 31_000)])
    assert found.tokens == 140_000
    first = saved([Trim(100_000, 30_000), call(0, 30_000, trimmed=2)])
    assert found.dollars - first.dollars == pytest.approx(dollars(written=70_000))


def test_a_provider_that_reports_no_cache_is_billed_by_the_prompt() -> None:
    calls = [Trim(100, 40), Call("gpt-5.5", "t", 2, Counts(40, 0, 0, 1), cached=False)]
    assert saved(calls).dollars == pytest.approx(60 * pricing.PRICES["gpt-5.5*"].input / 1e6)


def test_each_thread_has_its_own_trims() -> None:
    events = [Trim(100, 40), call(0, 40, trimmed=2), call(0, 40, trimmed=0, thread="other")]
    assert saved(events).tokens == 60


def test_a_model_without_a_price_counts_tokens_and_is_named() -> None:
    found = saved([Trim(100, 40), call(0, 40, trimmed=2, model="mine"), call(40, 0, model=None)])
    assert found == Savings(120, 0.0, ("mine", "unknown"))


def test_sums_add_up() -> None:
    assert Savings(1, 0.5, ("b",)) + Savings(2, 0.25, ("a", "b")) == Savings(3, 0.75, ("a", "b"))


def test_a_later_trim_removes_more() -> None:
    events = [Trim(100, 40), call(0, 40, trimmed=2), Trim(90, 50), call(0, 50, trimmed=2)]
    assert saved(events).tokens == 60 + 60 + 40
