"""Own what a stream of operations is, and how the agent's answers to its questions are graded.

Every operation is a new user message of one conversation. Data comes in blocks, questions ask for exactly
one value each, and only what the agent itself says in an ANSWER block counts.
"""

import random
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Kind = Literal["get", "lookup", "count"]

QUESTIONS = 24
"""At the end of a stream."""

READY = "READY_FOR_NEXT_OP"
"""How the agent says that the next operation may come."""

WORDS = (
    "amber anchor arbor autumn barley basket beacon birch bottle branch bridge bronze button canal candle canvas "
    "cedar chalk cherry chimney cinder clover cobalt copper coral cotton cradle crimson crystal dapple desert ember "
    "engine fabric falcon feather fennel ferry fiddle flagon flint forest fossil galley garden garnet ginger glacier "
    "granite gravel hammer harbor hazel heather hollow indigo island ivory jasmine jasper juniper kernel kettle "
    "ladder lantern lattice laurel ledger lemon linen lumber magnet maple marble meadow mellow mirror mortar mosaic "
    "muslin nectar nettle nickel nutmeg oatmeal ochre olive orchard oyster paddle pebble pepper pewter pigment pillar "
    "plaster poplar quarry quartz quiver raisin ribbon rivet rowan saddle saffron sandal satchel shadow shingle "
    "signal silver sorrel spindle spruce stable sulfur summit tallow tangle thicket thimble timber topaz tunnel "
    "turnip umber valley velvet violet walnut warden wattle whistle willow window winter yarrow zephyr zinc"
).split()


class Question(msgspec.Struct, frozen=True):
    """What one operation asks."""

    name: str
    """Stands in the answer's first line: `key=K00114`, `qid=23`."""
    kind: Kind
    gold: str
    stale: str | None = None
    """The value the key had before it was set again; None for one that was set once."""


class Operation(msgspec.Struct, frozen=True):
    """One user message."""

    text: str
    question: Question | None = None
    """None for data and for the instruction."""


class Stream(msgspec.Struct, frozen=True):
    """A whole task."""

    name: str
    operations: tuple[Operation, ...]
    characters_per_token: float
    """Of this kind of text, so that the published prompt sizes come out."""

    @property
    def questions(self) -> list[Question]:
        return [each.question for each in self.operations if each.question is not None]


class Score(msgspec.Struct, frozen=True):
    """How many questions were answered right, as shares of those asked."""

    reward: float
    lenient: float
    """The same with the tag behind `#` left out of the comparison."""
    by_kind: dict[str, float]
    stale: int
    """Answers with a value that had been overwritten."""


def titled(title: str, remaining: int, body: str) -> str:
    """Return an operation's text under its header."""
    return f"=== {title} ({remaining} op(s) remaining after this) ===\n{body}"


def block(kind: str, number: int, tag: str, lines: Iterable[str]) -> str:
    """Return a block of data between its two marks."""
    name = f"{kind}-BATCH {number:04}#{tag}"
    body = "\n".join(lines)
    return f"<<<{name} BEGIN – offload this whole block this turn>>>\n{body}\n<<<{name} END>>>"


def answer(name: str, value: str) -> str:
    """Return an answer as the agent must write it."""
    return f"<<<ANSWER {name}>>>\n{value}\n<<<ANSWER END>>>"


def words(source: random.Random, count: int) -> str:
    return " ".join(source.choices(WORDS, k=count))


def tag(source: random.Random) -> str:
    """Return eight hex digits."""
    return f"{source.getrandbits(32):08x}"


def grade(questions: Sequence[Question], replies: Sequence[str]) -> Score:
    """Compare the agent's last words of each question with what is right; a reply without a block is wrong."""
    given = [_given(question, reply) for question, reply in zip(questions, replies, strict=False)]
    given += [None] * (len(questions) - len(given))
    right = [value == question.gold for question, value in zip(questions, given, strict=True)]
    close = [
        value is not None and _untagged(value) == _untagged(question.gold)
        for question, value in zip(questions, given, strict=True)
    ]
    by_kind = {
        kind: _share([ok for question, ok in zip(questions, right, strict=True) if question.kind == kind])
        for kind in dict.fromkeys(question.kind for question in questions)
    }
    stale = sum(value is not None and value == question.stale for question, value in zip(questions, given, strict=True))
    return Score(_share(right), _share(close), by_kind, stale)


def _given(question: Question, reply: str) -> str | None:
    found = re.findall(rf"<<<ANSWER {re.escape(question.name)}>>>\n(.*)\n<<<ANSWER END>>>", reply)
    return found[-1] if found else None


def _untagged(value: str) -> str:
    return value.rpartition(" #")[0] or value


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0
