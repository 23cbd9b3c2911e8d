"""Hold the figure to what it says: never the provider's own caching, and rewrites and look-ups counted in full."""

import pytest
from openmem_addon.commands import pricing
from openmem_addon.commands.pricing import Counts
from openmem_addon.commands.savings import Call, Savings, Shift, Trim, saved

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


def test_what_a_compressed_result_lacks_counts_as_a_cache_read_in_every_later_call() -> None:
    calls = [
        call(0, 10_000, trimmed=0),
        Shift("t", 5_000),
        call(10_000, 1_000, trimmed=0),
        call(11_000, 500, trimmed=0),
    ]
    found = saved(calls)
    assert found.tokens == 10_000
    assert found.dollars == pytest.approx(dollars(read=10_000))


def test_what_a_look_up_puts_in_and_the_call_that_brings_its_answer_are_on_our_bill() -> None:
    trimmed = [call(99_000, 1_000, trimmed=0), Trim(101_000, 31_000), call(0, 31_000, trimmed=2)]
    looked_up = [Shift("t", -2_000, asked=True), call(31_000, 2_000), call(33_000, 1_000)]
    before, after = saved(trimmed), saved([*trimmed, *looked_up])
    assert after.tokens - before.tokens == -33_000 + 68_000
    bill = dollars(read=31_000, written=2_000) + 100 * PRICE.output / 1e6
    assert after.dollars - before.dollars == pytest.approx(dollars(read=68_000) - bill)


def test_a_look_up_beside_other_tools_costs_only_what_it_puts_in() -> None:
    trimmed = [Trim(100_000, 30_000), call(0, 30_000, trimmed=2)]
    found = saved([*trimmed, Shift("t", -2_000), call(30_000, 3_000)]).tokens - saved(trimmed).tokens
    assert found == 68_000


def test_a_look_up_before_anything_left_is_for_something_else() -> None:
    assert saved([Shift("t", -2_000, asked=True), call(1_000, 2_000, trimmed=0)]) == Savings()


def test_look_ups_can_cost_more_than_all_that_was_removed() -> None:
    events = [Shift("t", 1_000), call(0, 9_000, trimmed=0), Shift("t", -3_000), call(9_000, 3_000, trimmed=0)]
    found = saved(events)
    assert found.tokens == 1_000 - 2_000
    assert found.dollars == pytest.approx(dollars(written=1_000) - dollars(read=2_000))
