"""How far the embedding of a session is, counted as it grows."""

from pathlib import Path

import apsw
from openmem_store import missing
from openmem_store.layout import Layout
from openmem_store.missing import Progress
from openmem_store.reader import source
from openmem_store.reader.progress import Counter

from tests.store.reader.conversation import said, store
from tests.store.reader.embedded import EAST, NORTH, embed

TEXTS = ("one", " \n", "three", " " * 70 + "late", " " * 300, "six")


def progress(counter: Counter, path: Path, model: str = "m") -> Progress:
    with source.opened(path) as connection:
        found = counter.progress(connection, path, model)
        assert found == missing.progress(connection, model, max_chars=200)
        return found


def models(counter: Counter, path: Path) -> dict[str, int]:
    with source.opened(path) as connection:
        return counter.models(connection, path)


def test_counts_follow_a_session_that_grows(layout: Layout) -> None:
    counter = Counter(200)
    path = store(layout, "s", *map(said, TEXTS[:3]))
    assert progress(counter, path) == Progress(pending=2)
    embed(path, {1: EAST, 3: b""})
    assert progress(counter, path) == Progress(filled=1, skipped=1)
    store(layout, "s", *map(said, TEXTS))
    assert progress(counter, path) == Progress(filled=1, pending=2, skipped=1)
    embed(path, {4: NORTH})
    assert progress(counter, path) == Progress(filled=2, pending=1, skipped=1)


def test_models_are_counted_apart_and_one_that_only_gave_up_is_none(layout: Layout) -> None:
    counter = Counter(200)
    path = store(layout, "s", *map(said, TEXTS))
    assert models(counter, path) == {}
    embed(path, {1: EAST, 3: NORTH})
    embed(path, {1: EAST}, model="small")
    embed(path, {1: b""}, model="failed")
    assert models(counter, path) == {"m": 2, "small": 1}
    assert progress(counter, path, "small") == Progress(filled=1, pending=3)


def test_vectors_that_were_replaced_are_counted_once(layout: Layout) -> None:
    counter = Counter(200)
    path = embed(store(layout, "s", *map(said, TEXTS)), {1: EAST, 3: NORTH})
    assert models(counter, path) == {"m": 2}
    embed(path, {1: NORTH, 3: b""})
    assert models(counter, path) == {"m": 1}
    assert progress(counter, path) == Progress(filled=1, pending=2, skipped=1)


def test_a_file_in_the_place_of_another_is_counted_from_the_start(layout: Layout) -> None:
    counter = Counter(200)
    path = embed(store(layout, "s", *map(said, TEXTS)), {1: EAST})
    progress(counter, path)
    path.rename(path.with_name("old.db"))
    assert progress(counter, store(layout, "s", said("x"))) == Progress(pending=1)


def test_few_files_are_remembered(layout: Layout, monkeypatch: object) -> None:
    counter = Counter(200)
    counter.MOST = 2  # type: ignore[misc]
    for sid in ("a", "b", "c", "a"):
        assert progress(counter, store(layout, sid, said("x"))) == Progress(pending=1)
    assert len(counter._known) == 2


def test_a_session_of_version_one_has_counts_too(layout: Layout) -> None:
    path = embed(store(layout, "s", said("x")), {1: EAST})
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE events")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert progress(Counter(200), path) == Progress(filled=1)
