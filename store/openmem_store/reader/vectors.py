"""Own the search for the rows nearest to a query's vector, by a scan or, in a large session, by an index.

Both are exact. What cannot be compared (another length, a zero vector, numbers that are none, a row
given up) is passed over.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import fmean, pstdev
from typing import cast

import apsw
import msgspec

from openmem_store.embedding import dimensions
from openmem_store.reader.scope import Rows, Scope

NEAREST = 50
"""Rows taken from the vectors' side."""

SAMPLE = 128
"""Vectors that stand for all: for the middle of the similarities, and for how many rows pass the filters."""

RARE = 0.3
"""Share of rows that pass the filters, below which only those are compared: it costs a look-up for each."""

_NONE = 9.0
"""Stands for the distance of what cannot be compared; a real one is at most 2."""

_WHERE = "v.model = ?1 AND v.dim = ?2 AND length(v.blob) = 4 * ?2"
# CASE keeps the function from what it would refuse, in whatever order SQLite takes the conditions.
_DISTANCE = f"CASE WHEN {_WHERE} THEN vec_distance_cosine(v.blob, ?3) END"
# What has no distance comes last by a number above all: NULLS LAST computes each distance twice (measured).
_ORDERED = f"coalesce({_DISTANCE}, {_NONE})"
_SCAN = f"""
SELECT v.message_seq, {_ORDERED} AS d FROM main.vectors v WHERE {_WHERE} ORDER BY d LIMIT ?4"""
_FILTERED = f"""
SELECT v.message_seq, {_ORDERED} AS d FROM main.vectors v CROSS JOIN main.messages m ON m.seq = v.message_seq
WHERE {_WHERE} AND m.role IN (SELECT value FROM json_each(?5)) AND (?6 IS NULL OR m.in_context = ?6)
ORDER BY d LIMIT ?4"""
_SAMPLE = f"""
SELECT m.role, m.in_context, {_DISTANCE} AS d
FROM json_each(?4) s CROSS JOIN main.vectors v ON v.rowid = s.value JOIN main.messages m ON m.seq = v.message_seq
WHERE d IS NOT NULL"""
_SOME = f"""
SELECT v.message_seq, {_DISTANCE} AS d FROM json_each(?4) s CROSS JOIN main.vectors v ON v.message_seq = s.value
WHERE v.model = ?1 AND d IS NOT NULL"""

Scan = Callable[[bytes, int], "list[tuple[int, float]] | None"]
"""From a query's vector and a number to so many nearest rows of the session and their distances, or None."""


class Nearest(msgspec.Struct, frozen=True):
    """The rows nearest to a query."""

    similarity: dict[int, float]
    """Cosine by `seq`, the nearest first."""
    mean: float = 0.0
    """Of the similarities of the session's rows."""
    deviation: float = 1.0
    of: Callable[[Collection[int]], dict[int, float]] = lambda seqs: {}
    """From other rows to the similarities of those that have one."""


NOTHING = Nearest({})
"""Of a session without vectors, where another has some."""


def load(connection: apsw.Connection) -> None:
    """Give a connection the functions of sqlite-vec, and not the SQL function that loads others."""
    import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]

    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)


def nearest(
    connection: apsw.Connection, model: str, query: bytes, scope: Scope, rows: Rows, *, index: Scan | None = None
) -> Nearest:
    """Return the `NEAREST` rows of a session that pass the filters and are no echo.

    `connection` has sqlite-vec loaded; `index` is asked before the vectors are scanned.
    """
    given = (model, dimensions(query), query)
    sample = _sampled(connection, given)
    passing = sum(1 for role, in_context, _ in sample if _passes(scope, role, in_context))
    similarities = [1 - distance for *_, distance in sample]
    similarity = _first(connection, given, scope, rows, passing / max(1, len(sample)), index)

    def of(seqs: Collection[int]) -> dict[int, float]:
        found = connection.execute(_SOME, (*given, msgspec.json.encode(list(seqs)).decode()))
        return {seq: 1 - distance for seq, distance in cast("Iterable[tuple[int, float]]", found)}

    spread = pstdev(similarities) if len(similarities) > 1 else 0.0
    return Nearest(similarity, fmean(similarities) if similarities else 0.0, spread or 1.0, of)


def _first(
    connection: apsw.Connection,
    given: tuple[str, int, bytes],
    scope: Scope,
    rows: Rows,
    share: float,
    index: Scan | None,
) -> dict[int, float]:
    """Return the nearest rows: of all, with enough beyond for those that the filters take, or of the passing ones."""
    if share >= RARE:
        limit = NEAREST + int(1.5 * NEAREST / share)
        found = index(given[2], limit) if index else None
        if found is None:
            found = _distances(connection.execute(_SCAN, (*given, limit)))
        kept = _kept(found, rows)
        if len(kept) == NEAREST or len(found) < limit:
            return kept
    filters = (msgspec.json.encode(scope.roles).decode(), scope.in_context)
    limit = 2 * NEAREST
    while True:  # echoes are told only by looking at them
        found = _distances(connection.execute(_FILTERED, (*given, limit, *filters)))
        kept = _kept(found, rows)
        if len(kept) == NEAREST or len(found) < limit:
            return kept
        limit *= 4


def _kept(found: Sequence[tuple[int, float]], rows: Rows) -> dict[int, float]:
    allowed = rows.allowed([seq for seq, _ in found])
    kept = [(seq, 1 - distance) for seq, distance in found if distance < _NONE and seq in allowed]
    return dict(kept[:NEAREST])


def _sampled(connection: apsw.Connection, given: tuple[str, int, bytes]) -> list[tuple[str, int, float]]:
    """Return role, in_context and distance of vectors spread evenly over the table."""
    last = cast("int | None", connection.execute("SELECT max(rowid) FROM main.vectors").get)
    chosen = list(range(1, (last or 0) + 1, max(1, -(-(last or 0) // SAMPLE))))
    found = connection.execute(_SAMPLE, (*given, msgspec.json.encode(chosen).decode()))
    return cast("list[tuple[str, int, float]]", found.fetchall())


def _distances(found: apsw.Cursor) -> list[tuple[int, float]]:
    return cast("list[tuple[int, float]]", found.fetchall())


def _passes(scope: Scope, role: str, in_context: int) -> bool:
    return role in scope.roles and (scope.in_context is None or bool(in_context) == scope.in_context)
