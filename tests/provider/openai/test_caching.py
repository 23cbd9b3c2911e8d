"""The automatic prompt cache."""

import pytest

from fixtures.provider.openai import caching
from fixtures.provider.openai.caching import AutomaticCache, Piece, Use

WORDS = [f"word{chr(97 + n % 26)} " for n in range(8_000)]


def text(count, start=0):
    """Return a text of as many tokens."""
    return "".join(WORDS[start : start + count]).strip()


def use(cache, *pieces, model="gpt-6.2-sol", now=0.0):
    """Bill a prompt."""
    return cache.use(model, list(pieces), now=now, seconds=300.0)


def test_a_growing_prompt_reads_what_it_had_in_steps_of_128():
    cache = AutomaticCache()
    first = use(cache, Piece("a", text(2_000)))
    assert first == Use(total=2_000, read=0, written=1_920)
    grown = use(cache, Piece("a", text(2_000)), Piece("b", text(1_000)))
    assert grown == Use(total=3_000, read=1_920, written=1_024)


@pytest.mark.parametrize(("total", "read"), [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152)])
def test_below_the_minimum_nothing_is_cached(total, read):
    cache = AutomaticCache()
    assert use(cache, Piece("a", text(total))).read == 0
    assert use(cache, Piece("a", text(total))).read == read


def test_a_change_inside_a_text_keeps_what_stands_before_it():
    cache = AutomaticCache()
    use(cache, Piece("a", text(4_000)))
    edited = use(cache, Piece("a", f"{text(2_000)} other {text(1_000, 2_000)}"))
    assert 2_000 - 2 * caching.STEP < edited.read <= 2_000


@pytest.mark.parametrize(
    "other",
    [
        [Piece("x", text(2_000)), Piece("b")],
        [Piece("a", text(2_000), extra=1), Piece("b")],
        [Piece("b"), Piece("a", text(2_000))],
    ],
)
def test_a_change_at_the_front_reads_nothing(other):
    cache = AutomaticCache()
    use(cache, Piece("a", text(2_000)), Piece("b"))
    assert use(cache, *other).read == 0


def test_another_model_reads_nothing():
    cache = AutomaticCache()
    use(cache, Piece("a", text(2_000)))
    assert use(cache, Piece("a", text(2_000)), model="gpt-6.2-astra").read == 0


def test_each_use_renews_a_prefix():
    cache = AutomaticCache()
    use(cache, Piece("a", text(2_000)))
    assert use(cache, Piece("a", text(2_000)), now=299.0).read == 1_920
    assert use(cache, Piece("a", text(2_000)), now=598.0).read == 1_920
    assert use(cache, Piece("a", text(2_000)), now=898.0).read == 0


def test_what_comes_after_the_conversation_is_never_cached():
    cache = AutomaticCache()
    pieces = [Piece("a", text(2_000)), Piece("z", text(2_000), cached=False)]
    use(cache, *pieces)
    assert use(cache, *pieces) == Use(total=4_000, read=1_920, written=0)


def test_a_prompt_counts_its_texts_and_what_is_beside_them():
    assert caching.count([Piece("a", text(10), extra=4), Piece("b", extra=3)]) == 17
