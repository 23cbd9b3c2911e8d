"""Own what a request costs, from its bytes: tokens at the stream's own rate, and what the cache has of them.

A prompt is cut in the order in which a provider caches it: tools, system blocks, message blocks. An
entry stands where a breakpoint stood, is found within 20 blocks of one, and lives five minutes from its
last use. That is an upper bound: a real client also misses for reasons of its own.
"""

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from fixtures.provider import canonical, wire
from fixtures.provider.cache import PrefixCache, Unit

THINK_SECONDS = 6.0
"""Assumed between two requests; the entries' five minutes are counted in it."""

WINDOW = 1_000_000
"""Tokens of the largest context window."""

READ, WRITE = 0.1, 1.25
"""Price of a cached token and of one written to the cache, in that of a plain one."""

DOLLARS = 1e-6
"""Of a plain token of the prompt."""

type Json = dict[str, object]


class Bill(msgspec.Struct, frozen=True):
    """One request's tokens."""

    plain: int
    read: int
    written: int
    output: int

    @property
    def prompt(self) -> int:
        return self.plain + self.read + self.written

    @property
    def dollars(self) -> float:
        """Of the prompt alone."""
        return (self.plain + READ * self.read + WRITE * self.written) * DOLLARS

    def usage(self) -> dict[str, int]:
        """Return the counts as the provider reports them."""
        return {
            "input_tokens": self.plain,
            "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.written,
            "output_tokens": self.output,
        }


class Totals(msgspec.Struct, frozen=True):
    """What a whole run cost."""

    requests: int
    peak: int
    hit_rate: float
    dollars: float
    broken: int
    """Requests that did not begin with the whole request before them."""


class Meter:
    """Counts one conversation's requests, in order."""

    def __init__(self, characters_per_token: float) -> None:
        self.bills: list[Bill] = []
        self.broken = 0
        self._rate = characters_per_token
        self._cache = PrefixCache()
        self._before: list[str] = []

    def prompt(self, body: Json) -> int:
        """Return the tokens of a request."""
        return sum(unit.tokens for unit in self._units(body))

    def charge(self, body: Json, output: str) -> Bill:
        """Count one request that is answered."""
        units = self._units(body)
        digests = [unit.digest for unit in units]
        self.broken += digests[: len(self._before)] != self._before
        self._before = digests
        use = self._cache.use(units, now=len(self.bills) * THINK_SECONDS)
        bill = Bill(use.uncached, use.read, use.written_5m + use.written_1h, round(len(output) / self._rate))
        self.bills.append(bill)
        return bill

    def totals(self) -> Totals:
        prompts = [bill.prompt for bill in self.bills]
        return Totals(
            requests=len(self.bills),
            peak=max(prompts, default=0),
            hit_rate=sum(bill.read for bill in self.bills) / max(1, sum(prompts)),
            dollars=sum(bill.dollars for bill in self.bills),
            broken=self.broken,
        )

    def _units(self, body: Json) -> list[Unit]:
        """Return the blocks, each named by all that stands up to it. The tools are one, as for the provider."""
        offered = canonical.offered(body)
        blocks = [(offered, None)] if offered else []
        blocks += [(canonical.without_markers(block), _marked(block)) for block in wire.system(body)]
        for message in wire.messages(body):
            for block in wire.blocks(message.get("content")):
                blocks.append(([message.get("role"), canonical.without_markers(block)], _marked(block)))
        sizes = [_characters(form) for form, _ in blocks]
        ends = [round(total / self._rate) for total in itertools.accumulate(sizes)]
        tokens = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        chain = ""
        units: list[Unit] = []
        for (form, ttl), count in zip(blocks, tokens, strict=True):
            chain = canonical.digest(chain, form)
            units.append(Unit(chain, count, ttl))
        return units


def _marked(block: Json) -> str | None:
    marker = block.get("cache_control")
    return str(marker.get("ttl", "5m")) if isinstance(marker, dict) else None


def _characters(form: object) -> int:
    """Return the characters of every string in a block: what a tokenizer sees, without JSON's own marks."""
    return sum(map(len, _strings(form)))


def _strings(form: object) -> Iterator[str]:
    if isinstance(form, str):
        yield form
    elif isinstance(form, dict):
        for key, value in form.items():
            yield key
            yield from _strings(value)
    elif isinstance(form, Sequence):
        for item in form:
            yield from _strings(item)
    elif form is not None:
        yield str(form)
