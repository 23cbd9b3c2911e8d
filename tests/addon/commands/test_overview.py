"""Hold a session's row, and its two lines on a narrow terminal, to what is said of it."""

import pytest
from openmem_addon.commands import overview, pricing, terminal
from openmem_addon.commands.report import Report
from openmem_addon.commands.savings import Savings

BUSY = Report(
    session_id="0f3c2a1e-7777-4c1d-9a55-1b2c3d4e5f60",
    agent="codex",
    cwd="/a/long/way/down/to/the/project",
    messages=1_234,
    in_context=56,
    trims=2,
    tokens_before=121_000,
    tokens_after=31_000,
    calls=40,
    compressed=3,
    cache_hit_rate=0.934,
    saved=Savings(1_250_000, 1.234),
    fail_opens=1,
    heals=2,
    vectors=1_000,
    switch="off",
)
QUIET = Report("s-2", None, None, 3, 3, 0, 0, 0, 0, 0, None, Savings(), 0, 0, 0, "on")


def test_a_row_says_all_of_a_session_in_short() -> None:
    assert overview.table([BUSY, QUIET]).rows == (
        (
            "0f3c2a1e-7777-4c1d-9a55-1b2c3d4e5f60",
            "codex",
            "…ong/way/down/to/the/project",
            "1,234",
            "56",
            "2",
            "121k → 31k",
            "93%",
            "1.2M tok, $1.23",
            "switched off, 1 fail-open, 2 heals",
            "1,000 vectors",
        ),
        ("s-2", "-", "-", "3", "3", "0", "-", "-", "-", "", ""),
    )


def test_a_narrow_terminal_gets_two_lines_each() -> None:
    assert terminal.plain(overview.table([BUSY, QUIET]).narrow) == [
        "0f3c2a1e-7777-4c1d-9a55-1b2c3d4e5f60  codex, …ong/way/down/to/the/project",
        "  1,234 messages, 56 in the prompt; 2 trims: 121k → 31k tokens; 93% from the cache; "
        "saved 1.2M tok, $1.23; switched off, 1 fail-open, 2 heals; 1,000 vectors",
        "s-2",
        "  3 messages, 3 in the prompt",
    ]


@pytest.mark.parametrize(
    ("tokens", "said"), {0: "0", 999: "999", 84_213: "84k", 1_250_000: "1.2M", -84_213: "-84k"}.items()
)
def test_counts_are_short(tokens: int, said: str) -> None:
    assert overview.short(tokens) == said


AMOUNTS = {
    Savings(84_000, 1.234): "84k tok, $1.23",
    Savings(-300, -0.5): "-300 tok, -$0.50",
    Savings(84_000, 0.0, ("mine",)): "84k tok",
    Savings(): "-",
}


@pytest.mark.parametrize(("saved", "said"), AMOUNTS.items())
def test_an_amount_is_tokens_and_money_where_there_is_a_price(saved: Savings, said: str) -> None:
    assert overview.amount(saved) == said


def test_the_footer_sums_up_and_names_date_and_gaps() -> None:
    meaning = f"net of cache rewrites and look-ups, without the provider's own caching; prices of {pricing.AS_OF}"
    assert overview.footer(Savings()) == "", "there is no figure to explain"
    assert overview.footer(Savings(1_000, 0.25, ("mine",))) == (
        f"saved: 1k tok, $0.25 in these sessions, {meaning}; no price for mine"
    )
