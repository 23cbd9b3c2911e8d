"""Pages of a long text."""

import pytest
from openmem_store.layout import Layout
from openmem_store.reader import pages
from openmem_store.reader.answers import MOST_WEIGHT, RefusedError, weight

from tests.store.reader.conversation import said, store


@pytest.mark.parametrize(
    "text",
    ["", "short", "x" * 100_000, "木😀\n" * 40_000, "\0" * 50_000, "a\r\nb\u2028" * 20_000],
    ids=["empty", "short", "long", "wide", "escaped", "line ends"],
)
def test_pages_join_to_the_stored_text(text: str) -> None:
    joined, offset, count = "", 0, 0
    while True:
        page = pages.cut(text, offset, MOST_WEIGHT)
        assert page.total_characters == len(text)
        assert weight(page.text) <= MOST_WEIGHT
        joined += page.text
        count += 1
        if page.next_offset is None:
            break
        assert page.next_offset > offset
        offset = page.next_offset
    assert joined == text
    assert count < 40


def test_a_page_has_the_size_that_was_asked_for() -> None:
    assert pages.cut("abcdef", 2, 3) == pages.Page(2, 6, "cde", 5)
    assert pages.cut("abcdef", 3, 3) == pages.Page(3, 6, "def", None)
    assert pages.cut("abcdef", 6, 3) == pages.Page(6, 6, "", None)


def test_an_offset_behind_the_end_is_refused() -> None:
    with pytest.raises(RefusedError, match="offset must be at most 3"):
        pages.cut("abc", 4, 1)


def test_a_row_is_read_whole(layout: Layout) -> None:
    database = store(layout, "s", said("one"), said("two\nlines"))
    assert pages.row(database, 2) == "two\nlines"
    with pytest.raises(RefusedError, match="seq 3 is not in this session"):
        pages.row(database, 3)
