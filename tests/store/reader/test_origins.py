"""What a count counts."""

import pytest
from openmem_store.layout import Layout
from openmem_store.reader import echoes, origins, source

from tests.store.reader.conversation import called, replied, returned, said, store

SEARCH = "mcp__openmem__smart_compact_sql"
LOOSE = "text LIKE '%[ERROR]%billing%'"


def counted(layout: Layout, statement: str) -> tuple[int, dict[str, int]]:
    """Return what a statement counts, and the same by origin."""
    database = store(
        layout,
        "s",
        said("count lines like\n[ERROR] billing sample"),
        replied("ok"),
        said("[ERROR] billing 1\n[ERROR] billing 2\n[INFO] billing 3"),
        replied("kept"),
        said("how many [ERROR] lines of billing?"),
        called(SEARCH, '{"sql":"SELECT 1 WHERE \'[ERROR] billing\'"}'),
        returned(SEARCH, "[ERROR] billing"),
        replied("there are 2 [ERROR] lines of billing"),
        said("thanks"),
    )
    with source.opened(database) as plain, source.opened(database) as shadowed:
        echoes.prepare(plain)
        total = plain.execute(statement).get
        return total, origins.Origins(shadowed).count(lambda: shadowed.execute(statement).get, total)


def test_a_loose_count_is_broken_down_by_origin(layout: Layout) -> None:
    total, by = counted(layout, f"SELECT count(*) FROM lines WHERE {LOOSE}")
    assert total == 7
    assert by == {
        "user": 2,
        origins.OWN: 2,
        "user, first turn": 1,
        "user, questions": 1,
        "assistant": 1,
    }


@pytest.mark.parametrize(
    ("statement", "by"),
    [
        (f"SELECT count(*) FROM source_lines WHERE role = 'user' AND {LOOSE}", {"user": 2, "user, first turn": 1}),
        ("SELECT count(DISTINCT message_seq) FROM source_lines WHERE text LIKE '%[ERROR]%'", {"user": 1}),
        ("SELECT count(*) FROM source_messages WHERE role = 'user'", {"user": 1, "user, questions": 2}),
        ("SELECT count(*) FROM lines l JOIN messages m ON m.seq = l.message_seq WHERE m.role = 'tool'", {}),
        (f"SELECT count(*) FROM lines WHERE message_seq = 3 AND {LOOSE}", {}),
        (f"SELECT count(*) FROM main.lines WHERE {LOOSE}", {}),
        ("SELECT count(*) FROM lines_fts WHERE lines_fts MATCH 'billing'", {}),
        (
            "SELECT count(*) FROM lines_fts f JOIN lines l ON l.id = f.rowid WHERE lines_fts MATCH 'info OR sample'",
            {"user": 1, "user, first turn": 1},
        ),
    ],
)
def test_only_what_says_more_than_the_count_is_said(layout: Layout, statement: str, by: dict[str, int]) -> None:
    """What is of one origin needs no breakdown; what reads past the shadows has none."""
    assert by.items() <= counted(layout, statement)[1].items()
    assert bool(by) == bool(counted(layout, statement)[1])


def test_a_statement_that_fails_has_no_breakdown(layout: Layout) -> None:
    with source.opened(store(layout, "s", said("a"), replied("b"))) as connection:
        assert origins.Origins(connection).count(lambda: None, 2) == {}
