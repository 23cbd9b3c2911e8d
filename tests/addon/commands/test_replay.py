"""Hold the replay to the engine's own views, and its cache to the bytes that two prompts share."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon.commands import pricing, replay, rollouts, transcripts
from openmem_addon.commands.history import History, Request
from openmem_addon.commands.pricing import Counts
from openmem_addon.commands.replay import Outcome
from openmem_addon.core.rewrite import Policy

from tests.addon.commands.recorded import noted, rollout, said, write
from tests.conversations import chat

RATIO = 2.5
PRICE = pricing.PRICES["claude-opus-5-5*"]


def policy(tokens: int | None) -> Policy:
    return Policy(
        sid="s",
        may_change=tokens is not None,
        force=False,
        instruct=True,
        require_tools=False,
        trim_tokens=tokens or 1,
        tail_tokens=300,
        compress_tokens=0,
        chars_per_token=RATIO,
    )


@pytest.fixture
def history(tmp_path: Path) -> History:
    [made] = transcripts.read(write(tmp_path / "t.jsonl", noted(chat(20))))
    return made


def test_as_it_was_nothing_breaks_and_the_rest_is_read(history: History) -> None:
    found = replay.replay(history, policy(None), ratio=RATIO)
    assert (found.requests, found.trims, found.breaks) == (20, 0, 0)
    sizes = [history.route.adapter.parse(history.body(each)) for each in history.requests]
    tokens = [round((each.head_chars + each.totals.chars[-1]) / RATIO) for each in sizes]
    assert (found.prompt, found.largest) == (sum(tokens), tokens[-1])
    once = tokens[-1] * PRICE.write / 1e6
    assert once < found.dollars < once + (sum(tokens) * PRICE.read + 20 * 4 * PRICE.output) / 1e6 * 1.2


def test_a_trim_makes_prompts_smaller_and_breaks_a_prefix_once(history: History) -> None:
    found = replay.replay(history, policy(1000), ratio=RATIO)
    whole = replay.replay(history, policy(None), ratio=RATIO)
    assert 1 <= found.trims == found.breaks
    assert found.largest < whole.largest
    assert found.prompt < whole.prompt


def test_an_instruction_beside_the_items_breaks_no_prefix(tmp_path: Path) -> None:
    items = [each for number in range(6) for each in (said("user", f"ask {number}"), said("assistant", "done"))]
    [history] = rollouts.read(write(tmp_path / "rollout-1.jsonl", rollout(items)))
    found = replay.replay(history, policy(1_000_000), ratio=RATIO)
    assert (found.requests, found.breaks, found.unpriced) == (6, 0, set())


def test_a_model_without_a_price_is_named(history: History) -> None:
    mine = tuple(Request(each.items, "mine") for each in history.requests)
    other = History(**{name: getattr(history, name) for name in History.__struct_fields__} | {"requests": mine})
    found = replay.replay(other, policy(None), ratio=RATIO)
    assert (found.dollars, found.unpriced) == (0.0, {"mine"})


def test_the_ratio_is_that_of_the_providers_first_count(history: History) -> None:
    first = history.route.adapter.parse(history.body(history.requests[0]))
    chars = first.head_chars + first.totals.chars[-1]
    for tokens, ratio in ((chars // 3, chars / (chars // 3)), (chars * 50, RATIO)):
        counted = (Request(history.requests[0].items, "m", Counts(tokens, 0, 0, 1)),)
        made = History(**{name: getattr(history, name) for name in History.__struct_fields__} | {"requests": counted})
        assert replay.ratio(made, usual=RATIO) == pytest.approx(ratio)


def test_a_session_without_counts_takes_the_usual_ratio(history: History) -> None:
    bare = tuple(Request(each.items, each.model) for each in history.requests)
    other = History(**{name: getattr(history, name) for name in History.__struct_fields__} | {"requests": bare})
    assert replay.ratio(other, usual=RATIO) == RATIO


def test_the_items_come_last_in_the_order_of_a_prompt() -> None:
    body = b'{"input":[1,2],"instructions":"x"}'
    assert replay.prompt_order(body, (9, 14)) == b'{"input":,"instructions":"x"}[1,2]'


@given(one=st.binary(max_size=40), other=st.binary(max_size=40))
def test_what_two_bodies_share_is_their_longest_common_beginning(one: bytes, other: bytes) -> None:
    shared = replay.common(one, other)
    assert one[:shared] == other[:shared]
    assert shared == min(len(one), len(other)) or one[shared] != other[shared]
    assert replay.common(one, one + other) == len(one)


def test_sums_add_up() -> None:
    total = Outcome()
    total.add(Outcome(1, 10, 10, 0, 0, 0.5, {"a"}))
    total.add(Outcome(2, 30, 20, 1, 1, 0.25, {"b"}))
    assert total == Outcome(3, 40, 20, 1, 1, 0.75, {"a", "b"})
