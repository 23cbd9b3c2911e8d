"""The estimate that fires a trim, against a tokenizer it does not know."""

import base64
import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from openmem_addon.core import anthropic, rewrite, tokens
from openmem_addon.core.rewrite import Policy
from openmem_addon.core.view import Sample, Thread

from fixtures.provider import cache

Json = dict[str, Any]

WORDS = "harbour ledger signal meadow copper lantern bridge winter orchard paper window river station garden".split()
SIGNS = "港口登记册信号草地铜灯笼桥冬天果园纸窗河站花园信市场"

POLICY = Policy(
    sid="s",
    may_change=True,
    force=False,
    instruct=True,
    require_tools=False,
    trim_tokens=1 << 40,
    tail_tokens=1 << 20,
    compress_tokens=0,
    chars_per_token=2.5,
)


def prose(source: random.Random, size: int) -> str:
    return " ".join(source.choice(WORDS) for _ in range(size)).capitalize() + "."


def code(source: random.Random, size: int) -> str:
    names = [source.choice(WORDS) for _ in range(size // 6)]
    return "\n".join(
        f"    if {name}.count({len(name)}) > 0: self._{name}[{i}] = {name!r}" for i, name in enumerate(names)
    )


def data(source: random.Random, size: int) -> str:
    rows = [{"id": source.randrange(10**6), source.choice(WORDS): source.random()} for _ in range(size // 8)]
    return json.dumps(rows)


def signs(source: random.Random, size: int) -> str:
    return "".join(source.choice(SIGNS) for _ in range(size * 2)) + "。"


def picture(width: int, height: int) -> Json:
    """Return a PNG block; only its header is read."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    content = base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": content}}


def errors(system: str, texts: Callable[[int], list[Json]], rounds: int) -> list[tuple[float, float]]:
    """Return each request's share of new tokens and the error of its estimate, as shares of the prompt."""
    messages: list[Json] = []
    thread: Thread | None = None
    sample: Sample | None = None
    before = 0
    found: list[tuple[float, float]] = []
    for number in range(rounds):
        messages += [{"role": "user", "content": texts(number)}]
        body = json.dumps({"model": "m", "system": system, "messages": messages}).encode()
        result = rewrite.decide(anthropic.parse(body), thread, POLICY, sample=sample)
        thread = result.thread
        counted = sum(
            unit.tokens for unit in cache.prompt(json.loads(anthropic.render(anthropic.parse(body), result.rendering)))
        )
        if sample is not None:
            estimate = tokens.estimate(result.chars, result.media, sample, 2.5)
            found.append(((counted - before) / counted, abs(estimate - counted) / counted))
        sample, before = Sample(counted, result.chars, result.media), counted
        messages += [{"role": "assistant", "content": "Noted."}]
    return found


KINDS = {"prose": prose, "code": code, "json": data, "cjk": signs}


@pytest.mark.parametrize("kind", KINDS)
def test_in_one_kind_of_text_the_estimate_is_within_a_hundredth(kind: str):
    """Where the new part is at most a tenth of the prompt."""
    source = random.Random(7)
    found = errors(KINDS[kind](source, 400), lambda _: [{"type": "text", "text": KINDS[kind](source, 300)}], 40)
    settled = [error for share, error in found if share <= 0.1]
    assert len(settled) >= 20
    assert max(settled) <= 0.01


def test_pictures_are_counted_by_the_providers_rule():
    source = random.Random(7)

    def turn(number: int) -> list[Json]:
        text = {"type": "text", "text": prose(source, 300)}
        return [text, picture(400 + 40 * number, 300)] if number % 3 == 0 else [text]

    settled = [error for share, error in errors(prose(source, 400), turn, 40) if share <= 0.1]
    assert len(settled) >= 15
    assert max(settled) <= 0.01


def test_in_a_mixture_the_error_is_bounded_by_how_far_the_new_text_differs():
    """A tenth of new text of another kind misses by at most a tenth of the difference of the ratios."""
    source = random.Random(7)
    kinds = list(KINDS.values())
    found = errors(
        prose(source, 400), lambda number: [{"type": "text", "text": kinds[number // 5 % 4](source, 300)}], 60
    )
    settled = [error for share, error in found if share <= 0.1]
    assert len(settled) >= 20
    assert max(settled) <= 0.06
