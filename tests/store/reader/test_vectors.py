"""The rows nearest to a query's vector."""

import math
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import source, vectors
from openmem_store.reader.scope import Rows, Scope
from openmem_store.reader.vectors import NEAREST, Nearest

from tests.embeddings import vector
from tests.store.reader.conversation import called, replied, returned, said, store
from tests.store.reader.embedded import EAST, NORTH, UP, embed

EVERYTHING = Scope(("user", "assistant", "tool"), None, include_echoes=False)


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    with source.opened(path) as connection:
        vectors.load(connection)
        yield connection


def nearest(path: Path, query: bytes, chosen: Scope = EVERYTHING, model: str = "m") -> Nearest:
    with opened(path) as connection:
        found = vectors.nearest(connection, model, query, chosen, Rows(connection, chosen))
        return Nearest(found.similarity, found.mean, found.deviation)


def seqs(found: Nearest) -> list[int]:
    return list(found.similarity)


def test_rows_come_by_cosine_whatever_their_vectors_length(layout: Layout) -> None:
    path = store(layout, "s", said("a"), said("b"), said("c"))
    embed(path, {1: UP, 2: (10.0, 1.0, 0.0), 3: (0.1, 0.1, 0.0)})
    found = nearest(path, vector(*EAST))
    assert seqs(found) == [2, 3, 1]
    assert found.similarity[3] == pytest.approx(math.sqrt(0.5), abs=1e-6)
    assert found.mean == pytest.approx(sum(found.similarity.values()) / 3, abs=1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"", id="given up"),
        pytest.param(vector(1, 0), id="another length"),
        pytest.param(vector(0, 0, 0), id="zero"),
        pytest.param(struct.pack("<3f", math.nan, 1, 0), id="no number"),
        pytest.param(struct.pack("<3f", math.inf, 1, 0), id="infinite"),
        pytest.param(vector(*EAST) + b"\1", id="no whole numbers"),
    ],
)
def test_what_cannot_be_compared_is_passed_over(layout: Layout, bad: bytes) -> None:
    path = store(layout, "s", said("a"), said("b"))
    embed(path, {1: bad, 2: NORTH})
    assert seqs(nearest(path, vector(*EAST))) == [2]


def test_a_row_that_lies_about_its_length_is_passed_over(layout: Layout) -> None:
    path = embed(store(layout, "s", said("a"), said("b")), {1: EAST, 2: NORTH})
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE vectors SET dim = 4 WHERE message_seq = 1")
    connection.execute("UPDATE vectors SET dim = 3, blob = x'00' WHERE message_seq = 2")
    connection.close()
    assert seqs(nearest(path, vector(*EAST))) == []
    assert seqs(nearest(path, vector(1, 0, 0, 0))) == []


def test_only_vectors_of_the_model_count(layout: Layout) -> None:
    path = embed(store(layout, "s", said("a"), said("b")), {1: EAST}, model="other")
    embed(path, {2: NORTH})
    assert seqs(nearest(path, vector(*EAST))) == [2]
    assert seqs(nearest(path, vector(*EAST), model="other")) == [1]


@pytest.mark.parametrize(
    ("roles", "in_context", "expected"),
    [
        (("user",), None, [1, 4]),
        (("user", "tool"), None, [1, 3, 4]),
        (("user", "assistant", "tool"), False, [1, 2]),
        (("tool",), True, [3]),
        (("tool",), False, []),
    ],
)
def test_filters_are_those_of_the_words(
    layout: Layout, roles: tuple[str, ...], in_context: bool | None, expected: list[int]
) -> None:
    path = store(layout, "s", said("a"), replied("b"), returned("Bash", "c"), said("d"), dropped=[0, 1])
    embed(path, {1: EAST, 2: (1.0, 0.1, 0.0), 3: (1.0, 0.2, 0.0), 4: (1.0, 0.3, 0.0)})
    assert seqs(nearest(path, vector(*EAST), Scope(roles, in_context, include_echoes=False))) == expected


def test_our_own_answers_are_never_near(layout: Layout) -> None:
    own = "mcp__openmem__smart_compact_search"
    path = store(layout, "s", said("a"), called(own, "{}"), returned(own, "b"), said("c"))
    embed(path, {1: NORTH, 2: EAST, 3: EAST, 4: UP})
    assert sorted(seqs(nearest(path, vector(*EAST)))) == [1, 4]
    echoes_too = Scope(EVERYTHING.roles, None, include_echoes=True)
    assert seqs(nearest(path, vector(*EAST), echoes_too))[:2] == [2, 3]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, tuple[str, list[float]]]]:
    """Return a session of 900 rows with random vectors, and what each is: most of the assistant, few of tools."""
    layout = Layout(tmp_path_factory.mktemp("store") / "context")
    layout.prepare()
    chance = random.Random(7)
    roles = [chance.choices(("assistant", "user", "tool"), (60, 35, 5))[0] for _ in range(900)]
    make = {"assistant": replied, "user": said, "tool": lambda text: returned("Bash", text)}
    path = store(layout, "s", *(make[role](f"row {number}") for number, role in enumerate(roles)))
    points = {seq: [chance.gauss(0, 1) for _ in range(8)] for seq in range(1, 901)}
    embed(path, points)
    return path, {seq: (roles[seq - 1], point) for seq, point in points.items()}


def exact(rows: dict[int, tuple[str, list[float]]], query: list[float], roles: tuple[str, ...]) -> list[int]:
    def cosine(one: list[float]) -> float:
        return sum(a * b for a, b in zip(one, query, strict=True)) / math.hypot(*one) / math.hypot(*query)

    passing = [(cosine(point), seq) for seq, (role, point) in rows.items() if role in roles]
    return [seq for _, seq in sorted(passing, reverse=True)[:NEAREST]]


@pytest.mark.parametrize("roles", [("user", "assistant", "tool"), ("user",), ("user", "tool"), ("tool",)])
def test_no_neighbour_is_missed_however_few_rows_pass(
    crowd: tuple[Path, dict[int, tuple[str, list[float]]]], roles: tuple[str, ...]
) -> None:
    """The way is another for rare rows; the result is that of comparing them all."""
    path, rows = crowd
    for seed in range(5):
        chance = random.Random(seed)
        query = [chance.gauss(0, 1) for _ in range(8)]
        found = nearest(path, vector(*query), Scope(roles, None, include_echoes=False))
        assert seqs(found) == exact(rows, query, roles)


def test_near_rows_that_the_filters_take_are_made_up_for(layout: Layout) -> None:
    """All rows nearest to the query are the assistant's; the sample cannot know."""
    drafts = [*(replied(f"a {n}") for n in range(300)), *(said(f"u {n}") for n in range(300))]
    path = store(layout, "s", *drafts)
    embed(path, {seq: (1.0, seq / 1e4, 0.0) if seq <= 300 else (0.0, 1.0, seq / 1e4) for seq in range(1, 601)})
    found = nearest(path, vector(*EAST), Scope(("user",), None, include_echoes=False))
    assert len(found.similarity) == NEAREST
    assert min(found.similarity) > 300


def test_similarities_of_other_rows_are_told_when_asked_for(layout: Layout) -> None:
    path = embed(store(layout, "s", said("a"), said("b"), said("c")), {1: EAST, 2: NORTH, 3: b""})
    with opened(path) as connection:
        found = vectors.nearest(connection, "m", vector(*EAST), EVERYTHING, Rows(connection, EVERYTHING))
        assert found.of([1, 2, 3, 99]) == {1: pytest.approx(1), 2: pytest.approx(0)}


def test_a_session_without_vectors_has_no_near_rows(layout: Layout) -> None:
    assert nearest(store(layout, "s", said("a")), vector(*EAST)) == Nearest({})


def test_the_function_that_loads_libraries_stays_off(layout: Layout) -> None:
    with opened(store(layout, "s", said("a"))) as connection, pytest.raises(apsw.Error, match="not authorized"):
        connection.execute("SELECT load_extension('x')")
