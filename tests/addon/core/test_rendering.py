"""Hold a view applied to a request to what goes out, what it weighs and which rows it shows."""

import pytest
from openmem_addon.core import anthropic, compress
from openmem_addon.core.model import Conversation
from openmem_addon.core.rendering import Rendering, absent, applied, row_flags, weight
from openmem_addon.core.view import View
from openmem_store.rows import blob_id

from tests.conversations import PIXEL, assistant, body, encode, result, system, thinking, use, user

LONG = "a line of output\n" * 300
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
REQUEST = body(
    user("first", IMAGE),
    system("early"),
    assistant(thinking(), "aloud", use("a")),
    user(result("a", LONG), "and"),
    assistant(thinking("alone")),
    user("<task-notification>done</task-notification>"),
    assistant("yes"),
    user("last", IMAGE),
    system("late"),
)
CONVERSATION: Conversation = anthropic.parse(encode(REQUEST))
BLOB = blob_id(LONG)


def shown(view: View) -> Rendering:
    return applied(CONVERSATION, view, 2.5)


def test_a_view_that_changes_nothing_keeps_everything() -> None:
    made = shown(View())
    assert made.kept == tuple(range(9))
    assert not made.changes_items(9)
    assert absent(CONVERSATION, made) == frozenset()
    assert row_flags(CONVERSATION, View(), made).dropped == frozenset()
    assert row_flags(CONVERSATION, View(), made).cut is None


@pytest.mark.parametrize(
    ("view", "kept", "left_out"),
    [
        (View(dropped=((1, 3), (4, 7))), (0, 3, 7, 8), {1, 2, 4, 5, 6}),
        (View(dropped=((2, 7),), moved=(1,), moved_after=7), (0, 7, 8), {2, 3, 4, 5, 6}),
        (View(strip=9), (0, 1, 2, 3, 5, 6, 7, 8), {4}),
        (View(strip=4), tuple(range(9)), set()),
    ],
)
def test_what_goes_out_and_what_is_left_out(view: View, kept: tuple[int, ...], left_out: set[int]) -> None:
    made = shown(view)
    assert made.kept == kept
    assert absent(CONVERSATION, made) == left_out


def test_only_items_before_the_strip_that_hold_signed_reasoning_are_stripped() -> None:
    assert shown(View(strip=3)).stripped == {2}
    assert shown(View(strip=9)).stripped == {2}
    assert shown(View(strip=9, dropped=((2, 5),))).stripped == frozenset()


@pytest.mark.parametrize(
    ("view", "emptied"),
    [
        (View(strip=9, dropped=((2, 4),)), {4}),
        (View(strip=9, dropped=((1, 4),), moved=(), moved_after=None), set()),
        (View(strip=9, dropped=((2, 4),), moved=(1,), moved_after=0), {4}),
        (View(strip=9, dropped=((2, 4), (5, 6))), set()),
    ],
    ids=["behind a system message", "behind a user", "behind one that moved", "before an answer"],
)
def test_a_message_of_reasoning_alone_keeps_a_place_between_a_system_message_and_a_user(
    view: View, emptied: set[int]
) -> None:
    made = shown(view)
    assert made.emptied == emptied
    assert (4 in made.kept) == bool(emptied)


def test_a_moved_system_message_stands_behind_all_the_user_says_until_it_is_answered() -> None:
    """A user who interrupts speaks twice; what was placed between the two would be refused."""
    history = [user("first"), system("early"), user("second"), user("third"), system("own")]
    view = View(cut=2, moved=(1,), moved_after=2)
    for more, after in (([], 3), ([assistant("yes"), user("fourth")], 3)):
        conversation = anthropic.parse(encode(body(*history[:4], *more)))
        assert applied(conversation, view, 2.5).moved_after == after
    left = anthropic.parse(anthropic.render(conversation, applied(conversation, view, 2.5)))
    assert [item.kind for item in left.items] == ["turn", "turn", "turn", "system", "assistant", "turn"]


def test_a_result_is_shown_compressed_from_its_item_on() -> None:
    form = compress.compressed(compress.result(0, 0, LONG), 2.5)
    assert shown(View(compressed={BLOB: 3})).compressed == {3: {0: form}}
    assert shown(View(compressed={BLOB: 4})).compressed == {}
    assert shown(View(compressed={"0" * 16: 0})).compressed == {}
    assert shown(View(compressed={BLOB: 0}, dropped=((2, 4),))).compressed == {}


@pytest.mark.parametrize(
    "view",
    [
        View(),
        View(instruct=True),
        View(strip=5),
        View(dropped=((1, 3),)),
        View(compressed={BLOB: 0}),
        View(cut=7, note="a note", dropped=((2, 6),), strip=9, compressed={BLOB: 0}),
        View(cut=7, note="a note", dropped=((2, 7),), moved=(1,), moved_after=7, strip=9),
    ],
)
def test_a_request_weighs_what_is_counted_of_the_written_body(view: View) -> None:
    left = anthropic.parse(anthropic.render(CONVERSATION, shown(view)))
    chars, media = weight(CONVERSATION, view, 2.5)
    assert chars == left.head_chars + left.totals.chars[-1]
    assert media == left.totals.media[-1]


def test_rows_are_out_of_context_with_their_message_or_as_reasoning_that_was_stripped() -> None:
    """The first system message has no row; the rest have one for each block."""
    view = View(cut=7, note="n", dropped=((2, 4),), strip=9)
    flags = row_flags(CONVERSATION, view, shown(view))
    texts = [draft.text for item in CONVERSATION.items if item.stored for draft in item.drafts]
    assert [texts[index][:9] for index in sorted(flags.dropped)] == [
        "a thought",
        "aloud",
        '{"path":"',
        LONG[:9],
        "and",
        "alone",
    ]
    assert flags.cut is not None
    assert texts[flags.cut] == "last"
    kept = View(strip=9)
    assert [texts[index] for index in sorted(row_flags(CONVERSATION, kept, shown(kept)).dropped)] == [
        "a thought",
        "alone",
    ]


def test_a_row_names_the_blob_of_its_result_while_it_is_shown_compressed() -> None:
    view = View(compressed={BLOB: 0})
    flags = row_flags(CONVERSATION, view, shown(view))
    rows = [draft.text for item in CONVERSATION.items if item.stored for draft in item.drafts]
    assert {rows[index]: blob for index, blob in flags.blobs.items()} == {LONG: BLOB}
    gone = View(compressed={BLOB: 0}, dropped=((2, 4),))
    assert row_flags(CONVERSATION, gone, shown(gone)).blobs == {}


def test_a_rendering_says_whether_it_opens_the_valve() -> None:
    assert not shown(View()).valve
    assert applied(CONVERSATION, View(), 2.5, valve=True).valve
