"""What an answer shows of a row."""

import apsw
import pytest
from openmem_store import schema
from openmem_store.layout import Layout
from openmem_store.reader import results, scope, source
from openmem_store.reader.echoes import ANSWER_MARKER

from tests.store.reader.conversation import Draft, returned, said, store

EVERYTHING = scope.Scope(("user", "assistant", "tool"), None, include_echoes=False)


def show(layout: Layout, draft: Draft, hit: results.Hit, size: int = 1500) -> results.Result:
    with source.opened(store(layout, "s", draft)) as connection:
        rows = scope.Rows(connection, EVERYTHING)
        return results.show(connection, hit, rows, lambda text, skipped: (), size=size, context=0)


def test_a_short_row_is_shown_whole(layout: Layout) -> None:
    shown = show(layout, said("one\ntwo"), results.Hit("s", 1, spans=((2, 0, 3),), matching_lines=1))
    assert (shown.excerpt, shown.matching_lines) == ("one\ntwo", None)


def test_a_long_row_is_shown_by_its_matching_lines(layout: Layout) -> None:
    text = "\n".join(f"line {n}" for n in range(1000))
    spans = ((7, text.index("line 6"), 0), (900, text.index("line 899"), 0))
    shown = show(layout, returned("Bash", text), results.Hit("s", 1, spans=spans, matching_lines=40))
    assert (shown.excerpt, shown.matching_lines) == ("7: line 6\n900: line 899", 40)


def test_a_long_row_without_known_lines_is_shown_by_its_head(layout: Layout) -> None:
    shown = show(layout, said("x" * 9000), results.Hit("s", 1), size=100)
    assert shown.excerpt == "x" * 99 + "…"


def test_excerpts_share_the_room_of_an_answer() -> None:
    assert results.excerpt_size(1) == results.EXCERPT
    assert results.excerpt_size(50) * 50 <= 20_000
    assert results.excerpt_size(0) == results.EXCERPT


def test_an_answer_keeps_its_first_result_however_large() -> None:
    large = results.Result("s", 1, "user", "text", True, "t", "now", excerpt="x" * 100_000)
    assert results.fitting([large, large]) == (large,)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            schema.UnsupportedSchema("path/s.db"),
            "written by another version of this program, which this one does not read",
        ),
        (apsw.NotADBError("path/s.db"), "damaged"),
        (apsw.CorruptError("path/s.db"), "damaged"),
        (apsw.SQLError("no such table"), "damaged"),
        ("CorruptError", "damaged"),
        (schema.NothingStored("path/s.db"), "empty: nothing was stored in it yet"),
        (apsw.BusyError("path/s.db"), "locked for over a second; try again"),
        (apsw.IOError("path/s.db"), "not readable (IOError)"),
    ],
)
def test_a_session_that_cannot_be_read_is_named_without_its_path(error: Exception | str, said: str) -> None:
    assert results.unreadable(error) == said


def test_the_excerpt_of_a_mixed_row_leaves_our_answer_out(layout: Layout) -> None:
    shown = show(layout, returned("exec", 'kept\n{"note":"' + ANSWER_MARKER + '"}\nalso kept'), results.Hit("s", 1))
    assert shown.excerpt == "kept\nalso kept"
