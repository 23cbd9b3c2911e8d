"""Time of the 50 nearest rows under a filter, and of a search by words and vectors.

Nearest: against a bare sqlite-vec scan of the same vectors, without filter, table of messages or echoes. Both
sides open the file for each call. Recall is against all cosines computed in numpy. Hybrid: against the sum of the
same search by words alone and of the nearest rows; the query's vector is given, so that no model is timed.
"""

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw
import numpy
import ratio
from corpus import RARE, Corpus
from openmem_store import embedding
from openmem_store.reader import scope, search, source, vectors
from openmem_store.reader.hybrid import Hybrid
from openmem_store.reader.vectorindex import Indexes
from openmem_store.rows import Draft, chain
from openmem_store.settings import Settings
from openmem_store.writer import SessionWriter

AT = "2026-01-01T00:00:00Z"
MODEL = "m"
SCAN = """SELECT message_seq, vec_distance_cosine(blob, ?) AS d FROM vectors WHERE model = 'm' ORDER BY d LIMIT 50"""
FILTERS = {
    "every row": ("user", "assistant", "tool"),
    "assistant (five sixths)": ("assistant",),
    "user and tool (a sixth)": ("user", "tool"),
    "user (a twentieth)": ("user",),
}


def built(folder: Path, count: int, dim: int) -> tuple[Path, numpy.ndarray, list[str]]:
    """Store `count` rows of a few hundred characters with random vectors in clusters."""
    chance = numpy.random.default_rng(7)
    corpus = Corpus()
    text = [row.text for row in corpus.rows(400, 4_000)]
    roles = chance.choice(["assistant", "tool", "user"], size=count, p=[0.5, 0.45, 0.05]).tolist()
    roles = [
        "tool" if role == "tool" and place % 4 == 0 else "assistant" if role == "tool" else role
        for place, role in enumerate(roles)
    ]
    kinds = {"assistant": "text", "tool": "tool_result", "user": "text"}
    drafts = [
        Draft(role, kinds[role], None, f"{place} {text[place % len(text)][:600]}") for place, role in enumerate(roles)
    ]
    rows = chain(drafts)
    middles = chance.normal(size=(64, dim))
    points = (middles[chance.integers(0, 64, count)] + chance.normal(size=(count, dim))).astype("<f4")
    path = folder / "sessions" / f"{count}x{dim}.db"
    writer = SessionWriter(path, version="bench")
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at=AT)
    for start in range(0, count, 5_000):
        part = {row.fingerprint: points[start + at].tobytes() for at, row in enumerate(rows[start : start + 5_000])}
        writer.store_vectors(MODEL, part)
    writer.checkpoint()
    writer.close()
    return path, points, roles


def bare(path: Path, query: bytes) -> list[int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    vectors.load(connection)
    found = [seq for seq, _ in connection.execute(SCAN, (query,))]
    connection.close()
    return found


def nearest(path: Path, query: bytes, roles: Sequence[str], indexes: Indexes | None, count: int) -> list[int]:
    chosen = scope.Scope(tuple(roles), None, False)
    with source.opened(path) as connection:
        vectors.load(connection)
        index = indexes.scan(connection, path, MODEL, count, query) if indexes else None
        rows = scope.Rows(connection, chosen)
        return list(vectors.nearest(connection, MODEL, query, chosen, rows, index=index).similarity)


def exact(points: numpy.ndarray, roles: Sequence[str], query: bytes, chosen: Sequence[str]) -> set[int]:
    vector = numpy.frombuffer(query, dtype="<f4").astype("f8")
    cosines = points.astype("f8") @ vector / numpy.linalg.norm(points.astype("f8"), axis=1)
    cosines[~numpy.isin(roles, chosen)] = -numpy.inf
    return {int(place) + 1 for place in numpy.argsort(-cosines)[: vectors.NEAREST]}


def compare(path: Path, points: numpy.ndarray, roles: list[str], repeats: int) -> None:
    count = len(points)
    query = (points[7] + points[11] / 2).astype("<f4").tobytes()
    indexes = Indexes()
    ways: list[tuple[str, Indexes | None]] = [("scan", None)]
    if count >= 50_000:
        nearest(path, query, FILTERS["every row"], indexes, count)
        indexes.wait()
        ways.append(("index", indexes))
    for way, kept in ways:
        for name, chosen in FILTERS.items():
            ours = partial(nearest, path, query, chosen, kept, count)
            recall = len(exact(points, roles, query, chosen).intersection(ours())) / vectors.NEAREST
            title = f"{path.stem} {way}, {name}, recall {recall:.3f}"
            print(ratio.line(title, *ratio.in_turn(ours, partial(bare, path, query), repeats), bound=1.3))


class Given:
    def __init__(self, query: bytes) -> None:
        self._query = query

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        return [self._query for _ in texts]


def hybrid(path: Path, points: numpy.ndarray, repeats: int) -> None:
    count = len(points)
    query = (points[7] + points[11] / 2).astype("<f4").tobytes()
    embedding.connect = lambda settings, model: Given(query)  # type: ignore[assignment]
    kept = Hybrid(Settings(root=path.parent, embedding_model=MODEL), patience_s=60)
    words = f"{RARE[0]} {Corpus().common(20)} {Corpus().common(100)}"
    request = search.Request(scope.Scope(("user", "tool"), None, False), 8)

    def searched(mode: str) -> search.Answer:
        given = search.Request(request.scope, 8, mode=mode)  # type: ignore[arg-type]
        return search.search(words, given, {"s": path}, why="bench", hybrid=kept)

    assert searched("hybrid").mode == "hybrid"
    kept.indexes.wait()
    both, parts = [], []
    for _ in range(repeats):
        both.append(ratio.timed(partial(searched, "hybrid")))
        near = ratio.timed(partial(nearest, path, query, ("user", "tool"), kept.indexes, count))
        parts.append(ratio.timed(partial(searched, "lexical")) + near)
    print(ratio.line(f"{path.stem} hybrid against words + nearest", both, parts, bound=1.3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=["10000x384", "100000x768"])
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for size in given.sizes:
            count, dim = map(int, size.split("x"))
            path, points, roles = built(Path(temporary), count, dim)
            compare(path, points, roles, given.repeats)
            hybrid(path, points, given.repeats)


if __name__ == "__main__":
    main()
