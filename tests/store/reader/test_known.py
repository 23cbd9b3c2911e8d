"""What is known of a session's rows, and when it is read anew."""

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import source
from openmem_store.reader.echoes import ANSWER_MARKER, Echoes
from openmem_store.reader.known import Known, Origin

from tests.store.reader.conversation import Draft, called, replied, returned, said, store

ROWS = [said("task"), replied("ok"), called("o__smart_compact_sql", "{}"), returned("o__smart_compact_sql", "3")]


@pytest.fixture
def path(layout: Layout) -> Path:
    return store(layout, "s", *ROWS)


@pytest.fixture
def known(path: Path) -> Generator[Known]:
    with source.opened(path) as connection:
        made = Known(connection)
        made.refresh()
        yield made


@pytest.fixture
def asked(known: Known) -> list[str]:
    """Return the statements that read where rows come from, as they are run."""
    statements: list[str] = []

    def trace(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        if "role, kind, name" in statement:
            statements.append(statement)
        return True

    known.connection.exec_trace = trace
    return statements


def grown(layout: Layout, *more: Draft) -> None:
    store(layout, "s", *ROWS, *more)


def test_where_a_row_comes_from_is_read_once(known: Known, asked: list[str]) -> None:
    assert known[1] == Origin("user", "text", None)
    assert known.of_roles({1, 2, 4, 99}, ("user", "tool")) == {1, 4}
    assert known.of_our_tools({1, 2, 3, 4}) == {3, 4}
    assert len(asked) == 3
    assert (known[2].role, known.of_roles({1, 2, 3, 4}, ("assistant",))) == ("assistant", {2, 3})
    assert len(asked) == 3


def test_no_row_is_a_key_error(known: Known) -> None:
    with pytest.raises(KeyError):
        known[99]


def test_what_is_stored_later_is_added_to_what_is_known(layout: Layout, known: Known, asked: list[str]) -> None:
    assert (known.count, known.of_roles({1, 2}, ("user",)), known.echoes) == (4, {1}, Echoes(frozenset(), {}))
    assert (known.turns.heading(1), known.positions({4}).last) == ("user, first turn", 4)
    grown(layout, said("more"), returned("exec", f'{{"note":"{ANSWER_MARKER}"}}'))
    known.refresh()
    assert (known.count, known.echoes) == (6, Echoes(frozenset({6}), {}))
    assert (known.turns.heading(5), known.positions({5}).last) == ("user, questions", 6)
    assert known.of_roles({1, 2, 5}, ("user",)) == {1, 5}
    assert len(asked) == 3, "a read for the first rows, the echo and the new row, none again"


def test_an_answer_that_tells_by_its_tools_name_is_not_looked_for_in_the_index(layout: Layout, known: Known) -> None:
    before = known.echoes
    grown(layout, called("smart_compact_get", "smart_compact_get"), returned("smart_compact_get", ANSWER_MARKER))
    known.refresh()
    assert known.echoes is before
    assert known.of_our_tools({5, 6}) == {5, 6}


def test_our_answer_among_other_lines_is_looked_for_whatever_its_tool(layout: Layout, known: Known) -> None:
    assert known.echoes.lines == {}
    grown(layout, returned("smart_compact_get", f"other text\n{ANSWER_MARKER}}}"))
    known.refresh()
    assert known.echoes.lines == {5: frozenset({2})}


def test_a_row_that_was_stored_during_a_search_has_a_position(layout: Layout, known: Known) -> None:
    assert known.positions({4}).last == 4
    grown(layout, said("more"))
    assert known.positions({4}).last == 4
    assert known.positions({5}).of({5}) == {5: 5}


def test_calls_of_our_tools_are_looked_for_in_new_rows_only(layout: Layout, known: Known) -> None:
    assert known.calls() == {3}
    assert known.count == 4
    grown(layout, called("Bash", "{}"), called("smart_compact_get", "{}"))
    known.refresh()
    assert known.calls() == {3, 6}


def test_a_flag_that_moves_changes_nothing_that_is_known(layout: Layout, known: Known) -> None:
    known.refresh()
    echoes, turns, positions = known.echoes, known.turns, known.positions({1})
    store(layout, "s", *ROWS, dropped=[0, 1])
    known.refresh()
    assert (known.echoes, known.turns, known.positions({1})) == (echoes, turns, positions)


def test_rows_that_are_gone_make_everything_unknown(path: Path, known: Known, asked: list[str]) -> None:
    """Nothing of ours deletes a row; a person with another program may."""
    assert known.of_roles({1, 2}, ("user", "assistant")) == {1, 2}
    other = apsw.Connection(str(path))
    other.execute("DELETE FROM lines WHERE message_seq < 3; DELETE FROM messages WHERE seq < 3")
    other.close()
    known.refresh()
    assert (known.count, known.of_roles({1, 2, 3}, ("user", "assistant"))) == (2, {3})
    assert len(asked) == 2
