"""Which rows a search may return."""

from openmem_store.layout import Layout
from openmem_store.reader import databases, scope

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


def loaded(layout: Layout, chosen: scope.Scope) -> scope.Rows:
    with databases.opened(conversation(layout)) as connection:
        return scope.load(connection, chosen)


def test_filters_narrow_and_echoes_are_counted_apart(layout: Layout) -> None:
    rows = loaded(layout, scope.Scope(("user", "tool"), None, include_echoes=False))
    assert rows.allowed == {1, 3, 5, 6}
    assert rows.echo_count == 1


def test_rows_in_context_and_out_of_it_are_told_apart(layout: Layout) -> None:
    out = loaded(layout, scope.Scope(EVERYTHING.roles, in_context=False, include_echoes=False))
    assert out.allowed == {2, 3}


def test_echoes_pass_when_asked_for(layout: Layout) -> None:
    rows = loaded(layout, scope.Scope(("tool",), None, include_echoes=True))
    assert (rows.allowed, rows.echo_count) == ({5, 6, 8}, 0)


def test_each_row_has_a_heading_and_the_first_turn_its_own(layout: Layout) -> None:
    rows = loaded(layout, EVERYTHING)
    assert [rows.heading(seq) for seq in (1, 2, 3, 4, 5, 6)] == [
        "user, first turn",
        "assistant",
        "user",
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
