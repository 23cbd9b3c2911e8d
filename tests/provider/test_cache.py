"""The prompt cache: breakpoints, look-back, minimum and lifetime."""

import copy

from fixtures.provider import cache
from fixtures.provider.cache import PrefixCache, Use, prompt
from tests.provider.bodies import HOUR, MARK, answered, assistant, body, changed, text, user

LONG = "word " * 2_000
"""2000 tokens, well over the minimum."""


def marked(request, marker=MARK):
    """Return the request with a marker on the last block of its last message only."""
    moved = copy.deepcopy(request)
    last = moved["messages"][-1]
    last["content"] = [text(last["content"], cache_control=marker)]
    return moved


def total(use):
    """Return the tokens of the prompt."""
    return use.uncached + use.read + use.written_5m + use.written_1h


def test_a_growing_conversation_reads_what_it_wrote():
    store = PrefixCache()
    first = body(user(LONG))
    grown = body(user(LONG), assistant("yes"), user("more"))
    one = store.use(prompt(marked(first)), now=0)
    two = store.use(prompt(marked(grown)), now=1)
    assert (one.read, one.uncached) == (0, 0)
    assert two.read == one.written_5m
    assert two.written_5m == total(two) - two.read


def test_the_parts_always_sum_to_the_prompt():
    request = marked(body(user(LONG), assistant("yes"), user("more"), system=[text(LONG, cache_control=MARK)]))
    units = prompt(request)
    assert total(PrefixCache().use(units, now=0)) == sum(unit.tokens for unit in units)


def test_nothing_is_cached_without_a_breakpoint():
    store = PrefixCache()
    for now in (0, 1):
        use = store.use(prompt(body(user(LONG))), now=now)
        assert (use.read, use.written_5m, use.written_1h) == (0, 0, 0)


def test_a_prefix_below_the_minimum_is_not_cached():
    request = marked(body(user("word " * 100), tools=[]))
    store = PrefixCache()
    assert store.use(prompt(request), now=0) == store.use(prompt(request), now=1) == Use(104, 0, 0, 0)


def test_an_entry_expires_after_five_minutes_and_each_read_renews_it():
    store = PrefixCache()
    request = marked(body(user(LONG)))
    wrote = store.use(prompt(request), now=0).written_5m
    assert store.use(prompt(request), now=299).read == wrote
    assert store.use(prompt(request), now=598).read == wrote
    assert store.use(prompt(request), now=898).read == 0


def test_an_hour_is_billed_apart_and_lasts_an_hour():
    store = PrefixCache()
    request = marked(body(user(LONG)), HOUR)
    wrote = store.use(prompt(request), now=0)
    assert (wrote.written_5m, wrote.written_1h > 0) == (0, True)
    assert store.use(prompt(request), now=3_599).read == wrote.written_1h


def test_mixed_lifetimes_are_billed_by_the_breakpoint_that_reaches_them():
    request = marked(body(user(LONG), system=[text(LONG, cache_control=HOUR)]))
    use = PrefixCache().use(prompt(request), now=0)
    units = prompt(request)
    assert use.written_1h == units[0].tokens + units[1].tokens
    assert use.written_5m == units[2].tokens


def test_an_entry_is_found_twenty_blocks_back_and_not_one_further():
    for added, found in ((cache.LOOKBACK - 1, True), (cache.LOOKBACK, False)):
        store = PrefixCache()
        wrote = store.use(prompt(marked(body(user(LONG)))), now=0).written_5m
        more = [text(f"part {n}") for n in range(added)]
        more[-1] = {**more[-1], "cache_control": MARK}
        request = body({"role": "user", "content": [text(LONG), *more]})
        assert store.use(prompt(request), now=1).read == (wrote if found else 0)


def test_an_edit_ends_the_reading_before_it():
    store = PrefixCache()
    request = marked(body(user(LONG), system=[text(LONG, cache_control=MARK)]))
    store.use(prompt(request), now=0)
    edited = marked(body(user(f"other {LONG}"), system=[text(LONG, cache_control=MARK)]))
    units = prompt(edited)
    assert store.use(units, now=1).read == units[0].tokens + units[1].tokens


def test_another_model_reads_nothing():
    store = PrefixCache()
    request = marked(body(user(LONG)))
    store.use(prompt(request), now=0)
    assert store.use(prompt(changed(request, model="claude-sonnet-5-5")), now=1).read == 0


def test_a_top_level_marker_is_a_breakpoint_on_the_last_block():
    store = PrefixCache()
    request = body(user(LONG), cache_control=MARK)
    wrote = store.use(prompt(request), now=0).written_5m
    assert store.use(prompt(request), now=1).read == wrote > 0


def test_dropped_blocks_are_not_billed():
    request = answered(body(user("go")))
    units = prompt(request, dropped=frozenset({(1, 0)}))
    assert sum(unit.tokens for unit in units) < sum(unit.tokens for unit in prompt(request))


def test_a_deferred_tool_takes_no_room():
    request = body(user("go"))
    deferred = {"name": "Later", "defer_loading": True, "description": LONG}
    more = changed(request, tools=[*request["tools"], deferred])
    assert [unit.tokens for unit in prompt(more)] == [unit.tokens for unit in prompt(request)]
