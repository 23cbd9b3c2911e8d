"""Own what models cost and how much they can read: one dated table, and the arithmetic of a bill.

Dollars per million tokens, without discounts for batches or contracts. Sources: the price pages of
platform.claude.com and developers.openai.com.
"""

from fnmatch import fnmatchcase

import msgspec

AS_OF = "2026-11-30"
"""When the table was last compared with the pages."""


class Price(msgspec.Struct, frozen=True):
    """One model's prices, dollars per million tokens."""

    input: float
    """Prompt tokens neither read from the cache nor written to it."""
    read: float
    """Prompt tokens read from the cache."""
    write: float
    """Prompt tokens written to it, to be kept five minutes; where writing costs nothing extra, as `input`."""
    output: float
    window: int
    """Tokens the model can read and write in one request."""
    long_from: int | None = None
    """Prompts over this many tokens are billed `long_factor` times as much; None where all cost alike."""
    long_factor: float = 1.0


PRICES = {
    "claude-fable-5-1*": Price(10, 0.25, 12.5, 50, 1_000_000),
    "claude-mythos-5-1*": Price(10, 0.25, 12.5, 50, 1_000_000),
    "claude-opus-5-5*": Price(4, 0.20, 5, 20, 1_000_000),
    "claude-opus-5*": Price(5, 0.50, 6.25, 25, 1_000_000),
    "claude-opus-4*": Price(5, 0.50, 6.25, 25, 200_000),
    "claude-sonnet-5-5*": Price(2, 0.10, 2.5, 10, 1_000_000),
    "claude-sonnet-5*": Price(2, 0.20, 2.5, 10, 1_000_000),
    "claude-haiku-5-5*": Price(0.1, 0.01, 0.125, 0.5, 1_000_000, long_from=100_000, long_factor=5),
    "claude-haiku-4-5*": Price(1, 0.10, 1.25, 5, 200_000),
    "gpt-6.1-sol*": Price(2, 0.10, 2, 10, 1_050_000),
    "gpt-5.5*": Price(5, 0.50, 5, 30, 1_050_000, long_from=272_000, long_factor=2),
    "gpt-5.4*": Price(2.5, 0.25, 2.5, 15, 1_050_000, long_from=272_000, long_factor=2),
}
"""By model name or glob; the longest that matches holds."""

USUAL_WINDOW = 200_000
"""Tokens of a model that is not in the table: the smallest window of those that agents use."""


class Counts(msgspec.Struct, frozen=True):
    """The tokens of one model call."""

    input: int
    read: int
    written: int
    output: int

    @property
    def prompt(self) -> int:
        return self.input + self.read + self.written


def price(model: str | None) -> Price | None:
    """Return a model's prices, None for one that is not in the table. A gateway's prefix (`vendor/`) is ignored."""
    name = (model or "").rpartition("/")[2]
    matching = [glob for glob in PRICES if fnmatchcase(name, glob)]
    return PRICES[max(matching, key=len)] if matching else None


def window(model: str | None) -> int:
    """Return how many tokens a model can read."""
    known = price(model)
    return known.window if known else USUAL_WINDOW


def cost(known: Price, counts: Counts) -> float:
    """Return what a call costs, dollars."""
    tokens = (
        counts.input * known.input
        + counts.read * known.read
        + counts.written * known.write
        + counts.output * known.output
    )
    factor = known.long_factor if known.long_from is not None and counts.prompt > known.long_from else 1.0
    return tokens * factor / 1e6
