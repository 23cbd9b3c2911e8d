"""An invented project whose pages an agent reads, and the model that reads them."""

import random
from typing import Any

from fixtures.provider.scenario import Asked, Call, Step

Json = dict[str, Any]

STEPS = 22
"""Pages of one part of the project."""

SECRET = "The harbour office keeps the blue ledger under number HL-7731."
"""Stands on the third page of the first part."""

_WORDS = (
    "harbour ledger signal meadow copper lantern bridge winter orchard paper window river station "
    "garden letter market engine silver quiet morning answer valley number record carry follow "
    "between under across before"
).split()


def prose(seed: int, words: int) -> str:
    """Return invented sentences of one kind of text."""
    source = random.Random(seed)
    lines = (" ".join(source.choice(_WORDS) for _ in range(12)).capitalize() + "." for _ in range(words // 12))
    return "\n".join(lines)


def model(asked: Asked) -> Step:
    """Think and call a tool until the turn's steps are done, then answer."""
    if asked.index < STEPS:
        number = f"{asked.name}-{asked.index}"
        return Step(
            thinking=f"The next page to read is {number}. " + prose(asked.index, 24),
            text=f"Reading page {number}.",
            tools=(Call(name="run", input={"cmd": f"cat pages/{number}.txt"}),),
        )
    return Step(thinking="That was all of it.", text=f"Finished {asked.name}. " + prose(7, 36))


def tool(name: str, given: Json) -> str:
    """Answer a command with one page; the third page of the first turn holds the secret."""
    command = str(given["cmd"])
    page = prose(sum(map(ord, command)), 420)
    return f"{command}\n{page}\n{SECRET}" if command.endswith("turn0-2.txt") else f"{command}\n{page}"
