from collections.abc import Callable

import pytest
from openmem_store.delta import Delta, Fresh, Index, Known, apply, compare, stored
from openmem_store.rows import Row

Say = Callable[..., tuple[Row, ...]]


def index_of(rows: tuple[Row, ...], **flags: bool) -> Index:
    """Return an index that has `rows` in order; `out` and `blob` set the flags of all."""
    return {
        row.fingerprint: Known(seq, not flags.get("out", False), flags.get("blob", False))
        for seq, row in enumerate(rows, 1)
    }


def test_what_is_not_stored_is_added_after_the_highest_seq(say: Say) -> None:
    rows = say("a", "b", "c")
    index = {"other": Known(7, True, False)}
    change = compare(index, rows, dropped=[1], cut=2, owned=0, blobs={0: "b0"})
    assert change == Delta(
        added=(Fresh(8, rows[0], True, "b0"), Fresh(9, rows[1], False, None), Fresh(10, rows[2], True, None)),
        left=(),
        returned=(),
        blobs=(),
        cut=10,
    )
    apply(index, change)
    assert index == {
        "other": Known(7, True, False),
        rows[0].fingerprint: Known(8, True, True),
        rows[1].fingerprint: Known(9, False, False),
        rows[2].fingerprint: Known(10, True, False),
    }


def test_only_flags_that_differ_change(say: Say) -> None:
    rows = say("a", "b", "c", "d")
    index = index_of(rows)
    change = compare(index, rows, dropped=[1, 2], cut=3, owned=0, blobs={})
    assert change == Delta((), (rows[1].fingerprint, rows[2].fingerprint), (), (), 4)
    apply(index, change)
    assert not compare(index, rows, dropped=[1, 2], cut=3, owned=0, blobs={})
    back = compare(index, rows, dropped=[1], cut=3, owned=0, blobs={})
    assert back == Delta((), (), (rows[2].fingerprint,), (), 4)


def test_rows_of_another_lane_keep_their_flags_but_are_added_when_missing(say: Say) -> None:
    rows = say("a", "b", "c")
    index = index_of(rows[1:], out=True)
    change = compare(index, rows, dropped=[], cut=None, owned=2, blobs={})
    assert change == Delta((Fresh(3, rows[0], True, None),), (), (rows[2].fingerprint,), (), None)


def test_a_blob_is_named_once(say: Say) -> None:
    rows = say("a", "b")
    index = index_of(rows)
    change = compare(index, rows, dropped=[], cut=None, owned=2, blobs={1: "x"})
    assert change == Delta((), (), (), ((rows[1].fingerprint, "x"),), None)
    apply(index, change)
    assert not compare(index, rows, dropped=[], cut=None, owned=2, blobs={1: "x"})


def test_nothing_to_write_is_false(say: Say) -> None:
    rows = say("a", "b")
    assert not compare(index_of(rows), rows, dropped=[], cut=1, owned=0, blobs={})
    assert not compare({}, (), dropped=[], cut=None, owned=0, blobs={})


def test_a_row_given_twice_is_added_once(say: Say) -> None:
    rows = say("a")
    assert len(compare({}, rows + rows, dropped=[], cut=None, owned=0, blobs={}).added) == 1


UNCHANGED = {
    "the same again": ((0, 1, 2, 3), {1}, 0, {2}, 3),
    "more rows": ((0, 1, 2, 3, 4), {1}, 0, {2, 4}, 3),
    "more rows, some of them dropped": ((0, 1, 2, 3, 4), {1, 3}, 0, {2}, 3),
    "a row more dropped": ((0, 1, 2, 3), {0, 1}, 0, {2}, 0),
    "a row less dropped": ((0, 1, 2, 3), set(), 0, {2}, 0),
    "a row compressed": ((0, 1, 2, 3), {1}, 0, {1, 2}, 0),
    "another lane": ((0, 1, 2, 3), {1}, 1, {2}, 0),
    "fewer rows": ((0, 1), {1}, 0, set(), 0),
    "another history": ((9, 1, 2, 3), {1}, 0, {2}, 0),
}


@pytest.mark.parametrize("case", UNCHANGED)
def test_what_the_request_before_stored_is_looked_at_again_only_when_it_changed(say: Say, case: str) -> None:
    places, dropped, owned, blobs, expected = UNCHANGED[case]
    before = say("a", "b", "c")
    index = {row.fingerprint: Known(seq, in_context=True, blob=False) for seq, row in enumerate(before, 1)}
    held = stored(index, before, {1}, 0, {2})
    assert held is not None
    rows = say(*("abcde"[place] if place < 5 else "x" for place in places))
    assert held.unchanged(index, rows, dropped, owned, blobs) == expected
    assert held.unchanged(dict(index), rows, dropped, owned, blobs) == 0, "the database was read again"


def test_nothing_is_remembered_of_a_request_without_rows() -> None:
    assert stored({}, (), (), 0, ()) is None
