"""Whose rule: a person who looks at a rewritten request sees what left it, what changed, and what was put in."""

import pytest
from openmem_addon.core import comparison, texts
from openmem_addon.core.comparison import Pair

from tests import table
from tests.conversations import assistant, body, encode, result, thinking, use, user
from tests.forwarding import Forwarded, route
from tests.wires import Wire

SENT = [
    pytest.param(sent, id=f"{case.folder.name}-{wire}-{place}")
    for case in table.cases()
    for wire in case.wires
    for place, sent in enumerate(table.play(case, wire))
    if sent is not None
]


def described(came: bytes, went: bytes, wire: Wire = "anthropic") -> list[str]:
    adapter = route(wire).adapter
    return comparison.describe(adapter.parse(came), adapter.parse(went))


@pytest.mark.parametrize("sent", SENT)
def test_what_it_sees_is_what_was_done(sent: Forwarded) -> None:
    """On every wire of every conversation of the table."""
    adapter = route(sent.wire).adapter
    came, went = adapter.parse(sent.came), adapter.parse(sent.left)
    found = comparison.pairs(came.items, went.items)
    assert [pair.went for pair in found if pair.went is not None] == list(range(len(went.items)))
    assert [pair.came for pair in found if pair.came is not None] == list(range(len(came.items)))
    kept = {came.items[pair.came].source for pair in found if pair.came is not None and pair.went is not None}
    assert kept == {came.items[index].source for index in sent.decided.rendering.kept}


def test_a_trim_is_told_in_runs_and_its_note_is_shown() -> None:
    [_, sent] = [each for each in table.play(table.read(table.TABLE / "signed-reasoning"), "anthropic") if each][-2:]
    note = texts.pointer("s-1", 4)
    assert described(sent.came, sent.left) == [
        "messages: 5 of 9 forwarded",
        f"bytes: {len(sent.left):,} of {len(sent.came):,} forwarded",
        "",
        "1: as it came",
        "2-5: removed, 2 assistant messages, 1 user turn, 1 tool result",
        "6: assistant message, its reasoning removed",
        "7: user turn, text put before it",
        f"    | {note}",
        "8-9: as they came",
    ]


def test_a_shortened_result_is_told_with_its_sizes() -> None:
    old = [user("read it"), assistant(use("t1")), user(result("t1", "x" * 4_000))]
    new = [*old[:2], user(result("t1", "x" * 300))]
    assert described(encode(body(*old)), encode(body(*new)))[3:] == [
        "1-2: as they came",
        "3: tool result, result of Read shortened from 4,000 to 300 characters",
    ]


def test_what_is_around_the_messages_is_told_by_its_name() -> None:
    said = user("hello")
    old = body(said, system="You help.", metadata={"a": 1}, stream=True)
    new = body(said, system=f"You help.\n\n{texts.STANDING_INSTRUCTION}", metadata={"a": 2}, thinking={"type": "x"})
    assert described(encode(old), encode(new))[2:] == [
        "system: the standing instruction was added",
        "metadata: changed",
        "stream: removed",
        "thinking: added",
        "",
        "1: as it came",
    ]


def test_a_message_nobody_planned_is_shown_as_added() -> None:
    old, new = [user("one")], [user("one"), assistant("and two\nlines"), user("three")]
    assert described(encode(body(*old)), encode(body(*new)))[3:] == [
        "1: as it came",
        "added: assistant message",
        "    | and two",
        "    | lines",
        "added: user turn",
        "    | three",
    ]


def test_a_placeholder_is_told() -> None:
    old = [user("one"), assistant(thinking()), user("two")]
    new = [user("one"), assistant(texts.NO_TEXT), user("two")]
    assert described(encode(body(*old)), encode(body(*new)))[3:] == [
        "1: as it came",
        "2: assistant message, its reasoning removed; a placeholder put in",
        f"    | {texts.NO_TEXT}",
        "3: as it came",
    ]


def test_of_equal_messages_the_newest_is_the_one_that_stayed() -> None:
    adapter = route("anthropic").adapter
    items = adapter.parse(encode(body(user("go on"), assistant("done"), user("go on")))).items
    assert comparison.pairs(items, items[2:]) == [Pair(0, None), Pair(1, None), Pair(2, 0)]
