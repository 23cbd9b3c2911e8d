"""The indexes in memory: as exact as a scan, and as new as the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import source, vectors
from openmem_store.reader.vectorindex import Indexes
from openmem_store.reader.vectors import Scan

from tests.embeddings import vector
from tests.store.reader.conversation import said, store
from tests.store.reader.embedded import EAST, NORTH, UP, embed

QUERY = vector(*EAST)


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    with source.opened(path) as connection:
        vectors.load(connection)
        yield connection


@pytest.fixture
def path(layout: Layout) -> Path:
    return embed(store(layout, "s", said("a"), said("b"), said("c")), {1: NORTH, 2: (1.0, 0.5, 0.0), 3: UP})


@pytest.fixture
def indexes() -> Indexes:
    return Indexes(large=2)


def ask(indexes: Indexes, path: Path, *, count: int = 3) -> Scan | None:
    with opened(path) as connection:
        return indexes.scan(connection, path, "m", count, QUERY)


def asked(indexes: Indexes, path: Path, limit: int = 10) -> list[int]:
    with opened(path) as connection:
        scan = indexes.scan(connection, path, "m", 3, QUERY)
        assert scan is not None
        found = scan(QUERY, limit)
        assert found is not None
        return [seq for seq, _ in found]


def test_a_session_is_scanned_until_its_index_is_there(indexes: Indexes, path: Path) -> None:
    assert ask(indexes, path) is None
    indexes.wait()
    assert asked(indexes, path)[0] == 2
    assert asked(indexes, path, 1) == [2]


def test_a_small_session_gets_none(indexes: Indexes, path: Path) -> None:
    assert ask(indexes, path, count=1) is None
    indexes.wait()
    assert ask(indexes, path, count=1) is None


def test_distances_are_those_of_a_scan(indexes: Indexes, path: Path) -> None:
    ask(indexes, path)
    indexes.wait()
    with opened(path) as connection:
        scan = indexes.scan(connection, path, "m", 3, QUERY)
        assert scan is not None
        exact = connection.execute("SELECT message_seq, vec_distance_cosine(blob, ?) FROM vectors", (QUERY,))
        assert dict(scan(QUERY, 3) or []) == {seq: pytest.approx(distance, abs=1e-6) for seq, distance in exact}


def test_vectors_stored_since_are_found(indexes: Indexes, path: Path) -> None:
    ask(indexes, path)
    indexes.wait()
    assert asked(indexes, path)[0] == 2
    embed(path, {3: EAST})
    assert asked(indexes, path)[0] == 3


def test_what_cannot_be_compared_is_left_out(indexes: Indexes, path: Path) -> None:
    embed(path, {1: (0.0, 0.0, 0.0), 3: vector(1, 0)})
    ask(indexes, path)
    indexes.wait()
    assert asked(indexes, path) == [2]


def test_a_file_in_the_place_of_another_is_another_session(indexes: Indexes, path: Path, layout: Layout) -> None:
    ask(indexes, path)
    indexes.wait()
    for file in layout.sessions.iterdir():
        file.rename(file.with_name(file.name.replace("s.db", "old.db")))
    embed(store(layout, "s", said("x")), {1: UP})
    assert ask(indexes, path) is None
    indexes.wait()
    assert asked(indexes, path) == [1]


def test_more_neighbours_than_the_index_gives_are_left_to_a_scan(indexes: Indexes, path: Path) -> None:
    ask(indexes, path)
    indexes.wait()
    with opened(path) as connection:
        scan = indexes.scan(connection, path, "m", 3, QUERY)
        assert scan is not None
        assert scan(QUERY, 4097) is None


def test_the_index_used_longest_ago_makes_room(layout: Layout) -> None:
    paths = [
        embed(store(layout, sid, said("a"), said("b"), said("c")), {1: NORTH, 2: EAST, 3: UP}) for sid in ("a", "b")
    ]
    indexes = Indexes(large=2, most_bytes=50)
    for path in paths:
        ask(indexes, path)
        indexes.wait()
    assert ask(indexes, paths[1]) is not None
    assert ask(indexes, paths[0]) is None
    assert ask(Indexes(large=2, most_bytes=10), paths[0]) is None


def test_a_file_that_went_away_leaves_no_index(indexes: Indexes, path: Path) -> None:
    with opened(path) as connection:
        path.rename(path.with_name("other.db"))
        path.write_bytes(b"not a database " * 200)
        assert indexes.scan(connection, path, "m", 3, QUERY) is None
        indexes.wait()
        assert indexes.scan(connection, path, "m", 3, QUERY) is None
