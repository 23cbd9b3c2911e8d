"""Which rows a search may return."""

from collections.abc import Generator
from contextlib import contextmanager

from openmem_store.layout import Layout
from openmem_store.reader import scope, source

from tests.store.reader.conversation import called, replied, returned, said, store

EVERYTHING = scope.Scope(("user", "assistant", "tool"), None, include_echoes=False)


def conversation(layout: Layout):
    return store(
        layout,
        "s",
        said("task"),
        replied("ok"),
        said("more"),
        called("Bash", "{}"),
        returned("Bash", "out"),
        returned(None, "out"),
        called("smart_compact_search", "{}"),
        returned("smart_compact_search", "{}"),
        dropped=[1, 2],
    )


@contextmanager
def rows(layout: Layout, chosen: scope.Scope) -> Generator[scope.Rows]:
    with source.opened(conversation(layout)) as connection:
        yield scope.Rows(connection, chosen)


def test_filters_narrow_and_echoes_are_counted_apart(layout: Layout) -> None:
    with rows(layout, scope.Scope(("user", "tool"), None, include_echoes=False)) as found:
        assert found.apart(range(1, 100)) == ({1, 3, 5, 6}, 1)
        assert (found.allowed({2, 5}), found.apart({5})) == ({5}, ({5}, 0))
        assert len(found) == 8


def test_rows_in_context_and_out_of_it_are_told_apart(layout: Layout) -> None:
    with rows(layout, scope.Scope(EVERYTHING.roles, in_context=False, include_echoes=False)) as found:
        assert found.allowed(range(1, 9)) == {2, 3}


def test_echoes_pass_when_asked_for(layout: Layout) -> None:
    with rows(layout, scope.Scope(("tool",), None, include_echoes=True)) as found:
        assert found.apart(range(1, 9)) == ({5, 6, 8}, 0)


def test_texts_come_newest_first_under_the_filters(layout: Layout) -> None:
    with rows(layout, scope.Scope(("user", "tool"), None, include_echoes=False)) as found:
        assert [(row.seq, text) for row, text in found.texts()] == [
            (8, "{}"), (6, "out"), (5, "out"), (3, "more"), (1, "task"),
        ]  # fmt: skip
        assert [row.seq for row, _ in found.texts(match='"out"')] == [6, 5]
        assert len(list(found.texts(match='"out'))) == 5, "a query that the index cannot answer leaves none out"
    with rows(layout, scope.Scope(("user", "tool"), in_context=False, include_echoes=False)) as found:
        assert [row.seq for row, _ in found.texts()] == [3]


def test_each_row_has_a_heading_and_the_users_turns_their_own(layout: Layout) -> None:
    with rows(layout, EVERYTHING) as found:
        assert [found.heading(seq) for seq in (1, 2, 3, 4, 5, 6)] == [
            "user, first turn",
            "assistant",
            "user, questions",
            "call Bash",
            "tool result Bash",
            "tool result",
        ]


def test_a_breakdown_adds_up_its_small_parts() -> None:
    counts = {f"tool result {n}": n for n in range(1, 31)}
    shown = scope.breakdown(counts)
    assert sum(shown.values()) == sum(counts.values())
    assert next(iter(shown)) == "tool result 30"
    assert len(shown) == scope.MOST_HEADINGS + 1
    assert shown["other"] == sum(range(1, 11))
