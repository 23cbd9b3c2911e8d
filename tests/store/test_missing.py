"""Which rows wait for a vector, and in what order."""

from pathlib import Path

import pytest
from openmem_store import missing, schema
from openmem_store.layout import Layout
from openmem_store.missing import Missing, Progress
from openmem_store.rows import chain
from openmem_store.writer import SessionWriter

from tests.embeddings import vector
from tests.store.reader.conversation import VERSION, said, store

TEXTS = ("first", "second", "third", "fourth")


def fingerprints(*texts: str) -> list[str]:
    return [row.fingerprint for row in chain(map(said, texts))]


def embed(path: Path, model: str, vectors: dict[str, bytes]) -> None:
    writer = SessionWriter(path, version=VERSION)
    try:
        writer.store_vectors(model, vectors)
    finally:
        writer.close()


def rows(path: Path, **more: object) -> list[Missing]:
    connection = schema.open_reader(path)
    try:
        return missing.rows(connection, "m", **{"max_chars": 100, "limit": 10, **more})  # type: ignore[arg-type]
    finally:
        connection.close()


def progress(path: Path, model: str = "m", max_chars: int = 100) -> Progress:
    connection = schema.open_reader(path)
    try:
        return missing.progress(connection, model, max_chars=max_chars)
    finally:
        connection.close()


def test_trimmed_rows_come_first_and_then_the_newest(layout: Layout) -> None:
    path = store(layout, "s", *map(said, TEXTS), dropped=[0, 1])
    assert [(row.seq, row.head) for row in rows(path)] == [(2, "second"), (1, "first"), (4, "fourth"), (3, "third")]
    assert [row.fingerprint for row in rows(path, limit=1)] == [fingerprints(*TEXTS)[1]]


def test_rows_that_have_a_vector_of_the_model_are_not_missing(layout: Layout) -> None:
    path = store(layout, "s", *map(said, TEXTS))
    first, second, third, _ = fingerprints(*TEXTS)
    embed(path, "m", {first: vector(1, 0), second: b""})
    embed(path, "other", {third: vector(1)})
    assert [row.seq for row in rows(path)] == [4, 3]


def test_rows_that_failed_come_last_and_rows_set_aside_not_at_all(layout: Layout) -> None:
    path = store(layout, "s", *map(said, TEXTS))
    first, second, third, fourth = fingerprints(*TEXTS)
    found = rows(path, failed={fourth: 2, second: 1}, aside={third})
    assert [row.seq for row in found] == [1, 4, 2]
    assert [row.seq for row in rows(path, failed={fourth: 2, first: 1}, limit=3)] == [3, 2, 4]


@pytest.mark.parametrize("blank", ["", " ", "\n\t \r\v\f", " " * 200 + "late"])
def test_a_row_whose_head_is_blank_is_never_missing(layout: Layout, blank: str) -> None:
    path = store(layout, "s", said("a"), said(blank), said("b"))
    assert [row.seq for row in rows(path)] == [3, 1]
    assert progress(path) == Progress(pending=2)


def test_the_head_is_counted_in_code_points(layout: Layout) -> None:
    (row,) = rows(store(layout, "s", said("天🌤é" * 10)), max_chars=4)
    assert row.head == "天🌤é天"


def test_progress_counts_what_is_done_what_waits_and_what_was_given_up(layout: Layout) -> None:
    path = store(layout, "s", *map(said, TEXTS))
    first, second, *_ = fingerprints(*TEXTS)
    embed(path, "m", {first: vector(1, 0), second: b""})
    assert progress(path) == Progress(filled=1, pending=2, skipped=1)
    assert progress(path, "other") == Progress(pending=4)
    assert progress(path) + Progress(1, 2, 3) == Progress(2, 4, 4)
