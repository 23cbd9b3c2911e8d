"""What each of the user's turns is for, and which rows stand beside each other."""

import pytest
from openmem_store.layout import Layout
from openmem_store.reader import source, turns
from openmem_store.reader.known import Known

from tests.store.reader.conversation import Draft, called, replied, returned, said, store

SEARCH = "mcp__openmem__smart_compact_search"


def headings(layout: Layout, *drafts: Draft) -> dict[int, str]:
    """Return the heading of every row of the user."""
    with source.opened(store(layout, "s", *drafts)) as connection:
        found = Known(connection).turns
        rows = connection.execute("SELECT seq FROM messages WHERE role = 'user'").fetchall()
        return {seq: found.heading(seq) for (seq,) in rows}


def test_turns_that_led_to_a_search_and_the_newest_are_questions(layout: Layout) -> None:
    found = headings(
        layout,
        said("the task"),
        replied("ok"),
        said("data"),
        replied("kept"),
        said("more data"),
        called("Bash", "{}"),
        returned("Bash", "out"),
        said("how many?"),
        replied("I look"),
        called(SEARCH, "{}"),
        returned(SEARCH, "{}"),
        called(SEARCH, "{}"),
        returned(SEARCH, "{}"),
        said("and now?"),
    )
    assert found == {1: turns.FIRST, 3: turns.OTHER, 5: turns.OTHER, 8: turns.ASKING, 14: turns.ASKING}


def test_a_search_through_code_makes_a_question_too(layout: Layout) -> None:
    found = headings(
        layout,
        *(said("task"), replied("ok"), said("how many?"), called("exec", "tools.smart_compact_search({})")),
        *(returned("exec", "3"), replied("3"), said("data"), replied("ok"), said("last")),
    )
    assert found == {1: turns.FIRST, 3: turns.ASKING, 7: turns.OTHER, 9: turns.ASKING}


def test_all_parts_of_a_turn_have_its_heading(layout: Layout) -> None:
    found = headings(layout, said("a"), said("b"), replied("ok"), said("c"), said("d"))
    assert found == {1: turns.FIRST, 2: turns.FIRST, 4: turns.ASKING, 5: turns.ASKING}


def test_threads_have_turns_of_their_own(layout: Layout) -> None:
    store(layout, "s", said("task"), replied("ok"), said("data"), replied("ok"), said("last"))
    found = headings(layout, said("a subagent's task"), called(SEARCH, "{}"), returned(SEARCH, "{}"))
    assert found == {1: turns.FIRST, 3: turns.OTHER, 5: turns.ASKING, 6: turns.FIRST}


@pytest.mark.parametrize("drafts", [[said("a")], [said("a"), said("b")], [replied("a"), said("b")]])
def test_a_thread_without_a_reply_after_its_first_turn(layout: Layout, drafts: list[Draft]) -> None:
    assert set(headings(layout, *drafts).values()) == {turns.ASKING if drafts[0].role == "assistant" else turns.FIRST}


def test_rows_of_two_threads_are_never_beside_each_other(layout: Layout) -> None:
    store(layout, "s", said("one"), replied("two"))
    store(layout, "s", said("other"), replied("thread"))
    database = store(layout, "s", said("one"), replied("two"), said("three"))
    with source.opened(database) as connection:
        positions = turns.Positions(connection, count=5)
    placed = {seq: place for place, seq in positions.of(range(1, 6)).items()}
    assert positions.places([3, 1]) == [placed[3], placed[1]]
    assert (min(placed.values()) >= 0, max(placed.values())) == (True, positions.last)
    for here, there in (({1, 2, 5}, {3, 4}),):
        assert min(abs(placed[a] - placed[b]) for a in here for b in there) > turns.REACH
    assert (placed[2] - placed[1], placed[5] - placed[2], placed[4] - placed[3]) == (1, 1, 1)


def test_the_rows_of_a_single_thread_are_numbered_as_they_are(layout: Layout) -> None:
    with source.opened(store(layout, "s", said("one"), replied("two"))) as connection:
        positions = turns.Positions(connection, count=2)
        assert (positions.of({2, 1}), positions.places({2}), positions.last) == ({1: 1, 2: 2}, {2}, 2)
